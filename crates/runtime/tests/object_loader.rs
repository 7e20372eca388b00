//! Objects compiled by the system's C compiler, loaded and run; damaged ones refused.

use std::path::PathBuf;
use std::process::Command;
use talweg_runtime::object_loader::{LoadError, LoadedObject};
use talweg_runtime::{AlignedBuffer, Parallel, ThreadPool};

/// A directory of this test, removed at its end.
struct TempDir(PathBuf);

impl TempDir {
    fn new(name: &str) -> TempDir {
        let path = std::env::temp_dir().join(format!("talweg-loader-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        TempDir(path)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Compiles C text to an object; `None`, with a printed reason, if there is no C compiler.
fn compile(name: &str, text: &str, flags: &[&str]) -> Option<Vec<u8>> {
    if Command::new("cc").arg("--version").output().is_err() {
        println!("skipped: no C compiler `cc` on this machine");
        return None;
    }
    let dir = TempDir::new(name);
    let (source, object) = (dir.0.join("kernel.c"), dir.0.join("kernel.o"));
    std::fs::write(&source, text).unwrap();
    let output =
        Command::new("cc").args(flags).arg("-c").arg(&source).arg("-o").arg(&object).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(std::fs::read(object).unwrap())
}

const KERNEL: &str = r#"
#include <string.h>
#include <math.h>
typedef void (*body_fn)(void *, long, long, long);
struct parallel { void (*run)(void *, body_fn, void *, long); void *ctx; long threads; };
const float table[4] = {1.0f, 2.0f, 4.0f, 8.0f};
static const float *const pointers[2] = {table + 1, table + 3};
long calls = 5;
static long cold[3];
static void body(void *closure, long begin, long end, long worker) {
    float *out = closure;
    for (long i = begin; i < end; i++) out[i] += table[i & 3] + *pointers[i & 1] * expf(0.0f);
    (void)worker;
}
void kernel(void **buffers, void *workspace, const struct parallel *p) {
    memset(buffers[0], 0, 1000 * sizeof(float));
    (void)workspace;
    p->run(p->ctx, body, buffers[0], 1000);
    calls += 1;
    cold[calls % 3] += calls;
    ((float *)buffers[0])[1000] = (float)(calls + cold[0] + cold[1] + cold[2]);
}
"#;

/// Runs the kernel above twice and checks what it computed.
fn check_kernel(bytes: &[u8], parallel: &Parallel) {
    let object = LoadedObject::load(bytes).unwrap();
    // SAFETY: the C function has the signature of a kernel, and the object outlives the calls.
    let kernel = unsafe { object.kernel("kernel") }.unwrap();
    let mut out = AlignedBuffer::zeroed(1001 * 4).unwrap();
    let buffers = [out.as_mut_ptr()];
    for sum in [6.0 + 6.0, 7.0 + 13.0] {
        // SAFETY: the buffer has the 1001 floats that the kernel writes.
        unsafe { kernel(buffers.as_ptr(), std::ptr::null_mut(), parallel) };
        for (i, &value) in out.view::<f32>()[..1000].iter().enumerate() {
            let expected = [1.0, 2.0, 4.0, 8.0][i & 3] + [2.0, 8.0][i & 1];
            assert_eq!(value, expected, "element {i}");
        }
        assert_eq!(out.view::<f32>()[1000], sum);
    }
    let table = object.symbol("table").unwrap();
    // SAFETY: the object defines `table` as four floats.
    assert_eq!(unsafe { *table.cast::<[f32; 4]>() }, [1.0, 2.0, 4.0, 8.0]);
    assert!(object.symbol("absent").is_none());
}

#[test]
fn c_kernels_load_and_run_on_both_tables() {
    let pool = ThreadPool::new(2).unwrap();
    for (i, flags) in [
        ["-O2", "-fPIC", "-fno-builtin"].as_slice(),
        &["-O0", "-fPIC"],
        &["-O2", "-fPIC", "-fno-plt", "-ffunction-sections", "-fdata-sections", "-fno-builtin"],
        &["-O2", "-fPIC", "-fvisibility=hidden"],
    ]
    .into_iter()
    .enumerate()
    {
        let Some(bytes) = compile(&format!("run{i}"), KERNEL, flags) else { return };
        check_kernel(&bytes, &Parallel::serial());
        check_kernel(&bytes, pool.parallel());
    }
}

#[test]
fn unknown_symbols_are_named() {
    let text = "void launch_rocket(void); void kernel(void) { launch_rocket(); }";
    let Some(bytes) = compile("unknown", text, &["-O2", "-fPIC"]) else { return };
    let error = LoadedObject::load(&bytes).unwrap_err();
    assert_eq!(error, LoadError::UndefinedSymbol { name: "launch_rocket".into() });
    assert!(error.to_string().contains("launch_rocket"));
}

#[test]
fn missing_kernels_list_what_there_is() {
    let Some(bytes) = compile("missing", "void there(void) {} int data = 1;", &["-fPIC"]) else { return };
    let object = LoadedObject::load(&bytes).unwrap();
    for name in ["absent", "data"] {
        // SAFETY: the result is not called.
        let error = unsafe { object.kernel(name) }.unwrap_err();
        assert_eq!(error, LoadError::NoSuchKernel { name: name.into(), defined: "there".into() });
    }
}

#[test]
fn thread_local_storage_is_refused() {
    let text = "__thread int counter = 3; int *kernel(void) { return &counter; }";
    let Some(bytes) = compile("tls", text, &["-O2", "-fPIC"]) else { return };
    assert!(matches!(LoadedObject::load(&bytes), Err(LoadError::Unsupported { .. })));
}

#[test]
fn garbage_is_an_error() {
    for bytes in [b"".as_slice(), b"\x7fELF", b"not an object at all", &[0; 4096], &[0xff; 4096]] {
        let error = LoadedObject::load(bytes).unwrap_err();
        assert!(matches!(error, LoadError::Malformed { .. }), "{error}");
    }
}

#[test]
fn truncated_objects_are_errors() {
    let Some(bytes) = compile("truncated", KERNEL, &["-O2", "-fPIC"]) else { return };
    // The section headers are at the end of the file, so no proper prefix is complete.
    for len in 0..bytes.len() {
        assert!(LoadedObject::load(&bytes[..len]).is_err(), "{len} of {} bytes", bytes.len());
    }
}

#[test]
fn damaged_objects_never_crash_the_loader() {
    let Some(bytes) = compile("damaged", KERNEL, &["-O2", "-fPIC"]) else { return };
    let mut state = 0x1234_5678_9abc_def1u64;
    let mut refused = 0;
    for _ in 0..4000 {
        let mut copy = bytes.clone();
        for _ in 0..3 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let at = (state >> 16) as usize % copy.len();
            copy[at] = state as u8;
        }
        refused += usize::from(LoadedObject::load(&copy).is_err());
    }
    assert!(refused > 0 && refused < 4000, "{refused}");
}
