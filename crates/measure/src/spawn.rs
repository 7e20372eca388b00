//! Starting worker processes so that they cannot outlive this one.
//!
//! The kernel kills a worker when its parent dies. It ties that signal to the *thread* that started the child, so all
//! workers are started by one thread that lives as long as the process.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{OnceLock, mpsc};

/// The program that is a worker when started with these arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerCommand {
    /// The executable.
    pub program: PathBuf,
    /// What makes it call [`worker_main`](crate::worker_main).
    pub args: Vec<String>,
}

/// How this program is started once more, where that is not by its executable alone.
static AGAIN: OnceLock<WorkerCommand> = OnceLock::new();

impl WorkerCommand {
    /// Says how this program is started once more: for one that is a library inside an interpreter, whose executable
    /// knows nothing of talweg. Only the first call counts.
    pub fn start_again_by(command: WorkerCommand) {
        AGAIN.get_or_init(|| command);
    }

    /// This program once more, to be given any arguments of the command line.
    pub fn again() -> io::Result<WorkerCommand> {
        match AGAIN.get() {
            Some(command) => Ok(command.clone()),
            None => Ok(WorkerCommand { program: std::env::current_exe()?, args: Vec::new() }),
        }
    }

    /// This program once more, with the argument `worker`.
    pub fn this_program() -> io::Result<WorkerCommand> {
        let mut command = WorkerCommand::again()?;
        command.args.push("worker".into());
        Ok(command)
    }
}

impl std::fmt::Display for WorkerCommand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.program.display())?;
        self.args.iter().try_for_each(|a| write!(f, " {a}"))
    }
}

struct SpawnOrder {
    command: WorkerCommand,
    memory_limit: u64,
    cores: Vec<usize>,
    reply: mpsc::Sender<io::Result<Child>>,
}

/// Starts the process on the thread that starts all of them. It may run on these cores only, on any without them.
pub(crate) fn spawn(command: WorkerCommand, memory_limit: u64, cores: Vec<usize>) -> io::Result<Child> {
    static SPAWNER: OnceLock<mpsc::Sender<SpawnOrder>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, orders) = mpsc::channel::<SpawnOrder>();
        // Should the thread not start, the orders are dropped and every caller gets an error.
        let _ = std::thread::Builder::new().name("worker-spawner".into()).spawn(move || {
            for order in orders {
                let child = spawn_here(&order.command, order.memory_limit, &order.cores);
                if let Err(mpsc::SendError(Ok(mut child))) = order.reply.send(child) {
                    // Whoever ordered it is gone.
                    let _ = child.kill();
                    let _ = child.wait();
                }
            }
        });
        sender
    });
    let gone = || io::Error::other("the thread that starts workers is gone");
    let (reply, answer) = mpsc::channel();
    spawner.send(SpawnOrder { command, memory_limit, cores, reply }).map_err(|_| gone())?;
    answer.recv().map_err(|_| gone())?
}

fn spawn_here(command: &WorkerCommand, memory_limit: u64, cores: &[usize]) -> io::Result<Child> {
    let affinity = core_set(cores);
    let parent = std::process::id();
    let mut process = Command::new(&command.program);
    process
        .args(&command.args)
        .env(crate::crash::LIMIT_VARIABLE, memory_limit.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // An interrupt from the keyboard is for the pool, which then takes its workers along.
        .process_group(0);
    // SAFETY: between fork and exec the closure only makes system calls that are safe there; it allocates nothing.
    unsafe {
        process.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(io::Error::last_os_error());
            }
            // The parent may have died before the signal was arranged.
            if libc::getppid() as u32 != parent {
                libc::_exit(1);
            }
            if let Some(set) = &affinity {
                // Where this is not allowed, the worker is only less well placed.
                libc::sched_setaffinity(0, size_of_val(set), set);
            }
            set_limit(libc::RLIMIT_DATA, memory_limit)?;
            set_limit(libc::RLIMIT_CORE, 0)
        });
    }
    process.spawn()
}

/// The cores as the system wants them; `None` for none.
pub(crate) fn core_set(cores: &[usize]) -> Option<libc::cpu_set_t> {
    if cores.is_empty() {
        return None;
    }
    // SAFETY: a CPU set is plain bits, for which zero is a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &core in cores.iter().filter(|c| **c < libc::CPU_SETSIZE as usize) {
        // SAFETY: the index is below the number of bits in the set.
        unsafe { libc::CPU_SET(core, &mut set) };
    }
    Some(set)
}

fn set_limit(resource: libc::__rlimit_resource_t, value: u64) -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a writable structure of the right type.
    if unsafe { libc::getrlimit(resource, &mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    limit.rlim_max = limit.rlim_max.min(value);
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: `limit` is a readable structure of the right type.
    if unsafe { libc::setrlimit(resource, &limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
