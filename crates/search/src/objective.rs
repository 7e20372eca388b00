//! What several tasks are tuned for together: the objectives f1 to f4 of the Ansor paper.

/// How often a network runs each task: pairs of task index and number of appearances.
pub type Uses = Vec<(usize, f64)>;

/// A step that can be done in several ways, of which the fastest counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Fork {
    /// The tasks of each way: mostly one, two where another way does both in one.
    pub ways: Vec<Vec<usize>>,
    /// How often the step appears.
    pub count: f64,
}

impl Fork {
    /// Seconds of each way; infinite where they are not known, or zero, which stands for that as well.
    pub fn seconds(&self, of: impl Fn(usize) -> f64) -> Vec<f64> {
        let known = |seconds: f64| if seconds > 0.0 { seconds } else { f64::INFINITY };
        self.ways.iter().map(|way| way.iter().map(|task| known(of(*task))).sum()).collect()
    }

    /// Seconds of the fastest way; infinite while none is known.
    pub fn best(&self, of: impl Fn(usize) -> f64) -> f64 {
        self.seconds(of).into_iter().fold(f64::INFINITY, f64::min)
    }

    fn has(&self, task: usize) -> bool {
        self.ways.iter().any(|way| way.contains(&task))
    }
}

/// A network, as far as the scheduler is concerned.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Network {
    /// Its tasks, with how often each appears, forks aside.
    pub uses: Uses,
    /// Its steps that can be done in several ways.
    pub forks: Vec<Fork>,
    /// For [`Objective::Requirement`]: the latency in seconds that is good enough. For [`Objective::Speedup`]: the
    /// reference latency. Not read by the others.
    pub reference: f64,
}

impl Network {
    /// A network without a reference latency.
    pub fn new(uses: Uses) -> Network {
        Network { uses, ..Network::default() }
    }

    /// A network of steps, some of which can be done in one way only.
    pub fn of_steps(steps: impl IntoIterator<Item = Fork>) -> Network {
        let mut network = Network::default();
        for step in steps {
            match step.ways.as_slice() {
                [way] => network.uses.extend(way.iter().map(|task| (*task, step.count))),
                _ => network.forks.push(step),
            }
        }
        network
    }

    /// Its steps, those that can be done in one way only first.
    pub fn steps(&self) -> Vec<Fork> {
        let plain = self.uses.iter().map(|(task, count)| Fork { ways: vec![vec![*task]], count: *count });
        plain.chain(self.forks.iter().cloned()).collect()
    }

    /// How often each task runs when every step is done in the way that is fastest, given the seconds of each task.
    pub fn counts(&self, seconds: &[f64]) -> Vec<f64> {
        let mut counts = vec![0.0; seconds.len()];
        for step in self.steps() {
            let times = step.seconds(|task| seconds.get(task).copied().unwrap_or(0.0));
            let ways = step.ways.iter().zip(&times);
            let Some((way, _)) = ways.min_by(|a, b| a.1.total_cmp(b.1)) else { continue };
            way.iter().filter(|task| **task < seconds.len()).for_each(|task| counts[*task] += step.count);
        }
        counts
    }

    /// Seconds of a run, given the seconds of each task.
    pub fn latency(&self, seconds: &[f64]) -> f64 {
        let of = |task: usize| seconds.get(task).copied().unwrap_or(0.0);
        let plain: f64 = self.uses.iter().map(|(task, count)| count * of(*task)).sum();
        plain + self.forks.iter().map(|fork| fork.count * fork.best(of)).sum::<f64>()
    }

    /// How the seconds of a run change when one task takes `to`. In a fork only what is faster than all other ways counts.
    pub fn change(&self, seconds: &[f64], task: usize, to: f64) -> f64 {
        let of = |task: usize| seconds.get(task).copied().unwrap_or(0.0);
        let count: f64 = self.uses.iter().filter(|(t, _)| *t == task).map(|(_, count)| count).sum();
        let mut change = count * (to - of(task));
        for fork in self.forks.iter().filter(|fork| fork.has(task)) {
            let then = fork.best(|at| if at == task { to } else { of(at) });
            let step = fork.count * (then - fork.best(of));
            change += if step.is_finite() { step } else { 0.0 };
        }
        change
    }

