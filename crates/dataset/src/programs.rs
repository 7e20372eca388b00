//! Stored programs as a model sees them: features with their context, speeds, operators, families.

use std::collections::BTreeMap;

use talweg_cost::{Batch, CostError, Matrix, Samples};
use talweg_db::{Database, Record, TargetKey, TaskKey};
use talweg_ir::Dag;
use talweg_search::network::{NETWORK_WIDTH, context};
use talweg_search::{Features, Machine, Sample, SpaceFeatures, TrainingSet};
use talweg_space::Space;
use talweg_tuner::records::{TASK_VERSION, sample_of};

use crate::error::DatasetError;
use crate::machine::from_fingerprint;

/// An operator on a target with a number of threads: programs that can be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskInfo {
    /// The kind of operator.
    pub family: String,
    /// Names the operator wherever it runs.
    pub operator: u64,
    /// The instruction set.
    pub isa: String,
    /// Threads.
    pub threads: u32,
}

/// Programs with their features.
#[derive(Clone, Debug, Default)]
pub struct Programs {
    features: Matrix,
    offsets: Vec<usize>,
    labels: Vec<f32>,
    tasks: Vec<u32>,
    infos: Vec<TaskInfo>,
    /// Records that could not be described: of a space or a version that has changed, or of an unknown machine.
    pub skipped: usize,
}

