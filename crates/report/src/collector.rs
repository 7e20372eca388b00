//! From what is measured to a report: one after the other, from stored records or from events.

use std::collections::BTreeMap;

use talweg_db::{TargetKey, TaskKey};

use crate::accuracy::{accuracy, line, together};
use crate::describe::{cut, described, machine};
use crate::importance::{Row, importance};
use crate::knobs::{candidate, knobs};
use crate::report::{Curve, ErrorGroup, Importance, Live, Peer, Report, Roofs, Run, Sample, Task, Update};
use crate::thinning::{MOST_POINTS, MOST_SAMPLES, keep, moment, short};

/// Importance is computed anew when a task has so many more samples, as a share of those it had.
const MUCH_MORE: f64 = 1.5;

/// What is known about a run when it begins.
#[derive(Debug, Clone, Default)]
pub struct RunFacts {
    /// Its number in the database; zero for a run that is not stored.
    pub id: i64,
    /// Its strategy.
    pub strategy: String,
    /// Its seed.
    pub seed: u64,
    /// The command line.
    pub command: String,
    /// The version of talweg that ran it.
    pub version: String,
    /// Unix seconds of its start.
    pub started: u64,
    /// One `name: value` a line.
    pub environment: String,
}

/// What is known about a task before it is tuned.
#[derive(Debug, Clone)]
pub struct TaskFacts {
    /// Its key in the database.
    pub key: TaskKey,
    /// Its name; made from its text if not given.
    pub name: Option<String>,
    /// How often it runs in what is tuned for.
    pub weight: f64,
    /// Operations of one run; counted in its text if not given.
    pub flops: Option<f64>,
}

/// A measured candidate.
#[derive(Debug, Clone, Copy)]
pub struct Measured<'a> {
    /// The run, as [`Collector::add_run`] gave it.
    pub run: usize,
    /// The task, as [`Collector::add_task`] gave it.
    pub task: usize,
    /// Seconds since the start of the run.
    pub at: f64,
    /// Seconds, or the cause of the failure and its text, if that is known.
    pub outcome: Result<f64, (&'a str, Option<&'a str>)>,
    /// The score of the cost model.
    pub predicted: Option<f64>,
    /// The schedule.
    pub trace: &'a str,
}

/// One good sample, as it is kept.
struct Kept {
    task: usize,
    run: usize,
    at: f64,
    seconds: f64,
    score: Option<f64>,
    /// The fastest of its run when it was measured.
    rival: f64,
    candidate: String,
    row: Row,
    improved: bool,
}

#[derive(Default)]
struct TaskState {
    out: Task,
    fastest: f64,
    fastest_trace: (String, String),
    names: Vec<String>,
    good: usize,
    /// How many samples there were when the importance was last computed.
    weighed: usize,
    /// How many there were when the scores were last judged.
    judged: usize,
    /// Whether the readers of updates do not know the winner's steps yet.
    is_new: bool,
}

/// Takes in what is measured, and makes reports of it.
pub struct Collector {
    target: TargetKey,
    threads: u32,
    made: u64,
    roofs: Option<Roofs>,
    peers: Vec<Peer>,
    live: Option<Live>,
    runs: Vec<Run>,
    tasks: Vec<TaskState>,
    by_key: BTreeMap<TaskKey, usize>,
    kept: Vec<Kept>,
    errors: BTreeMap<String, ErrorGroup>,
}

impl Collector {
    /// Nothing is known yet but the machine and the number of threads; `made` are Unix seconds.
    pub fn new(target: &TargetKey, threads: u32, made: u64) -> Collector {
        Collector {
            target: target.clone(),
            threads,
            made,
            roofs: None,
            peers: Vec::new(),
            live: None,
            runs: Vec::new(),
            tasks: Vec::new(),
            by_key: BTreeMap::new(),
            kept: Vec::new(),
            errors: BTreeMap::new(),
        }
    }

    /// Sets what the machine can do at most.
    pub fn set_roofs(&mut self, roofs: Option<Roofs>) {
        self.roofs = roofs;
    }

    /// Adds other runtimes.
    pub fn add_peers(&mut self, peers: impl IntoIterator<Item = Peer>) {
        self.peers.extend(peers);
    }

    /// Says how far the run is.
    pub fn live(&mut self) -> &mut Live {
        self.live.get_or_insert_default()
    }

