//! Samples as a cost model learns from them: feature rows, labels relative to the task's best, task numbers.

use talweg_cost::{Batch, CostError, Loss, Matrix, Params, Samples, Trees};

use crate::{Outcome, Sample, featurize::SpaceFeatures};

/// History below which a global model is not worth fitting.
pub use talweg_cost::transfer::MIN_HISTORY;

/// Measured candidates of any number of tasks. Failures are kept: they train as speed 0.
#[derive(Clone, Debug, Default)]
pub struct TrainingSet {
    width: usize,
    data: Vec<f32>,
    offsets: Vec<usize>,
    tasks: Vec<u32>,
    outcomes: Vec<Outcome>,
}

impl TrainingSet {
    /// An empty set.
    pub fn new() -> TrainingSet {
        TrainingSet { offsets: vec![0], ..TrainingSet::default() }
    }

    /// Adds samples of a task, described by the features of its space.
    pub fn add(&mut self, features: &SpaceFeatures, task: u32, samples: &[Sample]) -> Result<(), CostError> {
        let candidates: Vec<_> = samples.iter().map(|s| s.candidate.clone()).collect();
        let (rows, offsets) = features.rows(&candidates)?;
        let outcomes: Vec<Outcome> = samples.iter().map(|s| s.outcome).collect();
        self.add_rows(&rows, &offsets, task, &outcomes)
    }

    /// Adds programs given by their rows.
    pub fn add_rows(
        &mut self,
        rows: &Matrix,
        offsets: &[usize],
        task: u32,
        outcomes: &[Outcome],
    ) -> Result<(), CostError> {
        let programs = talweg_cost::count_programs(offsets, rows.rows())?;
        if programs != outcomes.len() {
            return Err(CostError::Shape { what: "outcomes", expected: programs, found: outcomes.len() });
        }
        if self.width != rows.cols() && !self.data.is_empty() {
            return Err(CostError::Columns { model: self.width, data: rows.cols() });
        }
        self.width = rows.cols();
        let before = self.offsets.last().copied().unwrap_or(0);
        self.data.extend_from_slice(rows.data());
        self.offsets.extend(offsets[1..].iter().map(|o| before + o));
        self.tasks.extend(outcomes.iter().map(|_| task));
        self.outcomes.extend_from_slice(outcomes);
        Ok(())
    }

    /// Programs in the set.
    pub fn len(&self) -> usize {
        self.outcomes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.outcomes.is_empty()
    }

    /// Whether anything succeeded.
    pub fn has_success(&self) -> bool {
        self.outcomes.iter().any(|o| o.seconds().is_some())
    }

    /// For each program, its speed over the best speed of its task; 0 for failures.
    pub fn labels(&self) -> Vec<f32> {
        let tasks = self.tasks.iter().max().map_or(0, |t| *t as usize + 1);
        let mut best = vec![0.0f64; tasks];
        for (task, outcome) in self.tasks.iter().zip(&self.outcomes) {
            let best = &mut best[*task as usize];
            *best = best.max(outcome.speed());
        }
        let label = |(task, outcome): (&u32, &Outcome)| match best[*task as usize] {
            best if best > 0.0 => (outcome.speed() / best) as f32,
            _ => 0.0,
        };
        self.tasks.iter().zip(&self.outcomes).map(label).collect()
    }

    /// Hands the set to a function in the form cost models take.
    pub fn with_samples<T>(
        &self,
        use_samples: impl FnOnce(&Samples<'_>) -> Result<T, CostError>,
    ) -> Result<T, CostError> {
        let rows = self.offsets.last().copied().unwrap_or(0);
        let features = Matrix::new(rows, self.width, self.data.clone())?;
        let programs = Batch { features: &features, offsets: &self.offsets };
        use_samples(&Samples { programs, labels: &self.labels(), tasks: &self.tasks })
    }

    /// Fits a model on the whole set, to be the global model of a search on another task; `None` when there are fewer
    /// than [`MIN_HISTORY`] samples.
    pub fn fit_global(&self, loss: Loss, params: &Params) -> Result<Option<Trees>, CostError> {
        if self.len() < MIN_HISTORY || !self.has_success() {
            return Ok(None);
        }
        self.with_samples(|samples| loss.fit(samples, params, None)).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set() -> TrainingSet {
        let mut set = TrainingSet::new();
        let rows = Matrix::new(3, 1, vec![1.0, 2.0, 3.0]).expect("three numbers");
        let two = [Outcome::Seconds(2.0), Outcome::Seconds(1.0)];
        set.add_rows(&rows, &[0, 1, 3], 1, &two).expect("two programs");
        set.add_rows(&rows, &[0, 2, 3], 0, &[Outcome::Failed, Outcome::Seconds(9.0)]).expect("two programs");
        set
    }

    #[test]
    fn labels_are_relative_to_the_task_and_failures_are_zero() {
        assert_eq!(set().labels(), [0.5, 1.0, 0.0, 1.0]);
        let check = |samples: &Samples<'_>| {
            assert_eq!(samples.programs.offsets, [0, 1, 3, 5, 6]);
            assert_eq!(samples.tasks, [1, 1, 0, 0]);
            Ok(samples.programs.features.data().to_vec())
        };
        assert_eq!(set().with_samples(check), Ok(vec![1.0, 2.0, 3.0, 1.0, 2.0, 3.0]));
    }

    #[test]
    fn rows_that_do_not_fit_are_refused() {
        let mut set = set();
        let wide = Matrix::new(1, 2, vec![0.0; 2]).expect("two numbers");
        assert!(matches!(
            set.add_rows(&wide, &[0, 1], 0, &[Outcome::Failed]),
            Err(CostError::Columns { .. })
        ));
        let one = Matrix::new(1, 1, vec![0.0]).expect("one number");
        assert!(matches!(set.add_rows(&one, &[0, 1], 0, &[]), Err(CostError::Shape { .. })));
        assert_eq!(set.len(), 4);
    }

    #[test]
    fn little_history_makes_no_global_model() {
        assert_eq!(set().fit_global(Loss::Squares, &Params::autotvm()), Ok(None));
    }
}