/// FNV-1a, 64 bits.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl Programs {
    /// Reads all programs of a database.
    pub fn load(db: &Database) -> Result<Programs, DatasetError> {
        let mut programs =
            Programs { features: Matrix::with_cols(NETWORK_WIDTH), offsets: vec![0], ..Programs::default() };
        for entry in db.tasks()? {
            let records = db.records(&entry.task, &entry.target, entry.threads)?;
            let added = programs.add(&entry.task, &entry.target, entry.threads, &records)?;
            programs.skipped += records.len() - added;
        }
        match programs.is_empty() {
            true => {
                let path = db.path().display().to_string();
                Err(DatasetError::Empty { path, skipped: programs.skipped })
            }
            false => Ok(programs),
        }
    }

    /// Adds the programs of one task, and counts those that can be described.
    fn add(
        &mut self,
        task: &TaskKey,
        machine: &TargetKey,
        threads: u32,
        records: &[Record],
    ) -> Result<usize, CostError> {
        let known = (task.version == TASK_VERSION).then(|| Dag::parse(&task.text).ok()).flatten();
        let (Some(dag), Some(target)) = (known, from_fingerprint(&machine.text)) else { return Ok(0) };
        let space = Space::of(&dag, &target);
        let samples: Vec<Sample> = records.iter().filter_map(|r| sample_of(&space, r)).collect();
        let machine = Machine::new(&target, threads as usize);
        let Ok(features) = SpaceFeatures::new(&space, machine, Features::Stores) else { return Ok(0) };
        let mut set = TrainingSet::new();
        set.add(&features, 0, &samples)?;
        if !set.has_success() {
            return Ok(0);
        }
        let context = context(&target, threads as usize);
        set.with_samples(|samples| {
            let (rows, before) = (samples.programs.features, self.features.rows());
            let mut row = Vec::with_capacity(NETWORK_WIDTH);
            for at in 0..rows.rows() {
                row.clear();
                row.extend_from_slice(rows.row(at));
                row.extend_from_slice(&context);
                self.features.push_row(&row)?;
            }
            self.offsets.extend(samples.programs.offsets[1..].iter().map(|o| before + o));
            self.labels.extend_from_slice(samples.labels);
            Ok(())
        })?;
        self.tasks.extend(samples.iter().map(|_| self.infos.len() as u32));
        self.infos.push(TaskInfo {
            family: dag.name.clone(),
            operator: hash(&task.text),
            isa: target.isa.name().into(),
            threads,
        });
        Ok(samples.len())
    }

    /// Adds the programs of others as tasks of their own, even where they are known: what is there twice counts twice.
    pub fn append(&mut self, others: &Programs) -> Result<(), CostError> {
        let (rows, tasks) = (self.features.rows(), self.infos.len() as u32);
        for row in 0..others.features.rows() {
            self.features.push_row(others.features.row(row))?;
        }
        self.offsets.extend(others.offsets[1..].iter().map(|offset| rows + offset));
        self.labels.extend_from_slice(&others.labels);
        self.tasks.extend(others.tasks.iter().map(|task| tasks + task));
        self.infos.extend_from_slice(&others.infos);
        self.skipped += others.skipped;
        Ok(())
    }

    /// How many programs there are.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The tasks that programs belong to.
    pub fn infos(&self) -> &[TaskInfo] {
        &self.infos
    }

    /// The programs in the form models take.
    pub fn samples(&self) -> Samples<'_> {
        let programs = Batch { features: &self.features, offsets: &self.offsets };
        Samples { programs, labels: &self.labels, tasks: &self.tasks }
    }

    /// The programs of some tasks.
    pub fn only(&self, wanted: &dyn Fn(&TaskInfo) -> bool) -> Result<Programs, CostError> {
        self.at((0..self.len()).filter(|p| wanted(&self.infos[self.tasks[*p] as usize])))
    }

    /// The programs at some positions, all of which there must be.
    pub fn at(&self, positions: impl IntoIterator<Item = usize>) -> Result<Programs, CostError> {
        let mut out = Programs {
            features: Matrix::with_cols(self.features.cols()),
            offsets: vec![0],
            infos: self.infos.clone(),
            ..Programs::default()
        };
        for program in positions {
            for row in self.offsets[program]..self.offsets[program + 1] {
                out.features.push_row(self.features.row(row))?;
            }
            out.offsets.push(out.features.rows());
            out.labels.push(self.labels[program]);
            out.tasks.push(self.tasks[program]);
        }
        Ok(out)
    }

    /// The operators that are kept for judging: one in `each` of every family, the same whatever else is in the
    /// database; none if `each` is 0.
    pub fn held_out(&self, each: u64) -> Vec<u64> {
        let distinct: BTreeMap<u64, ()> = self.infos.iter().map(|i| (i.operator, ())).collect();
        distinct.into_keys().filter(|operator| each > 0 && (operator >> 32).is_multiple_of(each)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use talweg_ops::Spec;
    use talweg_target::{Isa, Target};
    use talweg_tuner::{Simulated, SimulatedDevice};

    use super::*;
    use crate::{CollectOptions, collect};

    #[test]
    fn what_is_appended_counts_again() {
        let target = Target::generic(Isa::Avx2);
        let options = CollectOptions {
            target: target.clone(),
            threads: 2,
            seed: 1,
            programs: 6,
            guided: false,
            sampling: Duration::from_millis(1),
            deadline: None,
            stop: Arc::default(),
            command: String::new(),
        };
        let specs = ["matmul:m=16,n=32,k=8", "softmax:rows=8,n=64"].map(|s| Spec::parse(s).unwrap());
        let mut db = Database::open_in_memory().unwrap();
        let mut runner = Simulated { device: SimulatedDevice::new(target) };
        collect(&specs, &options, &mut db, &mut runner, &mut |_, _| {}).unwrap();
        let once = Programs::load(&db).unwrap();
        let mut twice = once.clone();
        twice.append(&once).unwrap();
        assert_eq!((once.len(), twice.len(), twice.infos().len()), (12, 24, 4));
        let (one, two) = (once.samples(), twice.samples());
        assert_eq!(two.labels[12..], *one.labels);
        assert_eq!(two.tasks[12..], one.tasks.iter().map(|t| t + 2).collect::<Vec<_>>());
        let rows = one.programs.features.rows();
        assert_eq!(two.programs.features.rows(), 2 * rows);
        assert_eq!(
            two.programs.offsets[13..],
            one.programs.offsets[1..].iter().map(|o| o + rows).collect::<Vec<_>>()
        );
        assert_eq!(two.programs.features.row(rows), one.programs.features.row(0));
    }
}
