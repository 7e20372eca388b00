//! The lock of a compiled network: everything its bits depend on, as text.
//!
//! `talweg tune` writes it beside the artefact. From the model and the lock, the same version of talweg compiles the same
//! bits again, without the tuning database.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use talweg_artifact::{Artefact, BuildError, Choice, write_whole};
use talweg_graph::{Algorithm, Task};
use talweg_schedule::Trace;
use talweg_schedule::analytic::default_trace;
use talweg_target::Target;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use crate::network::Network;

/// The version of the format that is written and read.
pub const FORMAT: u32 = 1;

/// This version of talweg, as locks and artefacts name it.
pub const TOOL: &str = concat!("talweg ", env!("CARGO_PKG_VERSION"));

/// Why a lock cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The file cannot be read or written.
    #[error("cannot {what} the lock `{}`: {source}", .path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The text is not that of a lock.
    #[error("`{}` is not a sound lock: {text}; restore it, or write a new one with `talweg tune`", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        text: String,
    },
    /// The model is another one, or bound to other shapes.
    #[error(
        "the lock was written for the model `{name}` with hash {wanted}, this one has {here}; give that model, and the same --shape, --dim and --fix, or tune this one"
    )]
    OtherModel {
        /// The model's name in the lock.
        name: String,
        /// The hash in the lock.
        wanted: String,
        /// The hash of the model that was given.
        here: String,
    },
    /// The machine is another one.
    #[error(
        "the lock was written for the machine `{wanted}`, the target is `{here}`; tune on this machine, or give `--target lock` to compile for that one"
    )]
    OtherTarget {
        /// The machine in the lock.
        wanted: String,
        /// The machine to compile for.
        here: String,
    },
    /// An algorithm of the lock is less exact than what is accepted.
    #[error(
        "the lock computes `{node}` by {algorithm}, with an expected error of {error:e}, and --max-error accepts {accepted:e}; tune the model with that --max-error, or leave it out to take the lock as it is"
    )]
    Inexact {
        /// The first node that the step stands for.
        node: String,
        /// The algorithm.
        algorithm: Algorithm,
        /// Its expected error.
        error: f64,
        /// What is accepted.
        accepted: f64,
    },
    /// The lock has other tasks than the model.
    #[error(
        "the lock has no schedule for the task `{task}` of the model; tune the model with this version of talweg ({TOOL}, the lock is of {tool})"
    )]
    MissingTask {
        /// The task.
        task: String,
        /// Who wrote the lock.
        tool: String,
    },
    /// A schedule in the lock cannot be read.
    #[error(
        "the schedule of the task `{task}` in the lock: {text}; restore the lock, or write a new one with `talweg tune`"
    )]
    Schedule {
        /// The task.
        task: String,
        /// What is wrong.
        text: String,
    },
}

/// Everything an artefact's bits depend on beside the model itself, and where it comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lock {
    /// [`FORMAT`].
    pub format: u32,
    /// The version of talweg.
    pub tool: String,
    /// The version of LLVM.
    pub llvm: String,
    /// The model.
    pub model: LockedModel,
    /// The machine's fingerprint, for people and for comparing.
    pub machine: String,
    /// The machine, as far as generated code depends on it.
    pub target: Target,
    /// Threads the schedules were tuned for.
    pub threads: usize,
    /// The seed of the search.
    pub seed: u64,
    /// The search.
    pub strategy: String,
    /// The schedules, in the order of the model's tasks.
    pub tasks: Vec<LockedTask>,
}

/// Which model a lock is for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LockedModel {
    /// Its name, which is in the artefact.
    pub name: String,
    /// The hash of its graph and weights.
    pub hash: String,
}

/// The schedule of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LockedTask {
    /// What it is, for people.
    pub name: String,
    /// The hash of the task's text.
    pub task: String,
    /// Whether the schedule was found by search.
    pub tuned: bool,
    /// Threads its kernel runs on at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// The steps of the schedule.
    pub trace: Vec<String>,
}

