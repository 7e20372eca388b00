//! What more rounds can be expected to gain over all tasks: when it is next to nothing, a run may end early.
//!
//! The rule, for every task that still gets rounds:
//!
//! - after more than [`Forecast::WINDOW`] rounds, each further round is expected to gain what the last
//!   [`Forecast::WINDOW`] gained on average, for [`Forecast::HORIZON`] more rounds: gains fall off, so what a task gained
//!   over some rounds is about what it still has to gain;
//! - before that, the task may gain the share `1 / rounds` of its latency, as the scheduler's optimistic guess has it.
//!
//! No task gains more than the distance to the peak of the machine. The rounds that are left go to the tasks that gain the most.

use crate::objective::Network;
use crate::scheduler::{Scheduler, TaskState};

/// What is expected of the rest of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// Seconds that all networks together are expected to gain.
    pub gain: f64,
    /// Seconds that they take now.
    pub latency: f64,
}

impl Forecast {
    /// Rounds whose gains are looked at.
    pub const WINDOW: usize = 5;
    /// Rounds for which gains are expected to go on as they did.
    pub const HORIZON: usize = 8;

    /// The forecast for so many more rounds over all tasks. `None` while a task has no time.
    pub fn of(
        scheduler: &Scheduler,
        networks: &[Network],
        tasks: &[TaskState],
        rounds_left: f64,
    ) -> Option<Forecast> {
        let seconds: Vec<f64> = tasks.iter().map(TaskState::best).collect();
        if seconds.iter().any(|s| !s.is_finite()) {
            return None;
        }
        // What all networks gain when a task takes so many seconds.
        let worth = |task: usize, to: f64| -> f64 {
            let to = to.max(f64::MIN_POSITIVE);
            let to = to.max(tasks[task].least.min(seconds[task]));
            networks.iter().map(|n| -n.change(&seconds, task, to)).sum::<f64>().max(0.0)
        };
        // The gain of one round of a task, and for how many it holds.
        let mut expected: Vec<(f64, f64)> = Vec::new();
        for (at, task) in tasks.iter().enumerate().filter(|(_, task)| !scheduler.is_dead(task)) {
            let rounds = task.bests.len();
            let (gain, lasts) = match rounds.checked_sub(Forecast::WINDOW + 1).map(|then| task.bests[then]) {
                Some(then) if then.is_finite() => {
                    ((then - task.best()) / Forecast::WINDOW as f64, Forecast::HORIZON as f64)
                }
                _ => (task.best() / rounds.max(1) as f64, 1.0),
            };
            expected.push((worth(at, task.best() - gain * lasts) / lasts, lasts));
        }
        expected.sort_by(|a, b| b.0.total_cmp(&a.0));
        let (mut gain, mut left) = (0.0, rounds_left.max(0.0));
        for (each, lasts) in expected {
            let rounds = lasts.min(left);
            gain += each * rounds;
            left -= rounds;
        }
        let latency = networks.iter().map(|n| n.latency(&seconds)).sum();
        Some(Forecast { gain, latency })
    }

    /// The expected gain as a share of the latency.
    pub fn share(&self) -> f64 {
        if self.latency > 0.0 { self.gain / self.latency } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(bests: &[f64]) -> TaskState {
        TaskState { flops: 1.0, bests: bests.to_vec(), ..TaskState::default() }
    }

    fn forecast(tasks: &[TaskState], rounds_left: f64) -> Option<Forecast> {
        let network = Network::new((0..tasks.len()).map(|at| (at, 1.0 + at as f64)).collect());
        Forecast::of(&Scheduler::default(), &[network], tasks, rounds_left)
    }

    #[test]
    fn recent_gains_are_expected_to_go_on_for_a_while() {
        let tasks = [task(&[10.0, 9.0, 8.5, 8.2, 8.1, 8.0]), task(&[2.0; 6])];
        let found = forecast(&tasks, 100.0).expect("all tasks have times");
        assert_eq!(found.latency, 8.0 + 2.0 * 2.0);
        assert!((found.gain - 2.0 / 5.0 * 8.0).abs() < 1e-12, "{found:?}");
        let short = forecast(&tasks, 3.0).expect("all tasks have times");
        assert!((short.gain - 2.0 / 5.0 * 3.0).abs() < 1e-12, "{short:?}");
        assert_eq!(forecast(&tasks, 0.0).map(|f| f.share()), Some(0.0));
    }

    #[test]
    fn nothing_is_expected_beyond_the_peak() {
        let near = TaskState { least: 3.8, ..task(&[4.0, 4.0]) };
        let found = forecast(&[near], 100.0).expect("a time");
        assert!((found.gain - 0.2).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn young_tasks_promise_much_and_settled_ones_nothing() {
        let young = forecast(&[task(&[4.0, 4.0])], 100.0).expect("a time");
        assert_eq!(young.share(), 0.5);
        let settled = forecast(&[task(&[4.0; 7]), task(&[1.0; 9])], 100.0).expect("times");
        assert_eq!(settled.share(), 0.0);
        let mut exhausted = task(&[4.0]);
        exhausted.is_exhausted = true;
        assert_eq!(forecast(&[exhausted], 100.0).map(|f| f.gain), Some(0.0));
        assert_eq!(forecast(&[task(&[])], 100.0), None);
    }
}
