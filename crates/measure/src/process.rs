//! One worker process seen from the pool: started, spoken to with a deadline, killed, and its end explained.
//!
//! Workers cannot outlive the pool's process: the kernel kills them when it dies, and they exit when their standard
//! input ends.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, ExitStatus};
use std::time::{Duration, Instant};

use crate::crash::OUT_OF_MEMORY_EXIT;
use crate::error::{MeasureError, Stage, is_own_fault, signal_name};
use crate::spawn::{WorkerCommand, spawn};
use crate::wire::{self, Reply, Request};

/// How much of a worker's standard error is kept: its end.
const STDERR_KEPT: usize = 8 << 10;
/// How long a worker may take to say hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a worker may take to die after it closed its pipes.
const DEATH_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a worker did not answer. It is dead afterwards.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It took too long and was killed. `memory` is what it had allocated.
    TimedOut { memory: Option<u64>, stderr: String },
    /// It ended.
    Died { status: ExitStatus, stderr: String },
    /// It answered something else than a frame and was killed.
    Garbled { text: String, stderr: String },
}

/// A running worker.
#[derive(Debug)]
pub(crate) struct Worker {
    child: Child,
    stdin: ChildStdin,
    stdout: ChildStdout,
    stderr: ChildStderr,
    tail: Vec<u8>,
}

impl Worker {
    /// Starts a worker, on these cores only if there are any, and waits for its hello.
    pub fn start(
        command: &WorkerCommand,
        memory_limit: u64,
        cores: &[usize],
    ) -> Result<Worker, MeasureError> {
        let spawn_error = |text: String| MeasureError::Spawn { command: command.to_string(), text };
        let mut child =
            spawn(command.clone(), memory_limit, cores.to_vec()).map_err(|e| spawn_error(e.to_string()))?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            end(&mut child);
            return Err(spawn_error("it has no pipes".into()));
        };
        let mut worker = Worker { child, stdin, stdout, stderr, tail: Vec::new() };
        for fd in [worker.stdin.as_raw_fd(), worker.stdout.as_raw_fd(), worker.stderr.as_raw_fd()] {
            set_nonblocking(fd).map_err(|e| spawn_error(e.to_string()))?;
        }
        match worker.receive(Instant::now() + HELLO_TIMEOUT) {
            Ok((Reply::Hello { version: wire::VERSION }, _)) => Ok(worker),
            Ok((Reply::Hello { version }, _)) => Err(spawn_error(format!(
                "it speaks version {version} of the protocol instead of {}; start the same program",
                wire::VERSION
            ))),
            Ok((other, _)) => Err(spawn_error(format!("it began with {other:?}"))),
            Err(Failure::TimedOut { stderr, .. }) => {
                Err(spawn_error(format!("it said nothing for {HELLO_TIMEOUT:?}; {stderr}")))
            }
            Err(Failure::Died { status, stderr }) => Err(spawn_error(format!("{status}; {stderr}"))),
            Err(Failure::Garbled { text, stderr }) => Err(spawn_error(format!("{text}; {stderr}"))),
        }
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has not ended.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends a request and waits for the reply. After a failure the worker is dead.
    pub fn call(
        &mut self,
        request: &Request,
        payload: &[u8],
        timeout: Duration,
    ) -> Result<(Reply, Vec<u8>), Failure> {
        let deadline = Instant::now() + timeout;
        self.tail.clear();
        let sent = wire::encode(request, payload.len()).and_then(|head| {
            let mut pipes = Pipes { worker: self, deadline };
            pipes.write_all(&head)?;
            pipes.write_all(payload)
        });
        match sent {
            Ok(()) => self.receive(deadline),
            Err(error) => Err(self.explain(error)),
        }
    }

    fn receive(&mut self, deadline: Instant) -> Result<(Reply, Vec<u8>), Failure> {
        let mut pipes = Pipes { worker: self, deadline };
        match wire::read(&mut pipes) {
            Ok(Some(reply)) => Ok(reply),
            Ok(None) => Err(self.explain(io::ErrorKind::UnexpectedEof.into())),
            Err(error) => Err(self.explain(error)),
        }
    }

