//! Compiles a nest from its text, runs it on random arguments and prints how long both take.
//!
//! `cargo run --release -p talweg-codegen --example time_nest -- FILE [asm | llvm | FLOPS]`

use std::time::Instant;

use talweg_codegen::{Options, compile, emit_asm, emit_llvm};
use talweg_ir::{Array, Nest};
use talweg_runtime::{AlignedBuffer, KernelMeta, LoadedObject, Parallel};
use talweg_target::Target;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let file = args.next().ok_or("usage: time_nest FILE [asm | llvm | FLOPS]")?;
    let nest = Nest::parse(&std::fs::read_to_string(file)?)?;
    let target = Target::host();
    let options = Options { verify: false, ..Options::default() };
    let mode = args.next();
    match mode.as_deref() {
        Some("asm") => {
            println!("{}", emit_asm(&nest, &target, &options)?);
            return Ok(());
        }
        Some("llvm") => {
            println!("{}", emit_llvm(&nest, &target, &options)?);
            return Ok(());
        }
        _ => {}
    }
    let first = compile(&nest, &target, &options)?;
    let mut best = first.compile_seconds;
    for _ in 0..10 {
        best = best.min(compile(&nest, &target, &options)?.compile_seconds);
    }
    println!("codegen {:.2} ms (first {:.2})", best * 1e3, first.compile_seconds * 1e3);

    let object = LoadedObject::load(&first.object)?;
    // SAFETY: the code generator gives its exported function this signature, and `object` lives to the end.
    let kernel = unsafe { object.kernel(&first.meta.name)? };
    let mut buffers = Vec::new();
    for id in &first.arguments {
        let b = nest.buffer(*id);
        let shape: Option<Vec<usize>> =
            b.shape.iter().map(|e| e.as_int().and_then(|e| usize::try_from(e).ok())).collect();
        let array = Array::random(b.dtype, &shape.ok_or("a shape is open")?, u64::from(id.0));
        let mut buffer = AlignedBuffer::zeroed(array.bytes().len())?;
        buffer.view_mut::<u8>().copy_from_slice(array.bytes());
        buffers.push(buffer);
    }
    let pointers: Vec<*mut u8> = buffers.iter_mut().map(AlignedBuffer::as_mut_ptr).collect();
    let meta = KernelMeta {
        name: first.meta.name.clone(),
        shared_bytes: first.meta.shared_bytes,
        scratch_bytes: first.meta.scratch_bytes,
    };
    let mut workspace = AlignedBuffer::zeroed(meta.workspace_bytes(1))?;
    let serial = Parallel::serial();
    let mut run = || {
        // SAFETY: the pointers are the kernel's arguments in order and of their sizes, the workspace is large enough
        // for one worker, and the table outlives the call.
        unsafe { kernel(pointers.as_ptr(), workspace.as_mut_ptr(), &serial) };
    };
    let begin = Instant::now();
    let mut best = f64::INFINITY;
    while begin.elapsed().as_secs_f64() < 1.5 {
        let start = Instant::now();
        run();
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!("{:.2} us", best * 1e6);
    if let Some(flops) = mode.and_then(|f| f.parse::<f64>().ok()) {
        println!("{:.1} GFLOP/s", flops / best / 1e9);
    }
    Ok(())
}
