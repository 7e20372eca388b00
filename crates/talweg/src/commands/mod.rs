//! One file a verb of the command line.

mod advice;
mod against;
pub mod bench;
mod bench_search;
pub mod check;
pub mod colour;
pub mod compile;
pub mod completions;
pub mod config;
pub mod dashboard;
pub mod dataset;
pub mod db;
mod distances;
pub mod doctor;
pub mod explain;
mod interrupt;
pub mod man;
pub mod model;
pub mod op;
mod operator_help;
pub mod profile;
pub mod progress;
pub mod report;
pub mod run;
pub mod settings;
pub mod space;
pub mod tune;
pub mod tune_network;
pub mod tune_request;
mod turns;
pub mod verify;

use std::fmt;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use talweg_artifact::write_whole;
use talweg_ir::Dag;
use talweg_target::available_memory;

/// Where tuning stores what it measured, unless told otherwise: in the current directory.
pub const DEFAULT_DB: &str = "talweg.db";

/// Why a command failed, and with which exit code: 2 for bad input, 3 for wrong results, 1 for everything else.
#[derive(Debug)]
pub enum Failure {
    /// The user must change the input.
    Input(String),
    /// Something went wrong while working on good input.
    Work(String),
    /// Everything worked, and the results are not those of the reference.
    Differs(String),
}

impl Failure {
    /// A failure the user can mend by changing the input.
    pub fn input(error: impl fmt::Display) -> Failure {
        Failure::Input(error.to_string())
    }

    /// A failure of the work itself.
    pub fn work(error: impl fmt::Display) -> Failure {
        Failure::Work(error.to_string())
    }

    /// The same, said of something that has a name.
    fn of(self, name: &str) -> Failure {
        let named = |text: String| format!("{name}: {text}");
        match self {
            Failure::Input(text) => Failure::Input(named(text)),
            Failure::Work(text) => Failure::Work(named(text)),
            Failure::Differs(text) => Failure::Differs(named(text)),
        }
    }

    /// What the process returns.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Input(_) => 2,
            Failure::Work(_) => 1,
            Failure::Differs(_) => 3,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Input(text) | Failure::Work(text) | Failure::Differs(text) => f.write_str(text),
        }
    }
}

/// Writes a result's file, whole or not at all.
pub fn write_file(path: &Path, content: &[u8]) -> Result<(), Failure> {
    let failed = |e| Failure::input(format!("{}: {e}", path.display()));
    write_whole(path, |mut file| file.write_all(content)).map_err(failed)
}

/// Refuses to write over a file that the work begins with.
pub fn check_output<'a>(output: &Path, inputs: impl IntoIterator<Item = &'a PathBuf>) -> Result<(), Failure> {
    let identity = |path: &Path| path.metadata().ok().map(|known| (known.dev(), known.ino()));
    let Some(written) = identity(output).filter(|_| output.is_file()) else { return Ok(()) };
    match inputs.into_iter().find(|input| identity(input) == Some(written)) {
        Some(input) => Err(Failure::input(format!(
            "writing `{}` would replace `{}`, which is read; give another name for the result",
            output.display(),
            input.display()
        ))),
        None => Ok(()),
    }
}

/// Writes to standard output; a reader that went away is no error.
pub fn print(text: &str) -> Result<(), Failure> {
    use std::io::Write;
    let mut out = std::io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::work(format!("cannot write to standard output: {e}")))
        }
        _ => Ok(()),
    }
}

/// Refuses operators whose tensors do not fit into memory, rather than being killed for them later.
pub fn check_memory(dag: &Dag) -> Result<(), String> {
    let bytes =
        |shape: Vec<i64>, element: usize| shape.iter().map(|e| *e as f64).product::<f64>() * element as f64;
    let tensors = dag.tensors.iter().map(|t| bytes(t.const_shape().unwrap_or_default(), t.dtype.bytes()));
    // The interpreter, the shared memory and the worker each have their own.
    let needed = 3.0 * tensors.sum::<f64>();
    let gib = |b: f64| b / f64::from(1 << 30);
    match available_memory() {
        Some(available) if needed > available => Err(format!(
            "checking and timing `{}` takes about {:.1} GiB of memory, and {:.1} GiB are available; make it smaller",
            dag.name,
            gib(needed),
            gib(available)
        )),
        _ => Ok(()),
    }
}

/// Refuses numbers of threads that this process cannot have.
pub fn check_threads(threads: usize) -> Result<(), Failure> {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    if (1..=cores).contains(&threads) {
        return Ok(());
    }
    Err(Failure::input(format!(
        "--threads {threads} is not possible here; give a number from 1 to {cores}, the cores this process may use"
    )))
}

/// How long ago this process started, as far as the system tells: loading the program is part of it.
pub fn process_age() -> Duration {
    // Times in `/proc` are given in hundredths of a second on all Linux systems talweg runs on.
    const TICKS: f64 = 100.0;
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let stat = read("/proc/self/stat");
    // The name of the program, in parentheses, may hold spaces. The start is the 20th field after it.
    let start = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(19)?.parse::<f64>().ok());
    let uptime = read("/proc/uptime").split_whitespace().next().and_then(|t| t.parse::<f64>().ok());
    let age = uptime.zip(start).map_or(0.0, |(now, start)| now - start / TICKS);
    // Without a sensible answer the clock starts now.
    if (0.0..3600.0).contains(&age) { Duration::from_secs_f64(age) } else { Duration::ZERO }
}