    /// What an error on the pipes means. Ends the worker.
    fn explain(&mut self, error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::TimedOut => {
                let memory = allocated_bytes(self.child.id());
                self.end();
                Failure::TimedOut { memory, stderr: self.last_words() }
            }
            io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe => {
                let deadline = Instant::now() + DEATH_TIMEOUT;
                while Instant::now() < deadline {
                    if let Ok(Some(status)) = self.child.try_wait() {
                        return Failure::Died { status, stderr: self.last_words() };
                    }
                    std::thread::sleep(Duration::from_micros(200));
                }
                self.end();
                let text = "it closed its pipes and went on".into();
                Failure::Garbled { text, stderr: self.last_words() }
            }
            _ => {
                self.end();
                Failure::Garbled { text: error.to_string(), stderr: self.last_words() }
            }
        }
    }

    fn last_words(&mut self) -> String {
        self.drain_stderr();
        String::from_utf8_lossy(&self.tail).into_owned()
    }

    /// Takes what the standard error holds at the moment.
    fn drain_stderr(&mut self) {
        let mut buffer = [0u8; 4096];
        while let Ok(n @ 1..) = self.stderr.read(&mut buffer) {
            self.tail.extend_from_slice(&buffer[..n]);
            if self.tail.len() > 2 * STDERR_KEPT {
                self.tail.drain(..self.tail.len() - STDERR_KEPT);
            }
        }
        let excess = self.tail.len().saturating_sub(STDERR_KEPT);
        self.tail.drain(..excess);
    }

    /// Waits until `fd` is ready, keeping the standard error flowing.
    fn wait_for(&mut self, fd: RawFd, events: i16, deadline: Instant) -> io::Result<()> {
        let mut stderr_open = true;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let stderr = if stderr_open { self.stderr.as_raw_fd() } else { -1 };
            let mut fds = [
                libc::pollfd { fd, events, revents: 0 },
                libc::pollfd { fd: stderr, events: libc::POLLIN, revents: 0 },
            ];
            let milliseconds = left.as_micros().div_ceil(1000).min(i32::MAX as u128) as i32;
            // SAFETY: `fds` is an array of that many initialised entries that lives through the call.
            let ready = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, milliseconds) };
            if ready < 0 {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
                continue;
            }
            if fds[1].revents != 0 {
                self.drain_stderr();
                stderr_open = fds[1].revents & libc::POLLIN != 0;
            }
            if fds[0].revents != 0 {
                return Ok(());
            }
        }
    }

    fn end(&mut self) {
        end(&mut self.child);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end();
    }
}

/// Kills the process and waits for its end; both only fail when it has been waited for already.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// A worker's pipes as streams that fail with `TimedOut` after the deadline.
struct Pipes<'a> {
    worker: &'a mut Worker,
    deadline: Instant,
}

impl Read for Pipes<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.worker.stdout.read(buffer) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    let fd = self.worker.stdout.as_raw_fd();
                    self.worker.wait_for(fd, libc::POLLIN, self.deadline)?;
                }
                other => return other,
            }
        }
    }
}

impl Write for Pipes<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        loop {
            match self.worker.stdin.write(buffer) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    let fd = self.worker.stdin.as_raw_fd();
                    self.worker.wait_for(fd, libc::POLLOUT, self.deadline)?;
                }
                other => return other,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn set_nonblocking(fd: RawFd) -> io::Result<()> {
    // SAFETY: reading and setting the flags of a descriptor touches no memory.
    let failed = unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        flags < 0 || libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) < 0
    };
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// What the kernel counts against the memory limit of a process.
fn allocated_bytes(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmData:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes << 10)
}

