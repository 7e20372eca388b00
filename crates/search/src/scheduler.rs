//! The task scheduler: which task gets the next round of measurements (Ansor's gradient).

use crate::Rng;
use crate::objective::{Network, Objective, has_stalled};

/// The position of a task.
pub type TaskIndex = usize;

/// What the scheduler knows about a task; the caller keeps it up to date.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskState {
    /// Arithmetic operations of one run.
    pub flops: f64,
    /// Tasks of the same group are similar: what one reaches, another may.
    pub group: u64,
    /// The best latency in seconds after every round so far; infinite while nothing has succeeded.
    pub bests: Vec<f64>,
    /// Seconds of what is known before the first round, such as the default schedule.
    pub start: Option<f64>,
    /// Seconds that no schedule can do without: its multiply-adds at the peak of the machine, as far as that is known.
    pub least: f64,
    /// No candidates are left.
    pub is_exhausted: bool,
}

impl TaskState {
    /// The best latency so far, infinite before the first success.
    pub fn best(&self) -> f64 {
        self.bests.last().copied().or(self.start).unwrap_or(f64::INFINITY)
    }

    /// Records a finished round.
    pub fn finish_round(&mut self, seconds: Option<f64>) {
        let best = self.best().min(seconds.unwrap_or(f64::INFINITY));
        self.bests.push(best);
    }
}

/// Why there is nothing more to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There are no tasks.
    NoTasks,
    /// Every network meets its latency requirement (f2).
    RequirementsMet,
    /// Every task is exhausted, has stopped improving, or counts no more.
    NothingToGain,
}

/// The scheduler's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Give a round to this task.
    Task(TaskIndex),
    /// Stop.
    Done(Reason),
}

/// Distributes rounds over tasks. A plain value: the answer depends on its fields and the state only.
#[derive(Clone, Debug, PartialEq)]
pub struct Scheduler {
    /// Weight of the past against the prediction.
    pub alpha: f64,
    /// How much slower than similar tasks a task may be expected to end up.
    pub beta: f64,
    /// Rounds over which past improvement is measured.
    pub window: usize,
    /// Probability of a random living task instead.
    pub epsilon: f64,
    /// A task dies when this many rounds have improved it by less than `gain`.
    pub patience: usize,
    /// The share of its latency a task must improve by to stay alive.
    pub gain: f64,
    /// A task dies when so many rounds have not brought a single success.
    pub failures: usize,
    /// What is minimised.
    pub objective: Objective,
    /// Names the random stream.
    pub seed: u64,
}

impl Default for Scheduler {
    fn default() -> Scheduler {
        Scheduler {
            alpha: 0.2,
            beta: 2.0,
            window: 3,
            epsilon: 0.05,
            patience: 10,
            gain: 0.001,
            failures: 3,
            objective: Objective::Sum,
            seed: 0,
        }
    }
}

