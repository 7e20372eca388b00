//! P6: machine code computes what the interpreter computes. Integers agree exactly, floats within a bound that grows
//! with the length of the reductions.
//!
//! Every case is a seed: `TALWEG_CASES` sets how many, `TALWEG_SEED` the first. Wrong machine code may end the test
//! process: with `TALWEG_TRACE` each case is printed before it runs.

use talweg::Operator;
use talweg::bench::random_inputs;
use talweg_codegen::{CodegenError, Compiled, Options, compile};
use talweg_ir::{Array, Nest, Role, TensorId, compare, eval_dag, run_pack, verify_nest};
use talweg_ops::Spec;
use talweg_ops::testing::sample_spec;
use talweg_runtime::{AlignedBuffer, KernelMeta, LoadedObject, ThreadPool};
use talweg_schedule::concrete::concretize;
use talweg_schedule::testing::{is_absurd, random_cpu_schedule, tiled_schedule};
use talweg_schedule::{Schedule, analytic};
use talweg_target::Target;

/// Bytes kept around every buffer, and what they hold: NaN for floats, so that reading them shows too.
const FENCE: usize = 128;
const MARK: u8 = 0xff;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

/// What became of a case that did not fail.
#[derive(PartialEq)]
enum Outcome {
    Ran,
    /// The schedule is legal but not worth running: a buffer beyond memory, or code unrolled beyond reason.
    Absurd,
}

/// Runs a check for many seeds; says how many failed and shows the first.
fn for_all(default: u64, check: impl Fn(u64) -> Result<Outcome, String>) {
    let (first, cases) = (setting("TALWEG_SEED", 0), setting("TALWEG_CASES", default));
    let (mut failures, mut absurd) = (Vec::new(), 0);
    for seed in first..first + cases {
        match check(seed) {
            Ok(outcome) => absurd += u64::from(outcome == Outcome::Absurd),
            Err(e) => failures.push(format!("seed {seed}: {e}")),
        }
    }
    assert!(failures.is_empty(), "{} of {cases} cases fail: {}", failures.len(), shown(&failures));
    assert!(absurd * 10 <= cases, "{absurd} of {cases} schedules were too large to run");
}

/// The first failure, or as many as `TALWEG_SHOW` says.
fn shown(failures: &[String]) -> String {
    let count = setting("TALWEG_SHOW", 1) as usize;
    failures.iter().take(count).map(String::as_str).collect::<Vec<_>>().join("\n\n")
}

fn extents(nest: &Nest, id: TensorId) -> Vec<usize> {
    nest.buffer(id).shape.iter().map(|e| e.as_int().expect("concrete") as usize).collect()
}

/// A random operator; every fourth with another element type than f32 or i32, where it has one.
fn sampled(seed: u64, max_elements: i64) -> Spec {
    let spec = sample_spec(seed, max_elements);
    let text = spec.to_string();
    let (float, int) = ([("f16", "i8"), ("bf16", "u8"), ("f16", "i64")])[seed as usize / 4 % 3];
    let other = if text.contains("dtype=i32") {
        text.replace("dtype=i32", &format!("dtype={int}"))
    } else {
        format!("{text},dtype={float}")
    };
    match Spec::parse(&other) {
        Ok(other) if seed.is_multiple_of(4) && other.build().is_ok() => other,
        _ => spec,
    }
}

/// The operator with a schedule, lowered and verified.
fn operator(spec: Spec, schedule: &Schedule) -> Result<Operator, String> {
    let dag = spec.build().map_err(|e| e.to_string())?;
    let lowered = schedule.lower().and_then(|nest| concretize(&nest, &|_| None));
    let nest = lowered.map_err(|e| format!("{spec}\n{}{e}", schedule.trace()))?;
    let operator = Operator { spec, dag, trace: schedule.trace().clone(), nest };
    match verify_nest(&operator.nest) {
        Ok(()) => Ok(operator),
        Err(violations) => Err(format!("{}{}", describe(&operator), violations[0])),
    }
}

