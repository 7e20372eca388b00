//! A network: imported, rewritten, cut into tasks; compiled by stored winners and defaults.

use std::collections::BTreeMap;
use std::path::Path;

use talweg_artifact::{Artefact, BuildError, BuildOptions, Choice, build};
use talweg_db::{Database, DbError, RunId, TargetKey};
use talweg_graph::{
    Algorithm, Fork, PartitionError, PartitionOptions, Program, RewriteError, Task, Way, Work, optimise,
    partition,
};
use talweg_onnx::{ImportError, ImportOptions, import};
use talweg_schedule::Trace;
use talweg_target::Target;
use talweg_tensor::Tensor;
use talweg_tuner::records::task_key;

use crate::algorithms::{self, DEFAULT_MAX_ERROR};
use crate::inputs;

/// Why a model cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// The file is not a model that talweg understands.
    #[error("{0}")]
    Import(#[from] ImportError),
    /// A rule broke the graph: a defect of talweg.
    #[error("{0}")]
    Rewrite(#[from] RewriteError),
    /// The graph cannot be cut into tasks.
    #[error("{0}")]
    Partition(#[from] PartitionError),
}

/// An algorithm is worth measuring when it is estimated to take less than this times the chosen one's time; two steps in
/// one kernel, when they are estimated to take less time than apart.
const CLOSE: f64 = 1.5;

/// A network ready to be compiled.
#[derive(Clone, Debug)]
pub struct Network {
    /// The graph as imported.
    pub imported: talweg_graph::Graph,
    /// Its tasks and steps.
    pub program: Program,
    /// The error of a single operator, relative to the scale of its result, that an algorithm may have; zero forbids
    /// all but the direct ones.
    pub max_error: f64,
}

impl Network {
    /// Imports a model, rewrites its graph and cuts it into tasks.
    pub fn open(path: &Path, options: &ImportOptions) -> Result<Network, NetworkError> {
        let mut imported = import(path, options)?;
        // Exporters call every graph the same; people know the file.
        if let Some(stem) = path.file_stem() {
            imported.name = stem.to_string_lossy().into_owned();
        }
        let mut graph = imported.clone();
        optimise(&mut graph)?;
        let program = partition(graph, &PartitionOptions::default())?;
        Ok(Network { imported, program, max_error: DEFAULT_MAX_ERROR })
    }

    /// Chooses the algorithm of every step that has several, by measured times where winners have them.
    pub fn choose(&mut self, target: &Target, winners: &Winners) {
        let max_error = self.max_error;
        self.program.choose(&|fork| algorithms::pick(fork, target, max_error, &|task| winners.seconds(task)));
    }

    /// Compiles every task: by its stored winner where there is one, by the analytic default elsewhere.
    pub fn compile(&self, target: &Target, winners: &Winners, jobs: usize) -> Result<Artefact, BuildError> {
        let options = BuildOptions { target: target.clone(), jobs };
        build(&self.program, &options, &|task| winners.choice(task))
    }

    /// Compiles every task as it is chosen for it, one choice a task; kernels run on the given numbers of threads at
    /// most, where these are given, and as the analytic rule says otherwise.
    pub fn compile_as(
        &self,
        target: &Target,
        choices: &[Choice],
        limits: Option<&[Option<usize>]>,
        jobs: usize,
    ) -> Result<Artefact, BuildError> {
        let by_text: BTreeMap<&str, &Choice> =
            self.program.tasks.iter().map(|task| task.text.as_str()).zip(choices).collect();
        let options = BuildOptions { target: target.clone(), jobs };
        let choose = |task: &Task| by_text.get(task.text.as_str()).map_or(Choice::Default, |c| (*c).clone());
        let mut artefact = build(&self.program, &options, &choose)?;
        for (kernel, limit) in artefact.manifest.kernels.iter_mut().zip(limits.unwrap_or(&[])) {
            kernel.threads = *limit;
        }
        Ok(artefact)
    }

    /// Tasks of algorithms that are not chosen but may turn out faster, with the nodes that the first of them computes.
    pub fn contenders(&self, target: &Target) -> Vec<(Task, &[String])> {
        let program = &self.program;
        let close = |way: &Way, fork: &Fork| {
            let chosen = algorithms::estimate(fork, fork.chosen(), target);
            let close = match (way.algorithm, &fork.before) {
                // One of its halves would be measured for nothing without the other.
                (Algorithm::Direct, Some(_)) => f64::INFINITY,
                (_, Some(_)) => 1.0,
                (_, None) => CLOSE,
            };
            way.algorithm.expected_error() <= self.max_error
                && algorithms::estimate(fork, way, target) < close * chosen
        };
        let mut found = program.alternatives();
        let fork_of = |task: &Task| {
            let is = |other: &Task| other.text == task.text;
            let has = |fork: &&Fork| {
                fork.ways.iter().any(|w| is(&w.task) && close(w, fork))
                    || fork.before.as_ref().is_some_and(|before| is(&before.task))
            };
            program.forks.iter().find(has)
        };
        found.retain(|task| fork_of(task).is_some());
        let nodes = |task: &Task| fork_of(task).map_or(&[][..], |fork| program.nodes_of(fork));
        found.into_iter().map(|task| (task.clone(), nodes(&task))).collect()
    }

    /// The model's nodes that the first use of a task computes.
    pub fn nodes_of(&self, task: usize) -> &[String] {
        let uses = |step: &&talweg_graph::Step| matches!(step.work, Work::Kernel(used) if used == task);
        self.program.steps.iter().find(uses).map_or(&[], |step| &step.nodes)
    }

    /// Arrays for the inputs, the same on every machine: what is used when the user gives none.
    pub fn random_inputs(&self) -> Vec<Tensor> {
        inputs::of_graph(&self.imported)
    }
}

/// A tensor of small numbers, the same for the same seed.
pub fn random_tensor(ty: &talweg_tensor::TensorType, seed: u64) -> Tensor {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let real = ty.element.is_float();
    let values = (0..ty.len()).map(|_| {
        let unit = (next() >> 11) as f64 / (1u64 << 53) as f64;
        if real { unit * 2.0 - 1.0 } else { (unit * 2.0).floor() }
    });
    Tensor::from_f64(ty.element, ty.shape.clone(), values.collect::<Vec<_>>())
}

/// The steps of a schedule, and its seconds where they are known.
type Known = (String, Option<f64>);

/// Stored winners of tuning for one machine and number of threads.
#[derive(Clone, Debug, Default)]
pub struct Winners {
    found: Vec<(String, Trace, Option<f64>)>,
}

impl Winners {
    /// Looks up the winners of a program's tasks, those of algorithms that are not chosen included.
    pub fn look_up(
        db: &Database,
        program: &Program,
        target: &Target,
        threads: usize,
    ) -> Result<Winners, DbError> {
        let key = TargetKey::new(target.fingerprint());
        // Its time is that of the comparison with the default: what a search measured may be a calm moment.
        Winners::by(program, &|task| {
            let best = db.best(&task_key(&task.dag), &key, threads as u32)?;
            Ok(best.map(|best| (best.record.trace, Some(best.default_seconds / best.ab_ratio))))
        })
    }

    /// The fastest of each task that a run had measured so many seconds after its start, finals or not.
    pub fn as_of(
        db: &Database,
        program: &Program,
        target: &Target,
        threads: usize,
        (run, seconds): (RunId, f64),
    ) -> Result<Winners, DbError> {
        let key = TargetKey::new(target.fingerprint());
        Winners::by(program, &|task| {
            let key_of = task_key(&task.dag);
            let fastest = db.fastest_until(run, &key_of, &key, threads as u32, seconds)?;
            Ok(fastest.map(|record| (record.trace.clone(), record.typical_seconds())))
        })
    }

    /// Of the texts of tasks, with steps and seconds.
    #[cfg(test)]
    pub(crate) fn of(found: Vec<(String, Trace, Option<f64>)>) -> Winners {
        Winners { found }
    }

    /// The steps and seconds of a program's tasks, those of algorithms that are not chosen included.
    fn by(
        program: &Program,
        known: &dyn Fn(&Task) -> Result<Option<Known>, DbError>,
    ) -> Result<Winners, DbError> {
        let mut found = Vec::new();
        for task in program.tasks.iter().chain(&program.alternatives()) {
            if let Some((trace, seconds)) = known(task)?
                && let Ok(trace) = Trace::parse(&trace)
            {
                found.push((task.text.clone(), trace, seconds));
            }
        }
        Ok(Winners { found })
    }

    /// The schedule of a task.
    pub fn choice(&self, task: &Task) -> Choice {
        match self.found.iter().find(|(text, ..)| *text == task.text) {
            Some((_, trace, _)) => Choice::Tuned(trace.clone()),
            None => Choice::Default,
        }
    }

    /// The measured time of a task's winner.
    pub fn seconds(&self, task: &Task) -> Option<f64> {
        self.found.iter().find(|(text, ..)| *text == task.text).and_then(|(_, _, seconds)| *seconds)
    }

    /// How many of a program's tasks have one.
    pub fn count(&self, program: &Program) -> usize {
        let known = |task: &&Task| self.found.iter().any(|(text, ..)| *text == task.text);
        program.tasks.iter().filter(known).count()
    }

    /// Whether no task has one.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }
}
