//! What several tasks are tuned for together: the objectives f1 to f4 of the Ansor paper.

/// How often a network runs each task: pairs of task index and number of appearances.
pub type Uses = Vec<(usize, f64)>;

/// A network, as far as the scheduler is concerned.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// Its tasks, with how often each appears.
    pub uses: Uses,
    /// For [`Objective::Requirement`]: the latency in seconds that is good enough. For [`Objective::Speedup`]: the
    /// reference latency. Not read by the others.
    pub reference: f64,
}

impl Network {
    /// A network without a reference latency.
    pub fn new(uses: Uses) -> Network {
        Network { uses, reference: 0.0 }
    }

    /// Seconds of a run, given the seconds of each task.
    pub fn latency(&self, seconds: &[f64]) -> f64 {
        self.uses.iter().map(|(task, count)| count * seconds.get(*task).copied().unwrap_or(0.0)).sum()
    }

    /// How often a task appears.
    pub fn count(&self, task: usize) -> f64 {
        self.uses.iter().filter(|(t, _)| *t == task).map(|(_, count)| count).sum()
    }
}

/// A function of the task latencies to be minimised.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Objective {
    /// f1: the sum of all network latencies.
    Sum,
    /// f2: the same, but a network that meets its latency requirement counts no more.
    Requirement,
    /// f3: the negative geometric mean of the speed-ups over reference latencies.
    Speedup,
    /// f4: the sum, but a task that has improved by less than the share `gain` over the last `rounds` rounds
    /// counts no more.
    EarlyStop {
        /// Rounds looked back.
        rounds: usize,
        /// The improvement that keeps a task alive, as a share of its latency.
        gain: f64,
    },
}

impl Objective {
    /// The value at given task latencies.
    pub fn value(&self, networks: &[Network], seconds: &[f64]) -> f64 {
        let latencies = networks.iter().map(|n| (n, n.latency(seconds)));
        match self {
            Objective::Sum | Objective::EarlyStop { .. } => latencies.map(|(_, l)| l).sum(),
            Objective::Requirement => latencies.map(|(n, l)| l.max(n.reference)).sum(),
            Objective::Speedup => {
                let logs: f64 = latencies.map(|(n, l)| (n.reference / l).ln()).sum();
                -(logs / networks.len().max(1) as f64).exp()
            }
        }
    }

    /// Its derivative by the latency of one task. `bests` holds, for each task, its best latency after every
    /// round so far.
    pub fn derivative(&self, networks: &[Network], seconds: &[f64], bests: &[f64], task: usize) -> f64 {
        let counts = networks.iter().map(|n| (n, n.count(task)));
        match self {
            Objective::Sum => counts.map(|(_, c)| c).sum(),
            Objective::Requirement => {
                counts.filter(|(n, _)| n.latency(seconds) > n.reference).map(|(_, c)| c).sum()
            }
            Objective::Speedup => {
                let mean = -self.value(networks, seconds) / networks.len().max(1) as f64;
                mean * counts.map(|(n, c)| c / n.latency(seconds).max(f64::MIN_POSITIVE)).sum::<f64>()
            }
            Objective::EarlyStop { rounds, gain } => {
                if has_stalled(bests, *rounds, *gain) {
                    return 0.0;
                }
                counts.map(|(_, c)| c).sum()
            }
        }
    }
}

/// Whether the best latency has improved by less than the share `gain` over the last `rounds` rounds.
pub fn has_stalled(bests: &[f64], rounds: usize, gain: f64) -> bool {
    let Some(last) = bests.last() else { return false };
    match bests.len().checked_sub(rounds + 1) {
        Some(then) => bests[then].is_finite() && *last > bests[then] * (1.0 - gain),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks() -> Vec<Network> {
        vec![
            Network { uses: vec![(0, 2.0), (1, 1.0)], reference: 4.0 },
            Network { uses: vec![(1, 3.0)], reference: 20.0 },
        ]
    }

    #[test]
    fn values_are_those_of_the_paper() {
        let (n, g) = (networks(), [1.0, 5.0]);
        assert_eq!(Objective::Sum.value(&n, &g), 7.0 + 15.0);
        assert_eq!(Objective::Requirement.value(&n, &g), 7.0 + 20.0);
        let speedup = -((4.0f64 / 7.0) * (20.0 / 15.0)).sqrt();
        assert!((Objective::Speedup.value(&n, &g) - speedup).abs() < 1e-12);
    }

    #[test]
    fn derivatives_are_finite_differences() {
        let (n, g) = (networks(), [1.0, 5.0]);
        let early = Objective::EarlyStop { rounds: 2, gain: 0.01 };
        for objective in [Objective::Sum, Objective::Requirement, Objective::Speedup, early] {
            for task in 0..2 {
                let mut up = g;
                up[task] += 1e-6;
                let difference = (objective.value(&n, &up) - objective.value(&n, &g)) / 1e-6;
                let exact = objective.derivative(&n, &g, &[9.0, 8.0, 7.0], task);
                assert!((difference - exact).abs() < 1e-4, "{objective:?} {task}: {difference} {exact}");
            }
        }
    }

    #[test]
    fn stalled_tasks_count_no_more() {
        assert!(has_stalled(&[9.0, 5.0, 5.0, 4.99], 2, 0.01));
        assert!(!has_stalled(&[9.0, 5.0, 5.0, 4.9], 2, 0.01));
        assert!(!has_stalled(&[5.0, 5.0], 2, 0.01));
        assert!(!has_stalled(&[f64::INFINITY, f64::INFINITY, 5.0], 2, 0.01));
        let early = Objective::EarlyStop { rounds: 2, gain: 0.01 };
        assert_eq!(early.derivative(&networks(), &[1.0, 5.0], &[5.0, 5.0, 5.0], 1), 0.0);
    }
}
