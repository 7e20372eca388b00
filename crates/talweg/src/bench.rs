//! Building, checking and timing one operator.

use std::time::Duration;

use serde::Serialize;
use talweg_measure::{Built, Gate, MeasureError, MeasureOptions, Measurer, Samples, Sampling, Task};
use talweg_target::{Target, measure_peak};
use talweg_tuner::reference::ReferenceError;
pub use talweg_tuner::reference::{random_inputs, reference_task};

use crate::operator::Operator;

/// The operator is compiled this often to find the time it takes.
const COMPILATIONS: usize = 5;

/// How to time an operator.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// Threads of its parallel loops.
    pub threads: usize,
    /// Empties the caches before each run.
    pub cold_caches: bool,
    /// Time for taking samples.
    pub budget: Duration,
    /// Further time to wait for moments in which nobody else uses the core; zero takes every sample as it comes.
    pub patience: Duration,
}

impl Default for BenchOptions {
    fn default() -> BenchOptions {
        let (budget, patience) = (Duration::from_millis(600), Duration::from_secs(2));
        BenchOptions { threads: 1, cold_caches: false, budget, patience }
    }
}

/// Why an operator has no report.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The reference outputs cannot be computed or do not fit into memory.
    #[error("{0}")]
    Reference(#[from] ReferenceError),
    /// Building or running failed, or the result is wrong.
    #[error("{0}")]
    Measure(#[from] MeasureError),
    /// This program cannot be started again as a worker.
    #[error("cannot find this program to start workers: {0}")]
    Program(#[from] std::io::Error),
}

/// What is known about an operator after it was built, checked and timed.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The operator.
    pub spec: String,
    /// Threads used.
    pub threads: usize,
    /// Median time of one run.
    pub median_us: f64,
    /// Fastest sample: what the kernel does when nothing disturbs it.
    pub min_us: f64,
    /// Useful operations per second at the median time, in billions.
    pub gflops: f64,
    /// Share of `peak_gflops`.
    pub peak_fraction: f64,
    /// Largest error against the reference interpreter, relative to the scale of the output.
    pub max_rel_error: f64,
    /// Time to generate the machine code: the median of several compilations after a first one.
    pub compile_ms: f64,
    /// Peak measured in the same run, by a loop of multiply-adds on as many threads.
    pub peak_gflops: f64,
    /// Bytes of inputs, constants and outputs per second, in billions.
    pub gbytes_per_second: f64,
    /// Interquartile range of the samples over their median.
    pub spread: f64,
    /// How many samples were taken.
    pub samples: usize,
    /// Whether some were taken while others used the core, because patience ended.
    pub disturbed: bool,
    /// Size of the object file.
    pub object_bytes: usize,
    /// The largest error that would have been accepted.
    pub tolerance: f64,
    /// The machine the code was built for.
    pub target: String,
}

/// An operator, built; worker processes check and time it, as often as is asked for, so that it can take turns with
/// other programs.
pub struct Bench<'a> {
    operator: &'a Operator,
    target: &'a Target,
    options: &'a BenchOptions,
    task: Task,
    measurer: Measurer,
    built: Built,
    compile_seconds: f64,
}

impl<'a> Bench<'a> {
    /// Builds the operator.
    pub fn new(
        operator: &'a Operator,
        target: &'a Target,
        options: &'a BenchOptions,
    ) -> Result<Bench<'a>, BenchError> {
        let task = reference_task(&operator.dag, operator.tolerance())?;
        let mut settings = MeasureOptions::new(target.clone())?;
        settings.threads = options.threads;
        settings.build_workers = 1;
        settings.pin = true;
        settings.run_timeout = options.budget * 4 + options.patience * 2 + Duration::from_secs(30);
        settings.sampling = Sampling {
            warm_up_seconds: 0.02,
            sample_seconds: 5e-4,
            min_samples: 30,
            max_samples: 400,
            budget_seconds: options.budget.as_secs_f64(),
            target_spread: 0.01,
            cold_caches: options.cold_caches,
            // A neighbour on the same core shows in the probe; such samples say nothing about the kernel.
            gate: (!options.patience.is_zero())
                .then(|| Gate { patience_seconds: options.patience.as_secs_f64(), ..Gate::default() }),
            slower_than: None,
            rival: None,
            hand_over: false,
            cold_constants: false,
        };
        let measurer = Measurer::new(settings)?;
        let built = measurer.build(&operator.nest)?;
        // The first build also sets LLVM up; what a tuner pays for each candidate is the time of the following ones.
        let mut compile: Vec<f64> = Vec::new();
        for _ in 0..COMPILATIONS {
            compile.push(measurer.build(&operator.nest)?.compile_seconds);
        }
        compile.sort_by(f64::total_cmp);
        let compile_seconds = compile[COMPILATIONS / 2];
        Ok(Bench { operator, target, options, task, measurer, built, compile_seconds })
    }

    /// Checks and times it, between two measurements of the machine's peak.
    pub fn report(&self) -> Result<Report, BenchError> {
        let Bench { operator, options, built, .. } = self;
        let before = measure_peak(options.threads);
        let ran = self.measurer.run(&self.task, built)?;
        let peak = before.max(measure_peak(options.threads));
        let median = Samples::median(&ran.samples);
        let gflops = operator.spec.flops() / median / 1e9;
        Ok(Report {
            spec: operator.spec.to_string(),
            threads: options.threads,
            median_us: median * 1e6,
            min_us: ran.samples.min() * 1e6,
            gflops,
            peak_fraction: gflops / peak,
            max_rel_error: ran.difference.map_or(0.0, |d| d.max_rel_error),
            compile_ms: self.compile_seconds * 1e3,
            peak_gflops: peak,
            gbytes_per_second: operator.spec.bytes() / median / 1e9,
            spread: ran.samples.spread(),
            samples: ran.samples.seconds.len(),
            disturbed: ran.samples.gate_gave_up,
            object_bytes: built.object.len(),
            tolerance: operator.tolerance(),
            target: self.target.fingerprint(),
        })
    }

    /// Takes samples for so long, as they come, and returns their median in seconds. A fifth of the time is warm-up, as in
    /// the turns of peers.
    pub fn turn(&self, length: Duration) -> Result<f64, BenchError> {
        let sampling = Sampling {
            warm_up_seconds: length.as_secs_f64() / 5.0,
            budget_seconds: length.as_secs_f64(),
            max_samples: u32::MAX,
            target_spread: 0.0,
            gate: None,
            ..self.measurer.options().sampling.clone()
        };
        Ok(self.measurer.run_with(&self.task, &self.built, &sampling)?.samples.median())
    }
}