    /// Whether every step that could use a task has another way that is faster by this share or more, and no step needs it.
    pub fn is_beaten(&self, seconds: &[f64], task: usize, by: f64) -> bool {
        let of = |task: usize| seconds.get(task).copied().unwrap_or(0.0);
        let loses = |fork: &Fork| {
            let ways = fork.ways.iter().zip(fork.seconds(of));
            let own = ways.filter(|(way, _)| way.contains(&task)).map(|(_, seconds)| seconds);
            own.fold(f64::INFINITY, f64::min) > fork.best(of) * (1.0 + by)
        };
        let mut forks = self.forks.iter().filter(|fork| fork.has(task)).peekable();
        forks.peek().is_some() && forks.all(loses) && self.uses.iter().all(|(t, _)| *t != task)
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

    /// How it changes, to first order in the latencies of networks, when one task takes `to`. `bests` holds that task's best
    /// latency after every round so far.
    pub fn change(
        &self,
        networks: &[Network],
        seconds: &[f64],
        bests: &[f64],
        (task, to): (usize, f64),
    ) -> f64 {
        let changes = networks.iter().map(|n| (n, n.change(seconds, task, to)));
        match self {
            Objective::Sum => changes.map(|(_, c)| c).sum(),
            Objective::Requirement => {
                changes.filter(|(n, _)| n.latency(seconds) > n.reference).map(|(_, c)| c).sum()
            }
            Objective::Speedup => {
                let mean = -self.value(networks, seconds) / networks.len().max(1) as f64;
                mean * changes.map(|(n, c)| c / n.latency(seconds).max(f64::MIN_POSITIVE)).sum::<f64>()
            }
            Objective::EarlyStop { rounds, gain } if has_stalled(bests, *rounds, *gain) => 0.0,
            Objective::EarlyStop { .. } => changes.map(|(_, c)| c).sum(),
        }
    }
}

/// Whether the best latency has improved by less than the share `gain` over the last `rounds` rounds.
pub fn has_stalled(bests: &[f64], rounds: usize, gain: f64) -> bool {
    let Some(last) = bests.last() else { return false };
    match bests.len().checked_sub(rounds.saturating_add(1)) {
        Some(then) => bests[then].is_finite() && *last > bests[then] * (1.0 - gain),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks() -> Vec<Network> {
        vec![
            Network { reference: 4.0, ..Network::new(vec![(0, 2.0), (1, 1.0)]) },
            Network { reference: 20.0, ..Network::new(vec![(1, 3.0)]) },
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
    fn changes_are_finite_differences() {
        let (n, g) = (networks(), [1.0, 5.0]);
        let early = Objective::EarlyStop { rounds: 2, gain: 0.01 };
        for objective in [Objective::Sum, Objective::Requirement, Objective::Speedup, early] {
            for task in 0..2 {
                let mut up = g;
                up[task] += 1e-6;
                let difference = objective.value(&n, &up) - objective.value(&n, &g);
                let change = objective.change(&n, &g, &[9.0, 8.0, 7.0], (task, up[task]));
                assert!((difference - change).abs() < 1e-10, "{objective:?} {task}: {difference} {change}");
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
        assert_eq!(early.change(&networks(), &[1.0, 5.0], &[5.0, 5.0, 5.0], (1, 4.0)), 0.0);
    }

    #[test]
    fn the_fastest_way_of_a_fork_counts() {
        // Task 1 behind task 0, or both as task 2; task 1 has another way of its own elsewhere.
        let both = Fork { ways: vec![vec![0, 1], vec![2]], count: 2.0 };
        let one = Fork { ways: vec![vec![1], vec![3]], count: 1.0 };
        let network = Network { uses: vec![(0, 1.0)], forks: vec![both, one], reference: 0.0 };
        let seconds = [1.0, 4.0, 6.0, 2.0];
        assert_eq!(network.latency(&seconds), 1.0 + 2.0 * 5.0 + 2.0);
        assert_eq!(network.change(&seconds, 0, 0.5), -0.5 - 2.0 * 0.5);
        assert_eq!(network.change(&seconds, 1, 1.5), -2.0 * 2.5 - 0.5);
        // A way that stays behind gains nothing; one that comes ahead counts from there on.
        assert_eq!(network.change(&seconds, 2, 5.5), 0.0);
        assert_eq!(network.change(&seconds, 2, 4.0), -2.0);
        assert_eq!(network.change(&seconds, 3, 1.0), -1.0);
        // A way that is not known stands in nobody's way.
        let unknown = [1.0, 4.0, f64::INFINITY, 0.0];
        assert_eq!(network.latency(&unknown), 1.0 + 2.0 * 5.0 + 4.0);
        assert_eq!(network.change(&unknown, 1, 3.0), -3.0);
        let beaten = |task: usize, by: f64| network.is_beaten(&seconds, task, by);
        assert_eq!([0, 1, 2, 3].map(|task| beaten(task, 0.1)), [false, false, true, false]);
        assert!(!beaten(2, 0.3), "it is behind by a fifth only");
        assert_eq!(network.counts(&seconds), [3.0, 2.0, 0.0, 1.0]);
        assert_eq!(Network::of_steps(network.steps()), network);
    }
}
