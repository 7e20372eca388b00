//! Loop nests to machine code through LLVM.
//!
//! A concrete nest (no knobs left) becomes one position-independent object with one exported function
//! `void name(buffers, workspace, parallel)`; see `talweg_runtime::abi` for its meaning. The emitter writes the code it
//! wants and runs no optimisation passes: it unrolls, vectorises and keeps accumulators in registers itself.
//!
//! | module | holds |
//! |---|---|
//! | `plan`, `linear`, `layout` | the nest as the emitter walks it: flattened addresses, effects of loops, workspace |
//! | `isa`, `machine` | what the target can do; LLVM's target machines |
//! | `emitter`, `kernel`, `parallel` | the state of emission; functions; outlined parallel loops |
//! | `loops`, `branch` | control flow, and registers across it |
//! | `env`, `index` | what variables stand for; index arithmetic and addresses |
//! | `load`, `store`, `guard`, `cache` | memory accesses, guarded reads, reuse of loads |
//! | `accesses`, `promote` | which elements live in registers |
//! | `prefetch` | fetching the next panel of packed constants while one is in use |
//! | `value`, `math` | arithmetic, conversions and math functions |
//! | `ops` | a thin layer over the LLVM builder |

mod accesses;
mod branch;
mod cache;
mod emitter;
mod env;
mod error;
mod guard;
mod index;
mod isa;
mod kernel;
mod layout;
mod linear;
mod load;
mod loops;
mod machine;
mod math;
mod ops;
mod parallel;
mod plan;
mod prefetch;
mod promote;
mod store;
mod value;

use std::time::Instant;

use inkwell::context::Context;
use inkwell::targets::FileType;
use talweg_ir::{Nest, TensorId};
use talweg_target::Target;

pub use error::CodegenError;

use emitter::Emitter;
use isa::Isa;
use ops::Ops;
use plan::Plan;

/// How to compile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Give up on nests that unroll to more instructions than this, or a quarter of it without a loop or branch:
    /// such code takes seconds to compile and does not fit the instruction cache.
    pub instruction_limit: usize,
    /// Check the generated LLVM code before compiling it; for tests and debugging.
    pub verify: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { instruction_limit: 40_000, verify: cfg!(debug_assertions) }
    }
}

/// What a caller must know about a kernel besides its code.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KernelMeta {
    /// The kernel's symbol in its object.
    pub name: String,
    /// Bytes of workspace that all workers share.
    pub shared_bytes: usize,
    /// Bytes of workspace that each worker has for itself, after the shared ones.
    pub scratch_bytes: usize,
}

/// A compiled nest.
#[derive(Debug, Clone)]
pub struct Compiled {
    /// A position-independent ELF object.
    pub object: Vec<u8>,
    /// Its symbol and workspace.
    pub meta: KernelMeta,
    /// The buffers whose pointers the function takes, in order.
    pub arguments: Vec<TensorId>,
    /// How long it took.
    pub compile_seconds: f64,
}

/// Compiles a concrete nest for a target. May be called from any number of threads.
pub fn compile(nest: &Nest, target: &Target, options: &Options) -> Result<Compiled, CodegenError> {
    let start = Instant::now();
    let (object, meta) = produce(nest, target, options, |module, machine| {
        let buffer = machine.write_to_memory_buffer(module, FileType::Object).map_err(|e| e.to_string())?;
        Ok(buffer.as_slice().to_vec())
    })?;
    Ok(Compiled { object, meta, arguments: nest.arguments(), compile_seconds: start.elapsed().as_secs_f64() })
}

/// The LLVM code of a concrete nest, as text.
pub fn emit_llvm(nest: &Nest, target: &Target, options: &Options) -> Result<String, CodegenError> {
    produce(nest, target, options, |module, _| Ok(module.print_to_string().to_string())).map(|(text, _)| text)
}

/// The assembly code of a concrete nest, as text.
pub fn emit_asm(nest: &Nest, target: &Target, options: &Options) -> Result<String, CodegenError> {
    produce(nest, target, options, |module, machine| {
        let buffer = machine.write_to_memory_buffer(module, FileType::Assembly).map_err(|e| e.to_string())?;
        Ok(String::from_utf8_lossy(buffer.as_slice()).trim_end_matches('\0').to_string())
    })
    .map(|(text, _)| text)
}

fn produce<R>(
    nest: &Nest,
    target: &Target,
    options: &Options,
    finish: impl FnOnce(&inkwell::module::Module<'_>, &inkwell::targets::TargetMachine) -> Result<R, String>,
) -> Result<(R, KernelMeta), CodegenError> {
    let llvm = |message: String| CodegenError::Llvm { kernel: nest.name.clone(), message };
    let isa = Isa::of(target);
    let plan = Plan::new(nest, &isa)?;
    let machine = machine::machine(&isa).map_err(llvm)?;
    let context = Context::create();
    let ops = Ops::new(&context, &plan.symbol, &isa);
    ops.module.set_triple(&machine.get_triple());
    ops.module.set_data_layout(&machine.get_target_data().get_data_layout());
    let ops = Emitter::kernel(ops, &plan, &isa, options.instruction_limit)?;
    if options.verify {
        ops.module.verify().map_err(|e| llvm(e.to_string()))?;
    }
    let out = finish(&ops.module, &machine).map_err(llvm)?;
    let meta = KernelMeta {
        name: plan.symbol.clone(),
        shared_bytes: plan.layout.shared_bytes as usize,
        scratch_bytes: plan.layout.scratch_bytes as usize,
    };
    Ok((out, meta))
}

/// The version of LLVM that compiles, for example `19.1.7`: the same program with another version is other code.
pub fn llvm_version() -> String {
    let (major, minor, patch) = inkwell::support::get_llvm_version();
    format!("{major}.{minor}.{patch}")
}
