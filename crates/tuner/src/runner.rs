//! Where candidates run: worker processes that measure, or a simulated device that tests can rely on.

use std::time::Duration;

use talweg_db::{Failure, Samples};
use talweg_ir::{Dag, Nest};
use talweg_measure::{Built, MeasureError, MeasureOptions, Measurer, Sampling, Task};
use talweg_search::SimulatedDevice;

use crate::error::TuneError;
use crate::options::TuneOptions;
use crate::reference::{ReferenceError, reference_task, tolerance};

/// How much time a run may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    /// Time for the samples.
    pub budget: Duration,
    /// A slower kernel is not sampled further.
    pub slower_than: Option<f64>,
}

/// A checked and timed kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// What records are ranked by.
    pub seconds: f64,
    /// The samples.
    pub samples: Samples,
    /// The largest relative error against the reference.
    pub error: Option<f64>,
}

/// Builds and runs candidates.
pub trait Runner {
    /// A compiled candidate.
    type Kernel;
    /// Inputs and reference outputs of a task.
    type Data;

    /// Prepares what the candidates of a task run on.
    fn data(&mut self, dag: &Dag) -> Result<Self::Data, ReferenceError>;

    /// Compiles candidates, with the seconds each took.
    fn build(&mut self, nests: &[Nest]) -> Vec<Result<(Self::Kernel, f64), Failure>>;

    /// Checks and times a candidate.
    fn run(&mut self, data: &Self::Data, kernel: &Self::Kernel, effort: &Effort) -> Result<Timing, Failure>;
}

/// The cause of candidates that somebody else's kill ended: they are to be measured again, not stored.
pub const LOST: &str = "worker-lost";

/// Worker processes on this machine.
pub struct Workers {
    measurer: Measurer,
}

impl Workers {
    /// The workers for these options; they start in the background.
    pub fn new(options: &TuneOptions) -> Result<Workers, TuneError> {
        let mut settings = MeasureOptions::new(options.target.clone())?;
        settings.threads = options.threads;
        settings.pin = true;
        Ok(Workers { measurer: Measurer::new(settings)? })
    }
}

fn failure(error: &MeasureError) -> Failure {
    Failure { cause: error.cause().into_owned(), text: error.to_string() }
}

impl Runner for Workers {
    type Kernel = Built;
    type Data = Task;

    fn data(&mut self, dag: &Dag) -> Result<Task, ReferenceError> {
        reference_task(dag, tolerance(dag))
    }

    fn build(&mut self, nests: &[Nest]) -> Vec<Result<(Built, f64), Failure>> {
        let built = self.measurer.build_batch(nests);
        let timed = |built: Built| {
            let seconds = built.compile_seconds;
            (built, seconds)
        };
        built.into_iter().map(|result| result.map(timed).map_err(|e| failure(&e))).collect()
    }

    fn run(&mut self, data: &Task, kernel: &Built, effort: &Effort) -> Result<Timing, Failure> {
        let sampling = Sampling {
            budget_seconds: effort.budget.as_secs_f64(),
            slower_than: effort.slower_than,
            ..Sampling::default()
        };
        let ran = self.measurer.run_with(data, kernel, &sampling).map_err(|e| failure(&e))?;
        let samples = Samples {
            inner: ran.samples.inner,
            rejected: ran.samples.rejected,
            disturbed: ran.samples.gate_gave_up,
            stop: format!("{:?}", ran.samples.stop).to_lowercase(),
            seconds: ran.samples.seconds,
        };
        let seconds = samples.typical().unwrap_or(f64::NAN);
        Ok(Timing { seconds, samples, error: ran.difference.map(|d| d.max_rel_error) })
    }
}

/// A simulated device: exact, and the same every time.
pub struct Simulated {
    /// The device.
    pub device: SimulatedDevice,
}

impl Runner for Simulated {
    type Kernel = Nest;
    type Data = ();

    fn data(&mut self, _: &Dag) -> Result<(), ReferenceError> {
        Ok(())
    }

    fn build(&mut self, nests: &[Nest]) -> Vec<Result<(Nest, f64), Failure>> {
        nests.iter().map(|nest| Ok((nest.clone(), 0.0))).collect()
    }

    fn run(&mut self, _: &(), kernel: &Nest, _: &Effort) -> Result<Timing, Failure> {
        let seconds = self.device.seconds(kernel, &[]).ok_or_else(|| Failure {
            cause: "simulation".into(),
            text: "the program has open knobs, which the simulated device cannot run".into(),
        })?;
        let samples = Samples { seconds: vec![seconds], stop: "count".into(), ..Samples::default() };
        Ok(Timing { seconds, samples, error: Some(0.0) })
    }
}
