//! `--turns`: staying after the report to be timed again on request, so that another program can alternate with this one.

use std::time::Duration;

use super::{Failure, print};

/// For every line of standard input, a number of seconds, calls for so long and prints the median time of one call in
/// microseconds.
pub fn serve(mut turn: impl FnMut(Duration) -> Result<f64, Failure>) -> Result<(), Failure> {
    for line in std::io::stdin().lines() {
        let line = line.map_err(Failure::work)?;
        let seconds = line.trim().parse().ok().filter(|seconds| (0.001..=60.0).contains(seconds));
        let Some(seconds) = seconds else {
            return Err(Failure::input(format!(
                "--turns: `{line}` is not a number of seconds from 0.001 to 60"
            )));
        };
        print(&format!("{:.4}\n", turn(Duration::from_secs_f64(seconds))? * 1e6))?;
    }
    Ok(())
}