/// Who found the schedules of a lock, and for what.
#[derive(Clone, Debug, PartialEq)]
pub struct Provenance {
    /// The machine.
    pub target: Target,
    /// Threads.
    pub threads: usize,
    /// The seed of the search.
    pub seed: u64,
    /// The search.
    pub strategy: String,
}

impl Lock {
    /// The lock of a network compiled by these choices, with the thread limits of its kernels.
    pub fn new(network: &Network, choices: &[Choice], limits: &[Option<usize>], from: &Provenance) -> Lock {
        let tasks = network.program.tasks.iter().enumerate().map(|(at, task)| {
            let trace = match &choices[at] {
                Choice::Default => default_trace(&task.dag, &from.target),
                Choice::Tuned(trace) => trace.clone(),
            };
            LockedTask {
                name: name_of(network, at),
                task: hash_of(task),
                tuned: matches!(choices[at], Choice::Tuned(_)),
                threads: limits.get(at).copied().flatten(),
                trace: trace.to_string().lines().map(str::to_string).collect(),
            }
        });
        Lock {
            format: FORMAT,
            tool: TOOL.into(),
            llvm: talweg_codegen::llvm_version(),
            model: LockedModel { name: network.program.graph.name.clone(), hash: network.hash() },
            machine: from.target.fingerprint(),
            target: from.target.clone(),
            threads: from.threads,
            seed: from.seed,
            strategy: from.strategy.clone(),
            tasks: tasks.collect(),
        }
    }

    /// The name of the lock beside an artefact: `model.talweg.lock` for `model.talweg`.
    pub fn beside(artefact: &Path) -> PathBuf {
        let mut name = artefact.as_os_str().to_os_string();
        name.push(".lock");
        PathBuf::from(name)
    }

    /// Reads a lock.
    pub fn read(path: &Path) -> Result<Lock, LockError> {
        let failed = |source| LockError::File { what: "read", path: path.to_path_buf(), source };
        let malformed = |text: String| LockError::Malformed { path: path.to_path_buf(), text };
        let bytes = std::fs::read(path).map_err(failed)?;
        let value: serde_json::Value =
            serde_json::from_slice(&bytes).map_err(|e| malformed(e.to_string()))?;
        match value["format"].as_u64() {
            Some(format) if format == u64::from(FORMAT) => {}
            Some(other) => {
                return Err(malformed(format!("it has format {other}, this talweg reads format {FORMAT}")));
            }
            None => return Err(malformed("it has no `format`".into())),
        }
        serde_json::from_value(value).map_err(|e| malformed(e.to_string()))
    }

    /// Writes the lock, see [`write_whole`].
    pub fn write(&self, path: &Path) -> Result<(), LockError> {
        let failed = |source| LockError::File { what: "write", path: path.to_path_buf(), source };
        let text = serde_json::to_string_pretty(self).map_err(|e| failed(io::Error::other(e)))? + "\n";
        write_whole(path, |mut file| file.write_all(text.as_bytes())).map_err(failed)
    }

    /// What may make the bits differ from those the lock was written with.
    pub fn warnings(&self) -> Vec<String> {
        let llvm = talweg_codegen::llvm_version();
        let differs = |what: &str, then: &str, now: &str| {
            (then != now).then(|| {
                format!("the lock was written by {what}{then}, this is {now}: the bits may differ from the locked ones")
            })
        };
        [differs("", &self.tool, TOOL), differs("LLVM ", &self.llvm, &llvm)].into_iter().flatten().collect()
    }