impl Scheduler {
    /// The task for the next round.
    ///
    /// First every task gets one round: those of which nothing is known, in order, then those that would gain the most if they
    /// took half as long, but for those that could gain nothing at the peak of the machine, because another way to do the same
    /// is faster than that. Then come tasks without any success, for the networks cannot run without them; then the one with
    /// the most negative gradient.
    pub fn next(&self, networks: &[Network], tasks: &[TaskState]) -> Next {
        if tasks.is_empty() {
            return Next::Done(Reason::NoTasks);
        }
        let seconds: Vec<f64> = tasks.iter().map(TaskState::best).collect();
        let is_new = |t: &TaskState| t.bests.is_empty() && !t.is_exhausted;
        if let Some(task) = tasks.iter().position(|t| is_new(t) && !t.best().is_finite()) {
            return Next::Task(task);
        }
        let gain = |task: TaskIndex, to: f64| -> f64 {
            let state = &tasks[task];
            -self.objective.change(networks, &seconds, &state.bests, (task, to.max(state.least)))
        };
        let new = (0..tasks.len()).filter(|t| is_new(&tasks[*t]) && gain(*t, f64::MIN_POSITIVE) > 0.0);
        let halved = |task: &TaskIndex| gain(*task, seconds[*task] / 2.0);
        if let Some(task) = new.max_by(|a, b| halved(a).total_cmp(&halved(b)).then(b.cmp(a))) {
            return Next::Task(task);
        }
        if self.objective == Objective::Requirement
            && networks.iter().all(|n| n.latency(&seconds) <= n.reference)
        {
            return Next::Done(Reason::RequirementsMet);
        }
        let living: Vec<TaskIndex> = (0..tasks.len()).filter(|t| !self.is_dead(&tasks[*t])).collect();
        if let Some(task) = living.iter().find(|t| !seconds[**t].is_finite()) {
            return Next::Task(*task);
        }
        let gradients: Vec<(TaskIndex, f64)> = living
            .into_iter()
            .map(|task| (task, self.gradient(networks, tasks, task)))
            .filter(|(_, gradient)| *gradient < 0.0)
            .collect();
        let rounds: usize = tasks.iter().map(|t| t.bests.len()).sum();
        let mut rng = Rng::new(self.seed ^ (rounds as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        if rng.chance(self.epsilon)
            && let Some((task, _)) = rng.pick(&gradients)
        {
            return Next::Task(*task);
        }
        let best = gradients.iter().min_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
        best.map_or(Next::Done(Reason::NothingToGain), |(task, _)| Next::Task(*task))
    }

    /// Whether a task gets no more rounds.
    pub fn is_dead(&self, task: &TaskState) -> bool {
        let has_failed = task.bests.len() >= self.failures && !task.best().is_finite();
        task.is_exhausted || has_failed || has_stalled(&task.bests, self.patience, self.gain)
    }

    /// How the objective is expected to change with one more round for a task; negative is good.
    ///
    /// ```text
    /// df/dg_i * ( alpha * (g_i(t) - g_i(t - w)) / w
    ///           + (1 - alpha) * (min(g_i - g_i / t_i, beta * C_i / max V_k) - g_i) )
    /// ```
    ///
    /// with `C_i` its operations and `V_k` the operations per second of the tasks of its group, its own included; nothing is
    /// predicted to be faster than [`TaskState::least`]. Where a step
    /// can be done in several ways, a task gains only what it is expected to be faster than all other ways: one that is
    /// behind by more than its optimistic guess gets no more rounds.
    pub fn gradient(&self, networks: &[Network], tasks: &[TaskState], task: TaskIndex) -> f64 {
        let state = &tasks[task];
        let (now, rounds) = (state.best(), state.bests.len());
        if !now.is_finite() || rounds == 0 {
            return 0.0;
        }
        let seconds: Vec<f64> =
            tasks.iter().map(|t| if t.best().is_finite() { t.best() } else { 0.0 }).collect();
        let window = self.window.max(1);
        let past = match rounds.checked_sub(window + 1).map(|at| state.bests[at]) {
            Some(then) if then.is_finite() => (now - then) / window as f64,
            _ => 0.0,
        };
        let similar = tasks.iter().filter(|t| t.group == state.group && t.best().is_finite());
        let fastest = similar.map(|t| t.flops / t.best()).fold(0.0, f64::max);
        let optimistic = now - now / rounds as f64;
        let predicted =
            if fastest > 0.0 { optimistic.min(self.beta * state.flops / fastest) } else { optimistic };
        let predicted = predicted.max(state.least.min(now));
        let change = self.alpha * past + (1.0 - self.alpha) * (predicted - now);
        self.objective.change(networks, &seconds, &state.bests, (task, now + change))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objective::Fork;

    fn task(flops: f64, group: u64, bests: &[f64]) -> TaskState {
        TaskState { flops, group, bests: bests.to_vec(), ..TaskState::default() }
    }

    fn greedy() -> Scheduler {
        Scheduler { epsilon: 0.0, ..Scheduler::default() }
    }

    fn one_network(tasks: usize) -> Vec<Network> {
        vec![Network::new((0..tasks).map(|t| (t, 1.0)).collect())]
    }

    #[test]
    fn every_task_is_warmed_up_in_order() {
        let mut tasks = vec![task(1.0, 0, &[]); 3];
        for expected in 0..3 {
            let next = Scheduler::default().next(&one_network(3), &tasks);
            assert_eq!(next, Next::Task(expected));
            tasks[expected].finish_round(Some(1.0));
        }
        assert_eq!(Scheduler::default().next(&[], &[]), Next::Done(Reason::NoTasks));
    }

    #[test]
    fn the_gradient_is_the_formula() {
        // Group 0: task 1 runs at 100 / 2 = 50 per second, so task 0 should reach 2 * 60 / 50 = 2.4 seconds.
        let tasks =
            [task(60.0, 0, &[10.0, 9.0, 8.0, 7.0]), task(100.0, 0, &[2.0]), task(60.0, 1, &[8.0, 6.0])];
        let networks = [Network::new(vec![(0, 3.0), (1, 1.0), (2, 1.0)])];
        let past = (7.0 - 10.0) / 3.0;
        let expected = 3.0 * (0.2 * past + 0.8 * (2.4f64.min(7.0 - 7.0 / 4.0) - 7.0));
        assert!((greedy().gradient(&networks, &tasks, 0) - expected).abs() < 1e-12);
        // Alone in its group, and too young for the window: only the optimistic guess is left.
        let expected = 0.8 * (3.0 - 6.0);
        assert!((greedy().gradient(&networks, &tasks, 2) - expected).abs() < 1e-12);
        assert_eq!(greedy().next(&networks, &tasks), Next::Task(0));
    }

    #[test]
    fn weight_attracts_rounds() {
        let tasks = [task(1.0, 0, &[1.0]), task(1.0, 1, &[1.0])];
        let networks = [Network::new(vec![(0, 1.0), (1, 5.0)])];
        assert_eq!(greedy().next(&networks, &tasks), Next::Task(1));
    }

    #[test]
    fn dead_tasks_get_nothing() {
        let mut stalled = task(1.0, 0, &[5.0]);
        (0..10).for_each(|_| stalled.finish_round(Some(5.0)));
        let mut tasks = [stalled, task(1.0, 1, &[0.1, 0.1])];
        assert_eq!(greedy().next(&one_network(2), &tasks), Next::Task(1));
        tasks[1].is_exhausted = true;
        assert_eq!(greedy().next(&one_network(2), &tasks), Next::Done(Reason::NothingToGain));
    }

    #[test]
    fn tasks_that_never_succeed_come_first_and_die_soon() {
        let mut tasks = [task(1.0, 0, &[5.0, 4.0]), task(1.0, 1, &[f64::INFINITY])];
        assert_eq!(greedy().next(&one_network(2), &tasks), Next::Task(1));
        tasks[1].finish_round(None);
        tasks[1].finish_round(None);
        assert_eq!(greedy().next(&one_network(2), &tasks), Next::Task(0));
    }

    #[test]
    fn requirements_end_the_search() {
        let tasks = [task(1.0, 0, &[1.0]), task(1.0, 1, &[2.0])];
        let scheduler = Scheduler { objective: Objective::Requirement, ..greedy() };
        let network = |reference| Network { reference, ..Network::new(vec![(0, 1.0), (1, 1.0)]) };
        assert_eq!(scheduler.next(&[network(3.0)], &tasks), Next::Done(Reason::RequirementsMet));
        assert_eq!(scheduler.next(&[network(2.9)], &tasks), Next::Task(1));
        // A network that is fast enough attracts no rounds.
        let fast = Network { reference: 100.0, ..Network::new(vec![(1, 9.0)]) };
        let slow = Network { reference: 0.5, ..Network::new(vec![(0, 1.0)]) };
        assert_eq!(scheduler.next(&[fast, slow], &tasks), Next::Task(0));
    }

    #[test]
    fn a_way_that_is_far_behind_gets_no_more_rounds() {
        let fork = Fork { ways: vec![vec![0], vec![1]], count: 1.0 };
        let networks = [Network { forks: vec![fork], ..Network::default() }];
        let behind = |rounds: usize| [task(1.0, 0, &[3.0; 9]), task(1.0, 1, &vec![4.0; rounds])];
        // After two rounds it might gain two fifths, after four a fifth, which is not enough.
        assert_eq!(greedy().next(&networks, &behind(2)), Next::Task(1));
        assert!(greedy().gradient(&networks, &behind(4), 1) == 0.0);
        assert_eq!(greedy().next(&networks, &behind(4)), Next::Task(0));
    }

    #[test]
    fn a_way_that_cannot_win_gets_no_round() {
        let fork = Fork { ways: vec![vec![0], vec![1]], count: 1.0 };
        let networks = [Network { forks: vec![fork], ..Network::default() }];
        let way = |start: f64, least: f64, bests: &[f64]| TaskState {
            start: Some(start),
            least,
            ..task(1.0, 0, bests)
        };
        // Even at the peak the second way takes longer than the first does by its default.
        let mut tasks = [way(3.0, 2.0, &[]), way(4.0, 3.5, &[])];
        assert_eq!(greedy().next(&networks, &tasks), Next::Task(0));
        tasks[0].finish_round(Some(2.9));
        assert_eq!(greedy().next(&networks, &tasks), Next::Task(0));
        assert!(greedy().gradient(&networks, &tasks, 0) < 0.0);
        // Later rounds are refused for the same reason.
        tasks[1].finish_round(Some(3.6));
        assert!(greedy().gradient(&networks, &tasks, 1) == 0.0);
        tasks[1].least = 0.0;
        assert!(greedy().gradient(&networks, &tasks, 1) < 0.0);
    }

    #[test]
    fn known_tasks_begin_with_what_counts_most() {
        let known = |start: f64| TaskState { start: Some(start), ..task(1.0, 0, &[]) };
        let networks = [Network::new(vec![(0, 1.0), (1, 4.0), (2, 1.0), (3, 1.0)])];
        let mut tasks = vec![known(3.0), known(1.0), known(5.0), task(1.0, 0, &[])];
        let mut order = Vec::new();
        for _ in 0..4 {
            let Next::Task(at) = greedy().next(&networks, &tasks) else { panic!("a task is left") };
            tasks[at].finish_round(Some(1.0));
            order.push(at);
        }
        assert_eq!(order, [3, 2, 1, 0], "what is not known first");
    }

    #[test]
    fn early_stopped_tasks_count_no_more() {
        let tasks = [task(1.0, 0, &[9.0, 9.0, 9.0]), task(1.0, 1, &[1.0, 0.5, 0.4])];
        let scheduler = Scheduler { objective: Objective::EarlyStop { rounds: 2, gain: 0.01 }, ..greedy() };
        assert_eq!(greedy().next(&one_network(2), &tasks), Next::Task(0));
        assert_eq!(scheduler.next(&one_network(2), &tasks), Next::Task(1));
    }

    #[test]
    fn sometimes_another_living_task_is_chosen() {
        let tasks = |rounds: usize| {
            let falling = (0..rounds).map(|r| 1.0 / (r + 1) as f64).collect::<Vec<_>>();
            [task(1.0, 0, &[9.0]), task(1.0, 1, &falling)]
        };
        let scheduler = Scheduler { epsilon: 0.5, ..Scheduler::default() };
        let chosen = (1..200).map(|r| scheduler.next(&one_network(2), &tasks(r)));
        let others = chosen.filter(|next| *next == Next::Task(1)).count();
        assert!((20..80).contains(&others), "{others}");
        let again = scheduler.next(&one_network(2), &tasks(7));
        assert_eq!(again, scheduler.next(&one_network(2), &tasks(7)));
    }
}
