//! Turns: a model's runs for a while, after a warm-up, and `--turns`, which stays after the report to be timed again on
//! request, so that another program can alternate with this one.

use std::time::{Duration, Instant};

use talweg_runtime::model::Session;

use super::{Failure, print};

/// The share of a turn whose runs do not count, the same for the peers (`peer_process.py`).
const WARM_UP: f64 = 0.2;
/// How many runs count, however long they take.
const LEAST: usize = 3;

/// Seconds of one run.
pub fn seconds(session: &mut Session) -> Result<f64, Failure> {
    let begin = Instant::now();
    session.execute().map_err(Failure::work)?;
    Ok(begin.elapsed().as_secs_f64())
}

/// Seconds of single runs, as `run` says them, taken for about so long. The first run is neither counted nor part of that
/// time: it finds the caches as others left them.
pub fn times(length: Duration, mut run: impl FnMut() -> Result<f64, Failure>) -> Result<Vec<f64>, Failure> {
    run()?;
    let start = Instant::now();
    while start.elapsed() < length.mul_f64(WARM_UP) {
        run()?;
    }
    let mut times = Vec::new();
    while times.len() < LEAST || start.elapsed() < length {
        times.push(run()?);
    }
    Ok(times)
}

/// The median of ascending numbers: of an even number the mean of the two in the middle, as in scripts that time peers.
pub fn median(ascending: &[f64]) -> Option<f64> {
    let last = ascending.len().checked_sub(1)?;
    Some((ascending[last / 2] + ascending[last.div_ceil(2)]) / 2.0)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_between_two() {
        let medians = [&[1.0, 3.0][..], &[1.0, 3.0, 8.0], &[1.0, 2.0, 3.0, 4.0], &[]].map(median);
        assert_eq!(medians, [Some(2.0), Some(3.0), Some(2.5), None]);
    }

    #[test]
    fn cold_runs_do_not_count_and_slow_ones_are_taken_three_times() {
        let mut calls = 0;
        let mut timed = |length: u64, cold: u64, warm: u64| {
            calls = 0;
            let run = || {
                calls += 1;
                let length = Duration::from_millis(if calls == 1 { cold } else { warm });
                std::thread::sleep(length);
                Ok(length.as_secs_f64())
            };
            let times = times(Duration::from_millis(length), run).expect("nothing fails");
            (times, calls)
        };
        // Longer than the turn: one cold run, one of the warm-up unless the machine sleeps through it, three that count.
        let (slow, calls) = timed(10, 10, 10);
        assert!(slow.len() == 3 && (4..=5).contains(&calls), "{} of {calls}", slow.len());
        let (quick, calls) = timed(50, 500, 1);
        assert!(quick.len() >= 3 && calls > quick.len(), "{} of {calls}", quick.len());
        assert!(quick.iter().all(|seconds| *seconds < 0.5), "the cold run counts: {quick:?}");
    }
}