impl Failure {
    /// The candidate's error, given what the worker was doing.
    pub fn into_error(self, stage: Stage, timeout: Duration, memory_limit: u64) -> MeasureError {
        let out_of_memory = |text: String| MeasureError::OutOfMemory { stage, limit: memory_limit, text };
        match self {
            Failure::TimedOut { memory: Some(bytes), .. } if bytes > memory_limit - memory_limit / 16 => {
                out_of_memory(format!("the time was up with {bytes} bytes allocated"))
            }
            Failure::TimedOut { stderr, .. } => {
                let seconds = timeout.as_secs_f64();
                match stage {
                    Stage::Build => MeasureError::BuildTimeout { seconds, stderr },
                    Stage::Run => MeasureError::RunTimeout { seconds, stderr },
                }
            }
            Failure::Garbled { text, stderr } => MeasureError::Protocol { text, stderr },
            Failure::Died { status, stderr } => match (status.signal(), status.code()) {
                (Some(libc::SIGABRT), _) if blames_memory(&stderr) => {
                    out_of_memory(stderr.trim().to_string())
                }
                (Some(signal), _) if is_own_fault(signal) => {
                    MeasureError::Crashed { signal, name: signal_name(signal), stage, stderr }
                }
                (Some(signal), _) => MeasureError::WorkerLost { signal, name: signal_name(signal), stage },
                (None, Some(OUT_OF_MEMORY_EXIT)) => {
                    out_of_memory("an allocation failed and the worker crashed".into())
                }
                (None, code) => MeasureError::Exited { code: code.unwrap_or(-1), stage, stderr },
            },
        }
    }
}

/// Whether an aborting program said that it aborts for lack of memory.
fn blames_memory(stderr: &str) -> bool {
    ["memory allocation of", "out of memory", "bad_alloc", "Allocation failed"]
        .iter()
        .any(|sign| stderr.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn died(raw: i32, stderr: &str) -> MeasureError {
        let failure = Failure::Died { status: ExitStatus::from_raw(raw), stderr: stderr.into() };
        failure.into_error(Stage::Run, Duration::from_secs(1), 1 << 20)
    }

    #[test]
    fn deaths_are_told_apart() {
        assert_eq!(died(libc::SIGSEGV, "").cause(), "run-crash-SIGSEGV");
        assert_eq!(died(libc::SIGABRT, "assertion failed").cause(), "run-crash-SIGABRT");
        assert_eq!(died(libc::SIGABRT, "memory allocation of 99 bytes failed").cause(), "run-out-of-memory");
        assert_eq!(died(OUT_OF_MEMORY_EXIT << 8, "").cause(), "run-out-of-memory");
        assert_eq!(died(libc::SIGKILL, "").cause(), "worker-lost");
        assert_eq!(died(libc::SIGTERM, "").cause(), "worker-lost");
        assert_eq!(died(3 << 8, "bye").cause(), "run-exit");
    }

    #[test]
    fn a_time_out_at_the_memory_limit_is_for_lack_of_memory() {
        let cause = |memory, stage| {
            let failure = Failure::TimedOut { memory, stderr: String::new() };
            failure.into_error(stage, Duration::from_secs(1), 1 << 20).cause()
        };
        assert_eq!(cause(Some(1 << 20), Stage::Run), "run-out-of-memory");
        assert_eq!(cause(Some(1 << 19), Stage::Run), "run-timeout");
        assert_eq!(cause(None, Stage::Build), "build-timeout");
    }

    #[test]
    fn a_program_that_is_no_worker_is_a_spawn_error() {
        let command = |program: &str| WorkerCommand { program: program.into(), args: vec![] };
        let missing = Worker::start(&command("/nonexistent/worker"), 1 << 30, &[]).unwrap_err();
        assert_eq!(missing.cause(), "spawn");
        assert!(missing.to_string().contains("/nonexistent/worker"));
        let silent = Worker::start(&command("true"), 1 << 30, &[]).unwrap_err();
        assert_eq!(silent.cause(), "spawn");
    }
}
