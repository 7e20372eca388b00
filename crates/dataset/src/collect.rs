//! Measuring programs of many operators, and storing them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use talweg_db::{Database, NewRecord, RunId, RunInfo, TargetKey};
use talweg_ops::Spec;
use talweg_search::felix::scorer::SharedScorer;
use talweg_search::history::History;
use talweg_search::{Candidate, Domain, Features, Machine, Outcome, Sample, SpaceDomain, SpaceFeatures};
use talweg_space::{Rng, Space};
use talweg_target::Target;
use talweg_tuner::records::{sample_of, task_key, trace_text};
use talweg_tuner::runner::{Effort, LOST};
use talweg_tuner::task::default_program;
use talweg_tuner::{Runner, TaskSpec};

use crate::error::DatasetError;

/// What records of a dataset give as their strategy.
pub const STRATEGY: &str = "dataset";
/// A program so many times slower than the best known is timed only roughly.
const SLOW: f64 = 4.0;
/// Programs that are drawn, compiled and measured together.
const ROUND: usize = 16;
/// Tries for a new neighbour of a fast program.
const TRIES: usize = 8;
/// Random programs of which the shipped network chooses one.
const DRAWS: usize = 64;

/// What to measure.
#[derive(Clone, Debug)]
pub struct CollectOptions {
    /// What programs are compiled for.
    pub target: Target,
    /// Threads of their parallel loops.
    pub threads: usize,
    /// Names the programs of every operator.
    pub seed: u64,
    /// Programs of every operator.
    pub programs: usize,
    /// Whether the shipped network chooses some of them: a network learns what it overrates when that is measured.
    pub guided: bool,
    /// Time for the samples of one program.
    pub sampling: Duration,
    /// When to stop.
    pub deadline: Option<Instant>,
    /// Stops when it is set.
    pub stop: Arc<AtomicBool>,
    /// The command line, for the database.
    pub command: String,
}

/// What became of an operator.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// Its programs have been stored before.
    Known,
    /// Programs were measured.
    Measured {
        /// Those that ran.
        good: usize,
        /// Those that did not, with the text of the first failure.
        failed: usize,
        /// The first failure.
        failure: Option<String>,
        /// The fastest.
        best_seconds: f64,
    },
    /// It cannot be measured at all.
    Skipped(String),
}

/// What was collected in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Operators that have all their programs now.
    pub operators: usize,
    /// Programs measured.
    pub good: usize,
    /// Programs that failed.
    pub failed: usize,
    /// Whether every operator has all its programs.
    pub is_complete: bool,
}

/// One operator on the way.
struct Work<'a, R: Runner> {
    options: &'a CollectOptions,
    space: Arc<Space>,
    domain: SpaceDomain,
    history: History,
    guide: Option<Guide>,
    data: R::Data,
    rng: Rng,
}

/// The shipped network, with the features it reads.
struct Guide {
    network: SharedScorer,
    features: SpaceFeatures,
}

impl Guide {
    /// None where no network is shipped for the target, or the space cannot be described.
    fn new(space: &Space, options: &CollectOptions) -> Option<Guide> {
        let network = SharedScorer::network(&options.target, options.threads, options.seed);
        let features =
            SpaceFeatures::new(space, Machine::new(&options.target, options.threads), Features::Stores)
                .ok()?;
        network.is_trained().then_some(Guide { network, features })
    }

    /// The best-scored of some programs.
    fn choose(&mut self, mut drawn: Vec<Candidate>) -> Option<Candidate> {
        let scores = self.network.score(&self.features, &drawn);
        let best = (0..drawn.len()).max_by(|a, b| scores[*a].total_cmp(&scores[*b]))?;
        Some(drawn.swap_remove(best))
    }
}

/// Measures programs of operators, one after the other. What earlier runs have stored is not measured again.
pub fn collect<R: Runner>(
    operators: &[Spec],
    options: &CollectOptions,
    db: &mut Database,
    runner: &mut R,
    progress: &mut dyn FnMut(&Spec, Progress),
) -> Result<Collected, DatasetError> {
    let run = db.begin_run(&RunInfo {
        strategy: STRATEGY.into(),
        seed: options.seed,
        command: options.command.clone(),
        tool_version: env!("CARGO_PKG_VERSION").into(),
        environment: String::new(),
    })?;
    let mut collected = Collected::default();
    for (at, spec) in operators.iter().enumerate() {
        if options.is_over() {
            return Ok(collected);
        }
        let news = operator(at, spec, options, db, runner, run)?;
        if let Progress::Measured { good, failed, .. } = &news {
            collected.good += good;
            collected.failed += failed;
        }
        collected.operators += 1;
        progress(spec, news);
    }
    collected.is_complete = !options.is_over();
    Ok(collected)
}

impl CollectOptions {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.deadline.is_some_and(|end| Instant::now() >= end)
    }
}

