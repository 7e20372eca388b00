//! What the tests of the pool share: kernels from C text, a task, a pool on this crate's test worker.
#![allow(dead_code)]

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use talweg_ir::{Array, DType, Nest};
use talweg_measure::{MeasureOptions, Measurer, Task, WorkerCommand};

/// The kernels that stand for nests of their name: what follows `float *A, float *B` of 256 elements each.
const KERNELS: [(&str, &str); 11] = [
    ("good", "for (int i = 0; i < 256; i++) B[i] = 2 * A[i];"),
    ("endless", "for (;;) __asm__ volatile(\"pause\");"),
    ("segfault", "*(volatile int *)8 = 1;"),
    ("illegal", "__asm__ volatile(\"ud2\");"),
    ("hoarder", "for (;;) { char *p = map(1 << 24); for (int i = 0; i < 1 << 24; i += 4096) p[i] = 1; }"),
    (
        "patient_hoarder",
        "for (;;) { char *p = map(1 << 20); if ((long)p > 0) for (int i = 0; i < 1 << 20; i += 4096) p[i] = 1; }",
    ),
    ("wrong", "for (int i = 0; i < 256; i++) B[i] = 2 * A[i] + (i == 7);"),
    ("lazy", "for (int i = 0; i < 255; i++) B[i] = 2 * A[i];"),
    (
        "forgetful",
        "static int calls; for (int i = 0; i < 256; i++) B[i] = calls > 3 ? 0 : 2 * A[i]; calls++;",
    ),
    ("overrun", "for (int i = 0; i < 257; i++) B[i] = 2 * A[i];"),
    ("scribbler", "for (int i = 0; i < 256; i++) A[i] = B[i] = 2 * A[i];"),
];

const PRELUDE: &str = "
static inline char *map(long bytes) {
    register long flags __asm__(\"r10\") = 0x22, fd __asm__(\"r8\") = -1, offset __asm__(\"r9\") = 0;
    long result;
    __asm__ volatile(\"syscall\" : \"=a\"(result)
        : \"a\"(9L), \"D\"(0L), \"S\"(bytes), \"d\"(3L), \"r\"(flags), \"r\"(fd), \"r\"(offset)
        : \"rcx\", \"r11\", \"memory\");
    return (char *)result;
}
void kernel(void *const *buffers, char *workspace, const void *parallel) {
    float *A = buffers[0], *B = buffers[1];
    (void)map; (void)A; (void)B; (void)workspace; (void)parallel;
";

/// A directory of objects, gone with the value.
pub struct Workshop {
    directory: PathBuf,
}

impl Workshop {
    pub fn new() -> Workshop {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let unique =
            format!("talweg-measure-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let directory = std::env::temp_dir().join(unique);
        std::fs::create_dir_all(&directory).unwrap();
        let workshop = Workshop { directory };
        for (name, body) in KERNELS {
            workshop.kernel(name, body);
        }
        std::fs::write(workshop.path("not_an_object.o"), b"something else").unwrap();
        workshop
    }

    /// Compiles a kernel's body.
    pub fn kernel(&self, name: &str, body: &str) {
        self.kernel_after(name, "", body);
    }

    /// Compiles a kernel's body behind other definitions.
    pub fn kernel_after(&self, name: &str, definitions: &str, body: &str) {
        let source = self.path(&format!("{name}.c"));
        std::fs::write(&source, format!("{definitions}{PRELUDE}{body}\n}}\n")).unwrap();
        let status = Command::new("cc")
            .args(["-c", "-O1", "-fPIC", "-ffreestanding", "-fno-stack-protector", "-o"])
            .args([self.path(&format!("{name}.o")), source])
            .status();
        assert!(status.unwrap().success(), "{name}");
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// A pool of two build workers with the default settings, changed as asked.
    pub fn measurer(&self, change: impl FnOnce(&mut MeasureOptions)) -> Measurer {
        let mut options = MeasureOptions::new(talweg_target::Target::host()).unwrap();
        options.build_workers = 2;
        options.command = WorkerCommand {
            program: env!("CARGO_BIN_EXE_talweg-measure-worker").into(),
            args: vec!["worker".into(), self.directory.display().to_string()],
        };
        change(&mut options);
        Measurer::new(options).unwrap()
    }

    /// `A` is random, `B` must be twice as large.
    pub fn task(&self) -> Task {
        let a = Array::random(DType::F32, &[256], 42);
        let twice: Vec<f32> = a.as_f32().unwrap().iter().map(|x| 2.0 * x).collect();
        let b = Array::from_f32(DType::F32, &[256], &twice).unwrap();
        Task::new(&[("A", &a)], &[("B", &b)], 1e-6).unwrap()
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// The nest that doubles 256 numbers, under the given name.
pub fn doubled(name: &str) -> Nest {
    let text = format!(
        "nest {name} {{
  input A: f32[256]
  output B: f32[256]
  for i in 0..256 {{
    B[i] = A[i] * 2.0
  }}
}}"
    );
    Nest::parse(&text).unwrap()
}

/// Whether a process exists and has not ended; one that nobody waited for yet has ended.
pub fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).is_some_and(|s| s != "Z")
}

/// Waits until a condition holds; fails after a generous time.
pub fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < patience, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process has computed for some time, as one in an endless kernel has.
pub fn is_busy(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    // The eleventh field after the name is the processor time in hundredths of a second.
    after_name.split_whitespace().nth(11).and_then(|t| t.parse::<u64>().ok()).is_some_and(|ticks| ticks >= 20)
}