    /// Adds a run; returns its position.
    pub fn add_run(&mut self, facts: RunFacts) -> usize {
        let environment = facts.environment.lines().filter_map(|l| {
            let (name, value) = l.split_once([':', '='])?;
            Some((name.trim().to_string(), value.trim().to_string()))
        });
        self.runs.push(Run {
            id: facts.id,
            label: facts.strategy.clone(),
            strategy: facts.strategy,
            seed: facts.seed,
            command: facts.command,
            version: facts.version,
            started: facts.started,
            environment: environment.collect(),
            ..Run::default()
        });
        self.runs.len() - 1
    }

    /// Adds a task to a run, or finds it; returns its position. What is known later replaces what was guessed.
    pub fn add_task(&mut self, run: usize, facts: TaskFacts) -> usize {
        let at = match self.by_key.get(&facts.key) {
            Some(at) => *at,
            None => {
                self.by_key.insert(facts.key.clone(), self.tasks.len());
                self.tasks.push(TaskState {
                    fastest: f64::INFINITY,
                    out: described(&facts.key),
                    ..TaskState::default()
                });
                self.tasks.len() - 1
            }
        };
        let task = &mut self.tasks[at].out;
        task.weight = facts.weight;
        if let Some(name) = facts.name.filter(|name| !name.is_empty()) {
            task.name = name;
        }
        if let Some(flops) = facts.flops.filter(|f| *f > 0.0) {
            task.flops = flops;
        }
        self.belongs(run, at);
        at
    }

    /// Notes that a run tunes a task.
    pub fn belongs(&mut self, run: usize, task: usize) {
        if let Some(run) = self.runs.get_mut(run)
            && !run.tasks.contains(&task)
        {
            run.tasks.push(task);
        }
    }

    /// The position of the task with a key.
    pub fn task_of(&self, key: &TaskKey) -> Option<usize> {
        self.by_key.get(key).copied()
    }

    /// The default schedule of a task was measured: the start of its curve.
    pub fn default_measured(&mut self, run: usize, task: usize, at: f64, seconds: f64, trace: &str) {
        let state = &mut self.tasks[task];
        let known = state.out.default_us.unwrap_or(f64::INFINITY);
        state.out.default_us = Some(known.min(seconds * 1e6));
        state.improve(run, at, seconds, "default", trace);
        self.lasts(run, at);
    }

    /// An earlier run has found something of this time: the curve goes on from there.
    pub fn known(&mut self, run: usize, task: usize, at: f64, seconds: f64) {
        self.tasks[task].improve(run, at, seconds, "an earlier run", "");
    }

    /// A candidate was measured.
    pub fn measured(&mut self, sample: &Measured<'_>) {
        let Measured { run, task, at, outcome, predicted, trace } = *sample;
        self.lasts(run, at);
        let strategy = match self.runs.get_mut(run) {
            Some(of_run) => {
                of_run.trials += 1;
                of_run.failed += usize::from(outcome.is_err());
                of_run.strategy.clone()
            }
            None => String::new(),
        };
        let state = &mut self.tasks[task];
        state.out.trials += 1;
        let seconds = match outcome {
            Ok(seconds) => seconds,
            Err((cause, text)) => {
                state.out.failed += 1;
                let group = self.errors.entry(cause.to_string()).or_default();
                group.count += 1;
                if let Some(text) = text.filter(|_| group.text.is_empty()) {
                    group.text = cut(text);
                }
                match group.tasks.iter_mut().find(|(at, _)| *at == task) {
                    Some((_, count)) => *count += 1,
                    None => group.tasks.push((task, 1)),
                }
                return;
            }
        };
        state.good += 1;
        let rival = state.curve(run).points.last().map_or(seconds, |(_, us)| us * 1e-6);
        let improved = state.improve(run, at, seconds, &strategy, trace);
        let mut values = Vec::new();
        for (name, value) in knobs(trace) {
            let known = state.names.iter().position(|n| *n == name);
            let knob = known.unwrap_or_else(|| {
                state.names.push(name);
                state.names.len() - 1
            });
            values.push((knob, value));
        }
        self.kept.push(Kept {
            task,
            run,
            at,
            seconds,
            score: predicted.filter(|p| p.is_finite()),
            rival,
            candidate: candidate(trace).unwrap_or_default().to_string(),
            row: Row { seconds, values },
            improved,
        });
    }

    /// The full text of a cause of failure.
    pub fn explain(&mut self, cause: &str, text: &str) {
        if let Some(group) = self.errors.get_mut(cause).filter(|group| group.text.is_empty()) {
            group.text = cut(text);
        }
    }