fn describe(operator: &Operator) -> String {
    format!("{}\n{}{}\n", operator.spec, operator.trace, operator.nest)
}

/// Bytes between fences.
struct Fenced {
    bytes: AlignedBuffer,
    len: usize,
}

impl Fenced {
    fn new(len: usize) -> Fenced {
        let mut bytes = AlignedBuffer::zeroed(len + 2 * FENCE).expect("memory for a small buffer");
        bytes.view_mut::<u8>().fill(MARK);
        Fenced { bytes, len }
    }

    fn holding(content: &[u8]) -> Fenced {
        let mut out = Fenced::new(content.len());
        out.bytes.view_mut::<u8>()[FENCE..FENCE + content.len()].copy_from_slice(content);
        out
    }

    fn pointer(&mut self) -> *mut u8 {
        self.bytes.view_mut::<u8>()[FENCE..].as_mut_ptr()
    }

    fn content(&self) -> &[u8] {
        &self.bytes.view::<u8>()[FENCE..FENCE + self.len]
    }

    fn is_intact(&self) -> bool {
        let all = self.bytes.view::<u8>();
        all[..FENCE].iter().chain(&all[FENCE + self.len..]).all(|b| *b == MARK)
    }
}

/// The contents of a nest's arguments before it runs; outputs hold marks.
fn arguments(operator: &Operator, given: &[(TensorId, Array)]) -> Result<Vec<(TensorId, Array)>, String> {
    let nest = &operator.nest;
    let array = |name: &str| {
        let from = operator.dag.find(name).expect("arguments keep their names");
        given.iter().find(|(t, _)| *t == from).expect("every input is given").1.clone()
    };
    let content = |id: TensorId| -> Result<Array, String> {
        let b = nest.buffer(id);
        Ok(match b.role {
            Role::Packed => {
                let pack = nest.packs.iter().find(|p| p.packed == id).expect("packed buffers have a pack");
                run_pack(nest, pack, &array(&nest.buffer(pack.source).name)).map_err(|e| e.to_string())?
            }
            Role::Output => {
                let mut out = Array::zeros(b.dtype, &extents(nest, id));
                out.bytes_mut().fill(MARK);
                out
            }
            _ => array(&b.name),
        })
    };
    nest.arguments().into_iter().map(|id| Ok((id, content(id)?))).collect()
}

/// Runs compiled code on the arguments, in place; fences around them and the workspace must survive.
fn execute(compiled: &Compiled, args: &mut [(TensorId, Array)], pool: &ThreadPool) -> Result<(), String> {
    let object = LoadedObject::load(&compiled.object).map_err(|e| e.to_string())?;
    // SAFETY: the code generator gives its exported function this signature, and `object` lives to the end.
    let kernel = unsafe { object.kernel(&compiled.meta.name) }.map_err(|e| e.to_string())?;
    let mut buffers: Vec<Fenced> = args.iter().map(|(_, a)| Fenced::holding(a.bytes())).collect();
    let pointers: Vec<*mut u8> = buffers.iter_mut().map(Fenced::pointer).collect();
    let meta = KernelMeta {
        name: compiled.meta.name.clone(),
        shared_bytes: compiled.meta.shared_bytes,
        scratch_bytes: compiled.meta.scratch_bytes,
    };
    let mut workspace = Fenced::new(meta.workspace_bytes(pool.threads()));
    // SAFETY: the pointers are as many, as large and as aligned as the kernel's arguments, the workspace has the size it
    // asks for, and the pool outlives the call.
    unsafe { kernel(pointers.as_ptr(), workspace.pointer(), pool.parallel()) };
    if !workspace.is_intact() {
        return Err("it wrote outside of its workspace".into());
    }
    for ((id, array), buffer) in args.iter_mut().zip(&buffers) {
        if !buffer.is_intact() {
            return Err(format!("it wrote outside of argument {}", id.0));
        }
        array.bytes_mut().copy_from_slice(buffer.content());
    }
    Ok(())
}

