//! The worker process: answers requests until its standard input ends.

use std::any::Any;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use crate::crash;
use crate::machine::Machine;
use crate::wire::{self, BuildRequest, Kernel, Reply, Request};

/// Compiles a nest to a kernel and its object, or says why not.
pub type Builder = fn(&BuildRequest) -> Result<(Kernel, Vec<u8>), String>;

/// Makes this process a worker. Called when the program is started with the pool's worker arguments; never returns.
pub fn worker_main() -> ! {
    worker_main_with(crate::compile::build)
}

/// [`worker_main`] with another builder in front of the code generator, for tests of what goes wrong.
#[doc(hidden)]
pub fn worker_main_with(builder: Builder) -> ! {
    crash::install();
    let code = match serve(builder) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("worker: {error}");
            1
        }
    };
    // SAFETY: ends the process at once. Nothing needs to be tidied up, and the code generator's destructors would
    // only delay the pool.
    unsafe { libc::_exit(code) }
}

fn serve(builder: Builder) -> io::Result<()> {
    let (mut requests, mut replies) = take_pipes()?;
    send(&mut replies, &Reply::Hello { version: wire::VERSION }, &[])?;
    let mut machine = Machine::new();
    while let Some((request, payload)) = wire::read::<Request>(&mut requests)? {
        let building = matches!(request, Request::Build(_));
        let answer = catch_unwind(AssertUnwindSafe(|| answer(builder, &mut machine, request, &payload)));
        let (reply, object) = answer.unwrap_or_else(|panic| {
            let text = format!("panic: {}", panic_text(panic.as_ref()));
            let reply = if building { Reply::BuildFailed { text } } else { Reply::Refused { text } };
            (reply, Vec::new())
        });
        send(&mut replies, &reply, &object)?;
    }
    Ok(())
}

fn answer(builder: Builder, machine: &mut Machine, request: Request, payload: &[u8]) -> (Reply, Vec<u8>) {
    match request {
        Request::Build(request) => {
            let start = Instant::now();
            match builder(&request) {
                Ok((kernel, object)) => {
                    let seconds = start.elapsed().as_secs_f64();
                    (Reply::Built { kernel, seconds }, object)
                }
                Err(text) => (Reply::BuildFailed { text }, Vec::new()),
            }
        }
        Request::Task(request) => (machine.load_task(request), Vec::new()),
        Request::Run(request) => machine.run(&request, payload),
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("of an unknown kind")
}

fn send(to: &mut File, reply: &Reply, payload: &[u8]) -> io::Result<()> {
    to.write_all(&wire::encode(reply, payload.len())?)?;
    to.write_all(payload)
}

/// Takes the pipes off the standard descriptors, so that nothing which prints or reads can disturb the conversation:
/// standard input is empty from here on, standard output goes to standard error.
fn take_pipes() -> io::Result<(File, File)> {
    let requests = duplicate(0)?;
    let replies = duplicate(1)?;
    let nothing = File::open("/dev/null")?;
    redirect(nothing.as_raw_fd(), 0)?;
    redirect(2, 1)?;
    Ok((requests, replies))
}

fn duplicate(fd: i32) -> io::Result<File> {
    // SAFETY: duplicating a descriptor touches no memory.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and belongs to nobody else.
    Ok(unsafe { File::from_raw_fd(copy) })
}

fn redirect(from: i32, to: i32) -> io::Result<()> {
    // SAFETY: replaces one of the standard descriptors, which no value of this program owns.
    if unsafe { libc::dup2(from, to) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