    /// A winner was compared with the default in alternating runs.
    pub fn proven(&mut self, task: usize, seconds: f64, default_seconds: f64) {
        let task = &mut self.tasks[task].out;
        task.best_us = Some(seconds * 1e6);
        task.default_us = Some(default_seconds * 1e6);
        task.proven = true;
    }

    /// What else is known about a proven winner.
    pub fn winner(&mut self, task: usize, strategy: &str, error: f64, trace: &str) {
        self.tasks[task].is_new = true;
        let task = &mut self.tasks[task].out;
        (task.strategy, task.error, task.trace) = (strategy.to_string(), Some(error), cut(trace));
    }

    /// The position of the task with a name.
    pub fn task_named(&self, name: &str) -> Option<usize> {
        self.tasks.iter().position(|task| task.out.name == name)
    }

    /// How many good samples there are.
    pub fn good(&self) -> usize {
        self.kept.len()
    }

    fn lasts(&mut self, run: usize, at: f64) {
        if let Some(run) = self.runs.get_mut(run) {
            run.seconds = run.seconds.max(at);
        }
    }

    /// Everything that is known.
    pub fn report(&mut self) -> Report {
        let n = self.kept.len();
        let chosen = keep(n, MOST_SAMPLES, |at| self.kept[at].improved);
        let goes_on = self.live.as_ref().is_some_and(|live| live.ended.is_none());
        self.refresh(if goes_on { MUCH_MORE } else { 1.0 });
        self.tasks.iter_mut().for_each(|task| task.is_new = false);
        self.build(&chosen)
    }

    /// What is new since there were so many good samples. The steps of winners that were told before are left out, and
    /// the importance of knobs is computed anew only where there is much more to compute it from.
    pub fn update(&mut self, since: usize) -> Update {
        self.refresh(MUCH_MORE);
        let new: Vec<usize> = (since.min(self.kept.len())..self.kept.len()).collect();
        let mut report = self.build(&new);
        for (task, state) in report.tasks.iter_mut().zip(&mut self.tasks) {
            if !std::mem::take(&mut state.is_new) {
                task.trace.clear();
            }
        }
        Update { report, whole: false }
    }

    /// Judges the scores of tasks that have new samples, and computes the importance of knobs for those that have so many
    /// times as many as last time.
    fn refresh(&mut self, growth: f64) {
        let has_unit: Vec<bool> = self.runs.iter().map(scores_are_speeds).collect();
        for (at, state) in self.tasks.iter_mut().enumerate() {
            if state.judged != state.good {
                let kept: Vec<&Kept> = self.kept.iter().filter(|k| k.task == at).collect();
                judge(&kept, &mut state.out, &has_unit);
                state.judged = state.good;
            }
            let is_stale = state.good as f64 >= state.weighed as f64 * growth && state.good > state.weighed;
            if is_stale || state.out.importance == Importance::default() {
                let rows: Vec<Row> =
                    self.kept.iter().filter(|k| k.task == at).map(|k| k.row.clone()).collect();
                state.out.importance = importance(&state.names, &rows);
                state.weighed = state.good;
            }
        }
    }

    fn build(&self, chosen: &[usize]) -> Report {
        let tasks: Vec<Task> = self.tasks.iter().map(TaskState::task).collect();
        let has_unit: Vec<bool> = self.runs.iter().map(scores_are_speeds).collect();
        let parts: Vec<_> = tasks.iter().filter_map(|task| task.accuracy).collect();
        let sample = |at: &usize| {
            let k = &self.kept[*at];
            let expected = k.score.map(|s| if has_unit[k.run] { expected_us(k, s) } else { s });
            Sample(
                k.task,
                k.run,
                moment(k.at),
                short(k.seconds * 1e6),
                expected.map(short),
                k.candidate.clone(),
            )
        };
        let mut errors: Vec<ErrorGroup> = self
            .errors
            .iter()
            .map(|(cause, group)| ErrorGroup { cause: cause.clone(), ..group.clone() })
            .collect();
        errors.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.cause.cmp(&b.cause)));
        Report {
            title: self.title(),
            made: self.made,
            tool: env!("CARGO_PKG_VERSION").into(),
            machine: machine(&self.target),
            threads: self.threads,
            roofs: self.roofs.clone(),
            runs: self.labelled(),
            tasks,
            samples: chosen.iter().map(sample).collect(),
            measured: self.kept.len(),
            errors,
            peers: self.peers.clone(),
            accuracy: together(&parts),
            live: self.live.clone(),
        }
    }

    /// The models of the latest run, or what it has tuned.
    fn title(&self) -> String {
        let words = self.runs.last().map_or("", |run| run.command.as_str()).split_whitespace();
        let models = words.filter_map(|word| word.strip_suffix(".onnx")?.rsplit('/').next());
        let models: Vec<&str> = models.filter(|name| !name.is_empty()).collect();
        if !models.is_empty() && self.tasks.len() > 1 {
            return models.join(", ");
        }
        match self.tasks.as_slice() {
            [] => "nothing tuned yet".into(),
            [one] => one.out.name.clone(),
            [first, rest @ ..] => format!("{} and {} more tasks", first.out.name, rest.len()),
        }
    }

    /// The runs; those whose strategies have the same name are told apart by their numbers.
    fn labelled(&self) -> Vec<Run> {
        let mut runs = self.runs.clone();
        for run in &mut runs {
            run.seconds = moment(run.seconds);
            if self.runs.iter().filter(|other| other.strategy == run.strategy).count() > 1 {
                run.label = format!("{} #{}", run.strategy, run.id);
            }
        }
        runs
    }
}

