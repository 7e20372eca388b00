//! Where candidates run: worker processes that measure, or a simulated device that tests can rely on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use talweg_db::{Failure, Samples};
use talweg_ir::{Dag, Nest};
use talweg_measure::{
    Built, Finished, Gate, MeasureError, MeasureOptions, Measurer, Phases, Ran, SENSITIVITY, Sampling, Sink,
    Task,
};
use talweg_search::SimulatedDevice;

use crate::error::TuneError;
use crate::options::{Surroundings, TuneOptions};
use crate::reference::{
    EXPENSIVE, ReferenceError, checked_by_parts, named_task, random_inputs, reference_task, tolerance,
};

/// How much time a run may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    /// Time for the samples.
    pub budget: Duration,
    /// Further time to wait for moments in which nobody else uses the cores.
    pub patience: Duration,
    /// A slower kernel is not sampled further.
    pub slower_than: Option<f64>,
    /// The kernel to beat: one that stays behind it is sampled the less the farther it is behind.
    pub rival: Option<f64>,
}

impl Effort {
    /// So much time, whatever the kernel, and as much again for waiting.
    pub fn full(budget: Duration) -> Effort {
        Effort { budget, patience: budget, slower_than: None, rival: None }
    }
}

/// A checked and timed kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// What records are ranked by: the time at full speed, as far as a probe of the cores tells.
    pub seconds: f64,
    /// The time as it was measured.
    pub measured: f64,
    /// The samples.
    pub samples: Samples,
    /// The largest relative error against the reference.
    pub error: Option<f64>,
    /// Seconds that a cache line took from thread to thread meanwhile.
    pub distance: Option<f64>,
}

/// A program, or why there is none.
pub type Made = Result<Nest, String>;

/// Who wants a batch of candidates measured.
pub trait Observer<K> {
    /// How to time the next candidate; `None` ends the batch.
    fn effort(&mut self) -> Option<Effort>;

    /// A candidate, by its position, was built in so many seconds, checked and timed, or has failed.
    fn finished(&mut self, at: usize, compile_seconds: f64, outcome: Result<(K, Timing), Failure>);
}

/// A candidate that was compiled and the seconds it took, or why it was not.
pub type Attempt<K> = Result<(K, f64), Failure>;

/// Builds and runs candidates.
pub trait Runner: Send {
    /// A compiled candidate.
    type Kernel: Clone + Send;
    /// Inputs and reference outputs of a task.
    type Data: Send;

    /// Prepares what the candidates of a task run on.
    fn data(&mut self, dag: &Dag) -> Result<Self::Data, ReferenceError>;

    /// The same, where the program of the default schedule may help.
    fn data_by(&mut self, dag: &Dag, default: &Nest) -> Result<Self::Data, ReferenceError> {
        let _ = default;
        self.data(dag)
    }

    /// Compiles candidates, with the seconds each took.
    fn build(&mut self, nests: &[Nest]) -> Vec<Attempt<Self::Kernel>>;

    /// Checks and times a candidate.
    fn run(&mut self, data: &Self::Data, kernel: &Self::Kernel, effort: &Effort) -> Result<Timing, Failure>;

    /// Makes, builds and times a batch of candidates. Runners that can do some of it at the same time have their own;
    /// this one does one after the other.
    fn measure(
        &mut self,
        data: &Self::Data,
        count: usize,
        make: &(dyn Fn(usize) -> Made + Sync),
        observer: &mut dyn Observer<Self::Kernel>,
    ) -> Phases {
        let mut phases = Phases::default();
        for at in 0..count {
            let Some(effort) = observer.effort() else { break };
            let begin = Instant::now();
            let lost = || Failure { cause: "build".into(), text: "nothing was built".into() };
            let built = match make(at) {
                Ok(nest) => self.build(std::slice::from_ref(&nest)).pop().unwrap_or_else(|| Err(lost())),
                Err(text) => Err(failure(&MeasureError::Unmade { text })),
            };
            let ready = Instant::now();
            phases.building += (ready - begin).as_secs_f64();
            let seconds = built.as_ref().map_or(0.0, |(_, seconds)| *seconds);
            let outcome = built.and_then(|(kernel, _)| {
                let timing = self.run(data, &kernel, &effort)?;
                Ok((kernel, timing))
            });
            phases.timing += ready.elapsed().as_secs_f64();
            observer.finished(at, seconds, outcome);
        }
        phases
    }

    /// Operations per second no candidate can exceed, where that is known.
    fn peak(&mut self) -> Option<f64> {
        None
    }
}

/// The cause of candidates that somebody else's kill ended: they are to be measured again, not stored.
pub const LOST: &str = "worker-lost";

/// Worker processes on this machine.
pub struct Workers {
    measurer: Arc<Measurer>,
    surroundings: Surroundings,
}

impl Workers {
    /// The workers for these options; they start in the background.
    pub fn new(options: &TuneOptions) -> Result<Workers, TuneError> {
        let mut settings = MeasureOptions::new(options.target.clone())?;
        settings.threads = options.threads;
        settings.pin = true;
        let measurer = Arc::new(Measurer::new(settings)?);
        let starting = measurer.clone();
        // A worker that does not start is started again, and its error reported, when it is first needed.
        std::thread::spawn(move || starting.start().is_ok());
        Ok(Workers { measurer, surroundings: options.surroundings })
    }
}

