//! One file a verb of the command line.

pub mod doctor;
pub mod op;
mod operator_help;

use std::fmt;

/// Why a command failed, and with which exit code: 2 for bad input, 1 for everything else.
#[derive(Debug)]
pub enum Failure {
    /// The user must change the input.
    Input(String),
    /// Something went wrong while working on good input.
    Work(String),
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

    /// What the process returns.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Input(_) => 2,
            Failure::Work(_) => 1,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Input(text) | Failure::Work(text) => f.write_str(text),
        }
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