/// Measures the programs of one operator that are still missing.
fn operator<R: Runner>(
    at: usize,
    spec: &Spec,
    options: &CollectOptions,
    db: &mut Database,
    runner: &mut R,
    run: RunId,
) -> Result<Progress, DatasetError> {
    let dag = match spec.build() {
        Ok(dag) => dag,
        Err(error) => return Ok(Progress::Skipped(error.to_string())),
    };
    let key = task_key(&dag);
    let target = TargetKey::new(options.target.fingerprint());
    let threads = options.threads as u32;
    let known = db.records(&key, &target, threads)?;
    if known.len() >= options.programs {
        return Ok(Progress::Known);
    }
    let space = Arc::new(Space::of(&dag, &options.target));
    let domain = SpaceDomain::new(space.clone());
    if domain.size() <= known.len() as f64 {
        return Ok(Progress::Known);
    }
    let task = TaskSpec { name: spec.to_string(), dag: dag.clone(), weight: 1.0, flops: spec.flops() };
    let default = match default_program(&task, &options.target) {
        Ok((_, nest)) => nest,
        Err(error) => return Ok(Progress::Skipped(error.to_string())),
    };
    let data = match runner.data_by(&dag, &default) {
        Ok(data) => data,
        Err(error) => return Ok(Progress::Skipped(error.to_string())),
    };
    let mut history = History::default();
    history.tell(&known.iter().filter_map(|r| sample_of(&space, r)).collect::<Vec<_>>());
    let stream = options.seed ^ ((at as u64) << 24) ^ (known.len() as u64);
    let guide = options.guided.then(|| Guide::new(&space, options)).flatten();
    let mut work = Work::<R> { options, space, domain, history, guide, data, rng: Rng::new(stream) };
    let (mut left, mut good, mut failed, mut failure) = (options.programs - known.len(), 0, 0, None);
    while left > 0 && !options.is_over() {
        let asked = work.ask(left.min(ROUND));
        if asked.is_empty() {
            break;
        }
        left -= asked.len().min(left);
        let (records, samples) = work.measure(runner, &asked, |trace, outcome| {
            let mut record = NewRecord::new(run, &key, &target, threads, trace, outcome);
            record.strategy = STRATEGY.into();
            record.seed = options.seed;
            record
        });
        for record in &records {
            match &record.outcome {
                Ok(_) => good += 1,
                Err(e) => {
                    failed += 1;
                    failure.get_or_insert_with(|| format!("{}: {}", e.cause, e.text));
                }
            }
        }
        db.insert_batch(&records)?;
        work.history.tell(&samples);
    }
    let best_seconds = work.best_seconds().unwrap_or(f64::NAN);
    Ok(Progress::Measured { good, failed, failure, best_seconds })
}