impl TaskState {
    /// The curve of a run.
    fn curve(&mut self, run: usize) -> &mut Curve {
        let curves = &mut self.out.curves;
        let at = curves.iter().position(|c| c.run == run).unwrap_or_else(|| {
            curves.push(Curve { run, points: Vec::new() });
            curves.len() - 1
        });
        &mut curves[at]
    }

    /// Notes a time; true if it is the best of its run so far.
    fn improve(&mut self, run: usize, at: f64, seconds: f64, strategy: &str, trace: &str) -> bool {
        let us = seconds * 1e6;
        let curve = self.curve(run);
        let improved = curve.points.last().is_none_or(|(_, best)| us < *best);
        if improved {
            curve.points.push((at, us));
        }
        if seconds < self.fastest {
            (self.fastest, self.is_new) = (seconds, true);
            self.fastest_trace = (strategy.to_string(), trace.to_string());
        }
        improved
    }

    fn task(&self) -> Task {
        let mut task = self.out.clone();
        if !task.proven {
            task.best_us = self.fastest.is_finite().then_some(self.fastest * 1e6);
        }
        if task.trace.is_empty() {
            task.strategy.clone_from(&self.fastest_trace.0);
            task.trace = cut(&self.fastest_trace.1);
        }
        task.best_us = task.best_us.map(short);
        task.default_us = task.default_us.map(short);
        for curve in &mut task.curves {
            let n = curve.points.len();
            let kept = keep(n, MOST_POINTS, |at| at == 0 || at + 1 == n);
            curve.points = kept.into_iter().map(|at| curve.points[at]).collect();
            curve.points.iter_mut().for_each(|(at, us)| (*at, *us) = (moment(*at), short(*us)));
        }
        task
    }
}

/// How the scores of a task's samples rank, and the scales of those that have no unit.
fn judge(kept: &[&Kept], task: &mut Task, has_unit: &[bool]) {
    task.scales.clear();
    let mut parts = Vec::new();
    for (run, speeds) in has_unit.iter().enumerate() {
        let scored = || kept.iter().filter(|k| k.run == run).filter_map(|k| Some((k.score?, *k)));
        // Larger scores are faster, so their negatives grow with the time; speeds are those over the fastest of the moment.
        let relative = |k: &Kept| if *speeds { k.seconds / k.rival.max(1e-12) } else { k.seconds };
        parts.extend(accuracy(&scored().map(|(score, k)| (-score, relative(k))).collect::<Vec<_>>()));
        let points: Vec<(f64, f64)> = scored().map(|(score, k)| (score, (k.seconds * 1e6).ln())).collect();
        if !speeds && !points.is_empty() {
            let mean = points.iter().map(|p| p.1).sum::<f64>() / points.len() as f64;
            let (a, b) = line(&points).unwrap_or((mean, 0.0));
            task.scales.push((run, short(a), short(b)));
        }
    }
    task.accuracy = together(&parts);
}

/// What the model expected, for scores that are speeds relative to the fastest at that time.
fn expected_us(kept: &Kept, score: f64) -> f64 {
    kept.rival * 1e6 / score.clamp(0.02, 50.0)
}

/// Whether a run's scores are speeds: Ansor's own model predicts them, all others only an order.
fn scores_are_speeds(run: &Run) -> bool {
    let model = run.environment.iter().find(|(name, _)| name == "model");
    run.strategy == "ansor" && model.is_none_or(|(_, model)| model == "trees")
}
