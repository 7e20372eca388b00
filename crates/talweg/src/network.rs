//! A network: imported, rewritten, cut into tasks; compiled by stored winners and defaults.

use std::collections::BTreeMap;
use std::path::Path;

use talweg_artifact::{Artefact, BuildError, BuildOptions, Choice, build};
use talweg_db::{Database, DbError, TargetKey};
use talweg_graph::{
    PartitionError, PartitionOptions, Program, RewriteError, Task, Work, optimise, partition,
};
use talweg_onnx::{ImportError, ImportOptions, import};
use talweg_schedule::Trace;
use talweg_target::Target;
use talweg_tensor::Tensor;
use talweg_tuner::records::task_key;

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

/// A network ready to be compiled.
#[derive(Clone, Debug)]
pub struct Network {
    /// The graph as imported.
    pub imported: talweg_graph::Graph,
    /// Its tasks and steps.
    pub program: Program,
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
        Ok(Network { imported, program })
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

    /// The model's nodes that the first use of a task computes.
    pub fn nodes_of(&self, task: usize) -> &[String] {
        let uses = |step: &&talweg_graph::Step| matches!(step.work, Work::Kernel(used) if used == task);
        self.program.steps.iter().find(uses).map_or(&[], |step| &step.nodes)
    }

    /// Arrays for the inputs, the same on every machine: what is used when the user gives none.
    pub fn random_inputs(&self) -> Vec<Tensor> {
        let graph = &self.imported;
        graph.inputs.iter().enumerate().map(|(at, id)| random_tensor(graph.ty(*id), at as u64 + 1)).collect()
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

/// Stored winners of tuning for one machine and number of threads.
#[derive(Default)]
pub struct Winners {
    found: Vec<(String, Trace)>,
}

impl Winners {
    /// Looks up the winners of a program's tasks.
    pub fn look_up(
        db: &Database,
        program: &Program,
        target: &Target,
        threads: usize,
    ) -> Result<Winners, DbError> {
        let key = TargetKey::new(target.fingerprint());
        let mut found = Vec::new();
        for task in &program.tasks {
            if let Some(best) = db.best(&task_key(&task.dag), &key, threads as u32)?
                && let Ok(trace) = Trace::parse(&best.record.trace)
            {
                found.push((task.text.clone(), trace));
            }
        }
        Ok(Winners { found })
    }

    /// The schedule of a task.
    pub fn choice(&self, task: &Task) -> Choice {
        match self.found.iter().find(|(text, _)| *text == task.text) {
            Some((_, trace)) => Choice::Tuned(trace.clone()),
            None => Choice::Default,
        }
    }

    /// How many tasks have one.
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// Whether no task has one.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }
}
