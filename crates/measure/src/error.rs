//! What can become of a candidate besides being measured.

use std::borrow::Cow;
use std::fmt;

/// The part of a measurement in which something happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// Compiling the candidate.
    Build,
    /// Checking or timing it.
    Run,
}

impl Stage {
    /// The name used in texts.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Build => "build",
            Stage::Run => "run",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a candidate has no samples. Each candidate costs at most one of these; the pool goes on.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MeasureError {
    /// There is no program to compile.
    #[error("the candidate has no program: {text}")]
    Unmade {
        /// Why.
        text: String,
    },
    /// The code generator refused the candidate.
    #[error("the candidate does not compile: {text}")]
    Build {
        /// What the code generator said.
        text: String,
    },
    /// Compiling took too long; the worker was killed.
    #[error("compiling took longer than {seconds} s and was stopped; raise the build time-out if that is wanted{}", said(.stderr))]
    BuildTimeout {
        /// The limit.
        seconds: f64,
        /// The end of what the worker wrote to its standard error.
        stderr: String,
    },
    /// Checking and timing took too long; the worker was killed.
    #[error("the candidate ran longer than {seconds} s and was stopped; raise the run time-out if that is wanted{}", said(.stderr))]
    RunTimeout {
        /// The limit.
        seconds: f64,
        /// The end of what the worker wrote to its standard error.
        stderr: String,
    },
    /// The worker was ended by a signal that a program raises against itself.
    #[error("the worker crashed in the {stage} with {name} (signal {signal}){}", said(.stderr))]
    Crashed {
        /// The signal's number.
        signal: i32,
        /// Its name, such as `SIGSEGV`.
        name: &'static str,
        /// What it was doing.
        stage: Stage,
        /// The end of what the worker wrote to its standard error.
        stderr: String,
    },
    /// The worker ended itself in the middle of a request.
    #[error("the worker exited in the {stage} with code {code}{}", said(.stderr))]
    Exited {
        /// Its exit code.
        code: i32,
        /// What it was doing.
        stage: Stage,
        /// The end of what the worker wrote to its standard error.
        stderr: String,
    },
    /// The candidate wanted more memory than the limit.
    #[error("out of memory in the {stage} (limit {limit} bytes): {text}")]
    OutOfMemory {
        /// What it was doing.
        stage: Stage,
        /// The limit of the worker.
        limit: u64,
        /// How it showed.
        text: String,
    },
    /// Somebody else killed the worker; the candidate is not to blame.
    #[error(
        "the worker was killed from outside in the {stage} with {name} (signal {signal}), perhaps because the machine ran out of memory; measure the candidate again"
    )]
    WorkerLost {
        /// The signal's number.
        signal: i32,
        /// Its name.
        name: &'static str,
        /// What it was doing.
        stage: Stage,
    },
    /// The candidate computes something else than the reference.
    #[error(
        "wrong result: {output}{at:?} is {got} instead of {expected}, relative error {max_rel_error:.3e} where {tolerance:.3e} is acceptable"
    )]
    WrongResult {
        /// The output.
        output: String,
        /// The largest relative error.
        max_rel_error: f64,
        /// Where it is.
        at: Vec<usize>,
        /// The reference there.
        expected: f64,
        /// What the candidate wrote there.
        got: f64,
        /// What would have been acceptable.
        tolerance: f64,
    },
    /// The candidate wrote outside of its arrays.
    #[error("the candidate wrote outside of its arrays: {text}")]
    Overrun {
        /// What it damaged.
        text: String,
    },
    /// Candidate and task do not fit together.
    #[error("the candidate does not fit its task: {text}")]
    Mismatch {
        /// What is missing or different.
        text: String,
    },
    /// Pool and worker do not understand each other.
    #[error("the worker's answer makes no sense: {text}; make sure that pool and worker are the same program{}", said(.stderr))]
    Protocol {
        /// What was received.
        text: String,
        /// The end of what the worker wrote to its standard error.
        stderr: String,
    },
    /// No worker could be started.
    #[error("cannot start the worker `{command}`: {text}")]
    Spawn {
        /// The command.
        command: String,
        /// Why.
        text: String,
    },
}

impl MeasureError {
    /// A short key to group errors by.
    pub fn cause(&self) -> Cow<'static, str> {
        match self {
            MeasureError::Unmade { .. } => "instantiate".into(),
            MeasureError::Build { .. } => "build".into(),
            MeasureError::BuildTimeout { .. } => "build-timeout".into(),
            MeasureError::RunTimeout { .. } => "run-timeout".into(),
            MeasureError::Crashed { name, stage, .. } => format!("{stage}-crash-{name}").into(),
            MeasureError::Exited { stage, .. } => format!("{stage}-exit").into(),
            MeasureError::OutOfMemory { stage, .. } => format!("{stage}-out-of-memory").into(),
            MeasureError::WorkerLost { .. } => "worker-lost".into(),
            MeasureError::WrongResult { .. } => "wrong-result".into(),
            MeasureError::Overrun { .. } => "overrun".into(),
            MeasureError::Mismatch { .. } => "mismatch".into(),
            MeasureError::Protocol { .. } => "protocol".into(),
            MeasureError::Spawn { .. } => "spawn".into(),
        }
    }
}

fn said(stderr: &str) -> String {
    let text = stderr.trim();
    if text.is_empty() { String::new() } else { format!("; it said: {text}") }
}

/// The name of a signal.
pub(crate) fn signal_name(signal: i32) -> &'static str {
    match signal {
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGHUP => "SIGHUP",
        libc::SIGILL => "SIGILL",
        libc::SIGINT => "SIGINT",
        libc::SIGKILL => "SIGKILL",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGSYS => "SIGSYS",
        libc::SIGTERM => "SIGTERM",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGXCPU => "SIGXCPU",
        _ => "another signal",
    }
}

/// Whether a program raises the signal against itself, as opposed to receiving it from somebody.
pub(crate) fn is_own_fault(signal: i32) -> bool {
    matches!(
        signal,
        libc::SIGABRT
            | libc::SIGBUS
            | libc::SIGFPE
            | libc::SIGILL
            | libc::SIGSEGV
            | libc::SIGSYS
            | libc::SIGTRAP
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_carry_what_the_worker_said() {
        let error = MeasureError::Crashed {
            signal: libc::SIGSEGV,
            name: signal_name(libc::SIGSEGV),
            stage: Stage::Run,
            stderr: "last words\n".into(),
        };
        assert_eq!(error.cause(), "run-crash-SIGSEGV");
        assert_eq!(
            error.to_string(),
            "the worker crashed in the run with SIGSEGV (signal 11); it said: last words"
        );
        let quiet = MeasureError::RunTimeout { seconds: 10.0, stderr: " \n".into() };
        assert!(!quiet.to_string().contains("said"));
    }
}