/// Compiles, runs with each pool and compares every output; inputs must be as before.
fn agrees(operator: &Operator, target: &Target, pools: &[ThreadPool]) -> Result<Outcome, String> {
    let nest = &operator.nest;
    if is_absurd(nest) {
        return Ok(Outcome::Absurd);
    }
    if std::env::var_os("TALWEG_TRACE").is_some() {
        eprintln!("{}: {}", target.isa.name(), describe(operator));
    }
    let fail = |e: String| format!("{}: {}{e}", target.isa.name(), describe(operator));
    let options = Options { instruction_limit: 20_000, verify: true };
    let compiled = match compile(nest, target, &options) {
        Ok(compiled) => compiled,
        Err(CodegenError::TooLarge { .. }) => return Ok(Outcome::Absurd),
        Err(e) => return Err(fail(e.to_string())),
    };
    if target.can_run_here().is_err() {
        return Ok(Outcome::Ran);
    }
    let given = random_inputs(&operator.dag);
    let expected = eval_dag(&operator.dag, &given).map_err(|e| fail(e.to_string()))?;
    let before = arguments(operator, &given).map_err(fail)?;
    for pool in pools {
        let mut args = before.clone();
        execute(&compiled, &mut args, pool).map_err(fail)?;
        for ((id, was), (_, is)) in before.iter().zip(&args) {
            let buffer = nest.buffer(*id);
            let wanted = expected.iter().find(|(t, _)| operator.dag.tensor(*t).name == buffer.name);
            let (wanted, tolerance) = match wanted {
                Some((_, wanted)) if buffer.role == Role::Output => (wanted, operator.tolerance()),
                _ => (was, 0.0),
            };
            let difference = compare(wanted, is);
            if !difference.within(tolerance) {
                let threads = pool.threads();
                return Err(fail(format!("{threads} threads: `{}`: {difference}", buffer.name)));
            }
        }
    }
    Ok(Outcome::Ran)
}

/// The targets whose code runs here, by turns, and sometimes one for which it is only compiled.
fn target(seed: u64) -> Target {
    let name = match seed % 8 {
        7 => "neon",
        2 | 5 => "avx2",
        _ => "host",
    };
    Target::named(name).expect("a known target")
}

fn pools() -> Vec<ThreadPool> {
    [1, 2].map(|threads| ThreadPool::new(threads).expect("threads")).into()
}

#[test]
fn random_schedules_compile_to_what_they_mean() {
    let pools = pools();
    for_all(1500, |seed| {
        let spec = sampled(seed + 3_000_000, [100, 600, 3000][seed as usize % 3]);
        let dag = spec.build().map_err(|e| e.to_string())?;
        let schedule = random_cpu_schedule(dag, seed, 4 + (seed % 17) as usize);
        agrees(&operator(spec, &schedule)?, &target(seed), &pools)
    });
}

#[test]
fn tiled_schedules_compile_to_what_they_mean() {
    let pools = pools();
    for_all(1500, |seed| {
        let spec = sampled(seed + 4_000_000, [300, 2000][seed as usize % 2]);
        let dag = spec.build().map_err(|e| e.to_string())?;
        agrees(&operator(spec, &tiled_schedule(dag, seed))?, &target(seed), &pools)
    });
}

#[test]
fn default_schedules_compile_to_what_they_mean() {
    let pools = pools();
    for_all(800, |seed| {
        let spec = sampled(seed + 5_000_000, 4000);
        let dag = spec.build().map_err(|e| e.to_string())?;
        let target = target(seed);
        let trace = analytic::default_trace(&dag, &target);
        let schedule = Schedule::replay(dag, &trace).map_err(|e| format!("{spec}\n{trace}{e}"))?;
        agrees(&operator(spec, &schedule)?, &target, &pools)
    });
}