impl<R: Runner> Work<'_, R> {
    fn best_seconds(&self) -> Option<f64> {
        self.history.best(1).first().and_then(|s| s.outcome.seconds())
    }

    /// The first half of an operator's programs is random; of the others most are neighbours of the fastest, so that a
    /// model learns to tell good programs apart, too. With a guide every other neighbour makes room for its choice.
    fn ask(&mut self, count: usize) -> Vec<Candidate> {
        let measured = self.history.samples().len();
        let mut asked = Vec::new();
        if measured * 2 >= self.options.programs {
            let best: Vec<Candidate> =
                self.history.best(measured / 4).iter().map(|s| s.candidate.clone()).collect();
            for at in 0..count - count / 4 {
                let found = if at % 2 == 0 { self.guided() } else { None };
                let found = found.or_else(|| self.neighbour(&best));
                asked.extend(found.filter(|c| self.history.propose(c)));
            }
        }
        let random = self.history.draw(&self.domain, count - asked.len(), &mut self.rng);
        asked.extend(random);
        asked
    }

    /// A new program that the guide takes for fast.
    fn guided(&mut self) -> Option<Candidate> {
        let guide = self.guide.as_mut()?;
        let mut drawn: Vec<Candidate> = (0..DRAWS).map(|_| self.space.sample(&mut self.rng)).collect();
        drawn.retain(|c| !self.history.knows(c));
        guide.choose(drawn)
    }

    /// A new program a few changes away from one of these.
    fn neighbour(&mut self, best: &[Candidate]) -> Option<Candidate> {
        for _ in 0..TRIES {
            let mut child = self.rng.pick(best)?.clone();
            for _ in 0..1 + self.rng.below(3) {
                child = self.domain.mutate(&child, &mut self.rng).unwrap_or(child);
            }
            if !self.history.knows(&child) {
                return Some(child);
            }
        }
        None
    }

    /// Builds and measures programs. Those lost to somebody else's kill, or not reached in time, are left out.
    fn measure(
        &mut self,
        runner: &mut R,
        asked: &[Candidate],
        record: impl Fn(String, Result<talweg_db::Samples, talweg_db::Failure>) -> NewRecord,
    ) -> (Vec<NewRecord>, Vec<Sample>) {
        let (mut records, mut samples) = (Vec::new(), Vec::new());
        let nests: Vec<_> = asked.iter().map(|c| self.space.instantiate(c)).collect();
        let good: Vec<_> = nests.iter().filter_map(|n| n.as_ref().ok().cloned()).collect();
        let mut kernels = runner.build(&good).into_iter();
        let mut best = self.best_seconds();
        for (candidate, nest) in asked.iter().zip(nests) {
            let lost = |text: String| talweg_db::Failure { cause: "instantiate".into(), text };
            let kernel = match nest {
                Err(error) => Err(lost(format!("candidate {candidate}: {error}"))),
                Ok(_) => kernels.next().unwrap_or_else(|| Err(lost("the builder lost it".into()))),
            };
            if self.options.is_over() {
                break;
            }
            let compile_seconds = kernel.as_ref().map_or(0.0, |(_, seconds)| *seconds);
            let effort =
                Effort { slower_than: best.map(|b| b * SLOW), ..Effort::full(self.options.sampling) };
            let result = kernel.and_then(|(kernel, _)| runner.run(&self.data, &kernel, &effort));
            if result.as_ref().is_err_and(|f| f.cause == LOST) {
                continue;
            }
            let seconds = result.as_ref().ok().map(|t| t.seconds);
            best = seconds.into_iter().chain(best).reduce(f64::min);
            let outcome = seconds.map_or(Outcome::Failed, Outcome::Seconds);
            let error = result.as_ref().ok().and_then(|t| t.error);
            let trace = trace_text(&self.space, candidate).unwrap_or_else(|_| candidate.to_string());
            let mut record = record(trace, result.map(|t| t.samples));
            record.verification = error;
            record.compile_seconds = compile_seconds;
            records.push(record);
            samples.push(Sample::new(candidate.clone(), outcome));
        }
        (records, samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use talweg_search::SimulatedDevice;
    use talweg_tuner::Simulated;

    fn options(target: &Target) -> CollectOptions {
        CollectOptions {
            target: target.clone(),
            threads: 1,
            seed: 1,
            programs: 12,
            guided: false,
            sampling: Duration::from_millis(1),
            deadline: None,
            stop: Arc::default(),
            command: String::new(),
        }
    }

    #[test]
    fn a_second_run_measures_what_is_missing() {
        let target = Target::generic(talweg_target::Isa::Avx2);
        let specs: Vec<Spec> =
            ["matmul:m=16,n=32,k=8", "softmax:rows=8,n=64"].iter().map(|s| Spec::parse(s).unwrap()).collect();
        let mut db = Database::open_in_memory().unwrap();
        let mut runner = Simulated { device: SimulatedDevice::new(target.clone()) };
        let mut options = options(&target);
        let mut news = Vec::new();
        let mut go = |options: &CollectOptions, db: &mut Database| {
            news.clear();
            let done = collect(&specs, options, db, &mut runner, &mut |_, p| news.push(p)).unwrap();
            (done, news.clone())
        };
        let (done, _) = go(&options, &mut db);
        assert_eq!((done.operators, done.good, done.failed, done.is_complete), (2, 24, 0, true));
        let (again, news) = go(&options, &mut db);
        assert_eq!((again.good, news), (0, vec![Progress::Known, Progress::Known]));
        options.programs = 20;
        assert_eq!(go(&options, &mut db).0.good, 16);
        let key = task_key(&specs[0].build().unwrap());
        let records = db.records(&key, &TargetKey::new(target.fingerprint()), 1).unwrap();
        let traces: std::collections::BTreeSet<_> = records.iter().map(|r| r.trace.clone()).collect();
        assert_eq!(traces.len(), 20);
        options.deadline = Some(Instant::now());
        options.programs = 40;
        assert_eq!(go(&options, &mut db).0, Collected::default());
    }

    #[test]
    fn what_the_network_chooses_is_measured_too() {
        let target = Target::generic(talweg_target::Isa::Avx512);
        let specs = [Spec::parse("matmul:m=128,n=128,k=128").unwrap()];
        let mut runner = Simulated { device: SimulatedDevice::new(target.clone()) };
        let mut traces = |guided| {
            let mut db = Database::open_in_memory().unwrap();
            let options = CollectOptions { guided, programs: 32, ..options(&target) };
            collect(&specs, &options, &mut db, &mut runner, &mut |_, _| {}).unwrap();
            let key = task_key(&specs[0].build().unwrap());
            let records = db.records(&key, &TargetKey::new(target.fingerprint()), 1).unwrap();
            records.into_iter().map(|r| r.trace).collect::<Vec<_>>()
        };
        let (plain, guided) = (traces(false), traces(true));
        assert_eq!((plain.len(), guided.len()), (32, 32));
        assert_eq!(plain[..16], guided[..16]);
        assert_ne!(plain[16..], guided[16..]);
    }
}