fn failure(error: &MeasureError) -> Failure {
    Failure { cause: error.cause().into_owned(), text: error.to_string() }
}

impl Workers {
    /// What the default schedule computes, as the reference of a DAG that takes the interpreter long: checked by parts.
    /// `None` if any of that fails.
    fn by_default(&self, dag: &Dag, default: &Nest) -> Option<Task> {
        let (inputs, tolerance) = (random_inputs(dag), tolerance(dag));
        let given = named_task(dag, &inputs, &[], tolerance).ok()?;
        let built = self.measurer.build(default).ok()?;
        let outputs = self.measurer.evaluate(&given, &built).ok()?;
        let outputs: Option<Vec<_>> =
            outputs.into_iter().map(|(name, array)| Some((dag.find(&name)?, array))).collect();
        let outputs = outputs.filter(|o| o.len() == dag.tensors.iter().filter(|t| t.output).count())?;
        let is_right = checked_by_parts(dag, &inputs, &outputs, tolerance)?;
        is_right.then(|| named_task(dag, &inputs, &outputs, tolerance).ok())?
    }
}

impl Runner for Workers {
    type Kernel = Built;
    type Data = Task;

    fn data(&mut self, dag: &Dag) -> Result<Task, ReferenceError> {
        reference_task(dag, tolerance(dag))
    }

    fn data_by(&mut self, dag: &Dag, default: &Nest) -> Result<Task, ReferenceError> {
        let is_expensive = dag.arithmetic() > EXPENSIVE;
        match is_expensive.then(|| self.by_default(dag, default)).flatten() {
            Some(task) => Ok(task),
            None => self.data(dag),
        }
    }

    fn build(&mut self, nests: &[Nest]) -> Vec<Attempt<Built>> {
        let built = self.measurer.build_batch(nests);
        let timed = |built: Built| {
            let seconds = built.compile_seconds;
            (built, seconds)
        };
        built.into_iter().map(|result| result.map(timed).map_err(|e| failure(&e))).collect()
    }

    fn run(&mut self, data: &Task, kernel: &Built, effort: &Effort) -> Result<Timing, Failure> {
        let ran = self
            .measurer
            .run_with(data, kernel, &sampling(effort, self.surroundings))
            .map_err(|e| failure(&e))?;
        Ok(timing(ran))
    }

    fn measure(
        &mut self,
        data: &Task,
        count: usize,
        make: &(dyn Fn(usize) -> Made + Sync),
        observer: &mut dyn Observer<Built>,
    ) -> Phases {
        let mut adapter = Adapter { observer, surroundings: self.surroundings };
        self.measurer.stream(data, count, make, &mut adapter)
    }

    fn peak(&mut self) -> Option<f64> {
        Some(talweg_target::measure_peak(self.measurer.options().threads) * 1e9)
    }
}

/// An observer as the stream wants it.
struct Adapter<'a> {
    observer: &'a mut dyn Observer<Built>,
    surroundings: Surroundings,
}

impl Sink for Adapter<'_> {
    fn sampling(&mut self) -> Option<Sampling> {
        self.observer.effort().map(|effort| sampling(&effort, self.surroundings))
    }

    fn finished(&mut self, finished: Finished) {
        let outcome = finished.outcome.map(|(built, ran)| (built, timing(ran)));
        self.observer.finished(finished.at, finished.compile_seconds, outcome.map_err(|e| failure(&e)));
    }
}

fn sampling(effort: &Effort, surroundings: Surroundings) -> Sampling {
    Sampling {
        budget_seconds: effort.budget.as_secs_f64(),
        gate: Some(Gate {
            patience_seconds: effort.patience.as_secs_f64(),
            sensitivity: SENSITIVITY,
            ..Gate::default()
        }),
        slower_than: effort.slower_than,
        rival: effort.rival,
        hand_over: surroundings.hand_over,
        cold_constants: surroundings.cold_constants,
        ..Sampling::default()
    }
}

fn timing(ran: Ran) -> Timing {
    let measured = ran.samples.low_quantile();
    let samples = Samples {
        inner: ran.samples.inner,
        rejected: ran.samples.rejected,
        disturbed: ran.samples.gate_gave_up,
        stop: format!("{:?}", ran.samples.stop).to_lowercase(),
        seconds: ran.samples.best_guess().to_vec(),
    };
    let seconds = samples.typical().unwrap_or(f64::NAN);
    let error = ran.difference.map(|d| d.max_rel_error);
    Timing { seconds, measured, samples, error, distance: ran.samples.distance }
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

    fn build(&mut self, nests: &[Nest]) -> Vec<Attempt<Nest>> {
        nests.iter().map(|nest| Ok((nest.clone(), 0.0))).collect()
    }

    fn run(&mut self, _: &(), kernel: &Nest, _: &Effort) -> Result<Timing, Failure> {
        let seconds = self.device.seconds(kernel, &[]).ok_or_else(|| Failure {
            cause: "simulation".into(),
            text: "the program has open knobs, which the simulated device cannot run".into(),
        })?;
        let samples = Samples { seconds: vec![seconds], stop: "count".into(), ..Samples::default() };
        Ok(Timing { seconds, measured: seconds, samples, error: Some(0.0), distance: None })
    }
}
