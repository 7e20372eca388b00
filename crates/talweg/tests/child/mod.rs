//! A process that the tests look at while it runs.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, Command, Stdio};

/// Starts a command and reads what it says on standard error until a line contains the text.
pub fn start_until(command: &mut Command, until: &str) -> (Child, BufReader<ChildStderr>) {
    let mut child =
        command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program starts");
    let mut stderr = BufReader::new(child.stderr.take().expect("standard error"));
    let mut line = String::new();
    while !line.contains(until) {
        line.clear();
        assert!(stderr.read_line(&mut line).expect("a line") > 0, "it ended before `{until}`");
    }
    (child, stderr)
}