    /// The choices and thread limits for a network's tasks, in their order, if the lock is for this network.
    pub fn choices(&self, network: &Network) -> Result<(Vec<Choice>, Vec<Option<usize>>), LockError> {
        let here = network.hash();
        if here != self.model.hash {
            let (name, wanted) = (self.model.name.clone(), self.model.hash.clone());
            return Err(LockError::OtherModel { name, wanted, here });
        }
        let mut choices = Vec::new();
        let mut limits = Vec::new();
        for (at, task) in network.program.tasks.iter().enumerate() {
            let hash = hash_of(task);
            let missing = || LockError::MissingTask { task: name_of(network, at), tool: self.tool.clone() };
            let locked = self.tasks.iter().find(|locked| locked.task == hash).ok_or_else(missing)?;
            let wrong = |text: String| LockError::Schedule { task: locked.name.clone(), text };
            let trace = Trace::parse(&locked.trace.join("\n")).map_err(|e| wrong(e.to_string()))?;
            if locked.threads == Some(0) {
                return Err(wrong("it runs on no thread".into()));
            }
            let is_default = !locked.tuned && default_trace(&task.dag, &self.target) == trace;
            choices.push(if is_default { Choice::Default } else { Choice::Tuned(trace) });
            limits.push(locked.threads);
        }
        Ok((choices, limits))
    }

    /// Checks that the lock is for a machine.
    pub fn check_target(&self, target: &Target) -> Result<(), LockError> {
        let here = target.fingerprint();
        if here == self.machine && *target == self.target {
            return Ok(());
        }
        Err(LockError::OtherTarget { wanted: self.machine.clone(), here })
    }

    /// Chooses the algorithms that the lock has tasks of.
    fn choose(&self, network: &mut Network) {
        let has = |task: &Task| {
            let hash = hash_of(task);
            self.tasks.iter().any(|locked| locked.task == hash)
        };
        network.program.choose(&|fork| fork.ways.iter().rposition(|way| has(&way.task)).unwrap_or(0));
    }

    /// Checks that no algorithm of the lock, which the network then uses, is less exact than what is accepted.
    pub fn check_error(&self, network: &mut Network, accepted: f64) -> Result<(), LockError> {
        self.choose(network);
        let program = &network.program;
        for fork in &program.forks {
            let algorithm = fork.chosen().algorithm;
            let error = algorithm.expected_error();
            if error > accepted {
                let node = program.nodes_of(fork).first().cloned().unwrap_or_default();
                return Err(LockError::Inexact { node, algorithm, error, accepted });
            }
        }
        Ok(())
    }

    /// Compiles the network that the lock is for, for the machine it is for: the same bits as before. The network then
    /// uses the algorithms of the lock.
    pub fn compile(&self, network: &mut Network, jobs: usize) -> Result<Artefact, LockedBuildError> {
        self.choose(network);
        let (choices, limits) = self.choices(network)?;
        let mut artefact = network.compile_as(&self.target, &choices, Some(&limits), jobs)?;
        artefact.manifest.model = self.model.name.clone();
        Ok(artefact)
    }
}

/// Why a locked network is not compiled.
#[derive(Debug, thiserror::Error)]
pub enum LockedBuildError {
    /// The lock does not fit.
    #[error("{0}")]
    Lock(#[from] LockError),
    /// Compiling fails.
    #[error("{0}")]
    Build(#[from] BuildError),
}

fn name_of(network: &Network, task: usize) -> String {
    format!("{}:{}", network.program.tasks[task].dag.name, network.nodes_of(task).join(" + "))
}

fn hash_of(task: &Task) -> String {
    format!("{:032x}", xxh3_128(task.text.as_bytes()))
}

impl Network {
    /// A hash of the imported graph: operators, names, types and weights, whatever file they came from.
    pub fn hash(&self) -> String {
        let graph = &self.imported;
        let mut hash = Xxh3::new();
        let mut text = |text: String| {
            hash.update(&(text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        };
        text(format!("{:?} {:?}", graph.inputs, graph.outputs));
        for node in &graph.nodes {
            text(format!("{node:?}"));
        }
        for value in &graph.values {
            text(format!("{} {}", value.name, value.ty));
        }
        for tensor in graph.values.iter().filter_map(|value| value.constant.as_ref()) {
            hash.update(tensor.bytes());
        }
        format!("{:032x}", hash.digest128())
    }
}
