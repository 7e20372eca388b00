//! Runs a nest as machine code and in the interpreter, and compares.

use talweg_codegen::{Compiled, Options, compile};
use talweg_ir::{Array, Nest, Role, TensorId, compare, run_nest};
use talweg_runtime::{AlignedBuffer, KernelMeta, LoadedObject, Parallel, ThreadPool};
use talweg_target::Target;

/// Parses a nest.
pub fn nest(text: &str) -> Nest {
    Nest::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// The targets whose code can run here.
#[allow(dead_code)]
pub fn targets() -> Vec<Target> {
    let all = ["host", "avx512", "avx2", "neon"].map(|n| Target::named(n).expect("a known name"));
    all.into_iter().filter(|t| t.can_run_here().is_ok()).collect()
}

fn shape(nest: &Nest, id: TensorId) -> Vec<usize> {
    nest.buffer(id).shape.iter().map(|e| e.as_int().expect("a constant") as usize).collect()
}

/// An array of random values for every argument.
pub fn random_arguments(nest: &Nest, seed: u64) -> Vec<(TensorId, Array)> {
    nest.arguments()
        .into_iter()
        .map(|id| (id, Array::random(nest.buffer(id).dtype, &shape(nest, id), seed + u64::from(id.0))))
        .collect()
}

/// Runs compiled code on the arguments, in place. Bytes around the buffers are checked.
pub fn execute(compiled: &Compiled, args: &mut [(TensorId, Array)], threads: usize) {
    let object = LoadedObject::load(&compiled.object).expect("the object loads");
    // SAFETY: the code generator gives its exported function this signature, and `object` lives to the end.
    let kernel = unsafe { object.kernel(&compiled.meta.name) }.expect("the kernel is exported");
    const FENCE: usize = 128;
    const MARK: u8 = 0xa5;
    let mut buffers: Vec<AlignedBuffer> = args
        .iter()
        .map(|(_, array)| {
            let bytes = array.bytes();
            let mut b = AlignedBuffer::zeroed(bytes.len() + 2 * FENCE).expect("memory");
            let view = b.view_mut::<u8>();
            view.fill(MARK);
            view[FENCE..FENCE + bytes.len()].copy_from_slice(bytes);
            b
        })
        .collect();
    // SAFETY: the fence lies inside the allocation.
    let pointers: Vec<*mut u8> = buffers.iter_mut().map(|b| unsafe { b.as_mut_ptr().add(FENCE) }).collect();
    let meta = KernelMeta {
        name: compiled.meta.name.clone(),
        shared_bytes: compiled.meta.shared_bytes,
        scratch_bytes: compiled.meta.scratch_bytes,
    };
    let size = meta.workspace_bytes(threads);
    let mut workspace = AlignedBuffer::zeroed(size + FENCE).expect("memory");
    workspace.view_mut::<u8>().fill(MARK);
    let pool = ThreadPool::new(threads).expect("threads");
    let serial = Parallel::serial();
    let table = if threads == 1 { &serial } else { pool.parallel() };
    // SAFETY: the pointers are as many, as large and as aligned as the kernel's arguments, the workspace has the size
    // it asks for, and the table outlives the call.
    unsafe { kernel(pointers.as_ptr(), workspace.as_mut_ptr(), table) };
    assert!(workspace.view::<u8>()[size..].iter().all(|b| *b == MARK), "the workspace was overrun");
    for ((id, array), b) in args.iter_mut().zip(&buffers) {
        let len = array.bytes().len();
        let view = b.view::<u8>();
        let around = view[..FENCE].iter().chain(&view[FENCE + len..]);
        assert!(around.into_iter().all(|b| *b == MARK), "buffer {} was overrun", id.0);
        array.bytes_mut().copy_from_slice(&view[FENCE..FENCE + len]);
    }
}

/// Compiles and runs a nest on every target of this machine, and compares with the interpreter.
#[allow(dead_code)]
pub fn check(text: &str, tolerance: f64) {
    check_nest(&nest(text), tolerance, 1);
}

/// Like [`check`], with threads.
#[allow(dead_code)]
pub fn check_nest(nest: &Nest, tolerance: f64, threads: usize) {
    let args = random_arguments(nest, 7);
    let mut expected = args.clone();
    run_nest(nest, &mut expected).unwrap_or_else(|e| panic!("{e}"));
    for target in targets() {
        let options = Options { verify: true, ..Options::default() };
        let compiled = compile(nest, &target, &options).unwrap_or_else(|e| panic!("{e}"));
        // The interpreter fills packed buffers; the code gets them ready.
        let mut got: Vec<(TensorId, Array)> = expected
            .iter()
            .zip(&args)
            .map(|(e, a)| if nest.buffer(e.0).role == Role::Packed { e.clone() } else { a.clone() })
            .collect();
        execute(&compiled, &mut got, threads);
        for ((id, e), (_, g)) in expected.iter().zip(&got) {
            let d = compare(e, g);
            let name = &nest.buffer(*id).name;
            assert!(d.within(tolerance), "{} on {}: `{name}`: {d}", nest.name, target.isa.name());
        }
    }
}
