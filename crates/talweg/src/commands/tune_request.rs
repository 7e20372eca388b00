//! What a caller asks of tuning, as options of the tuner: the same rules and the same texts for the command line and for
//! Python, each with its own spelling of the settings' names.

use std::path::PathBuf;
use std::time::Duration;

use talweg_target::{Isa, Target};
use talweg_tuner::{ModelKind, Objective, StrategyKind, TuneOptions};

use super::Failure;
use super::tune::parse_duration;

/// What is asked for, in the words of the caller.
pub struct TuneRequest<'a> {
    /// How the caller spells a setting that is called `good_enough` here.
    pub spell: fn(&str) -> String,
    /// Time to use.
    pub budget: Option<&'a str>,
    /// Candidates to measure.
    pub trials: Option<usize>,
    /// Candidates of a batch.
    pub batch: usize,
    /// Which search.
    pub strategy: &'a str,
    /// Which cost model; the strategy's own if not given.
    pub model: Option<&'a str>,
    /// What several tasks are tuned for.
    pub objective: &'a str,
    /// Microseconds of all tasks together that are good enough.
    pub good_enough: Option<f64>,
    /// The gain, in percent, below which the tuning of a network ends.
    pub least_gain: f64,
    /// Whether the tasks of a network are timed with everything in the caches where their last run left it.
    pub alone: bool,
    /// Threads of the candidates.
    pub threads: usize,
    /// Names the random streams.
    pub seed: u64,
    /// The database.
    pub db: PathBuf,
    /// Whether records of earlier runs are left aside.
    pub fresh: bool,
    /// Whether candidates run on the simulated device.
    pub simulated: bool,
    /// Whether a network is among what is tuned.
    pub has_model: bool,
}

impl TuneRequest<'_> {
    /// The options, or what is wrong with the request.
    pub fn options(&self) -> Result<TuneOptions, Failure> {
        let spell = self.spell;
        let wrong =
            |name: &str, text: &dyn std::fmt::Display| Failure::input(format!("{}: {text}", spell(name)));
        let target = if self.simulated { Target::generic(Isa::Avx512) } else { Target::host() };
        let mut options = TuneOptions::new(target);
        options.strategy = self.strategy.parse::<StrategyKind>().map_err(|e| wrong("strategy", &e))?;
        let model = self.model.map(str::parse::<ModelKind>).transpose();
        options.model = model.map_err(|e| wrong("model", &e))?;
        options.budget = match (self.budget, self.trials) {
            (Some(text), _) => Some(parse_duration(text).ok_or_else(|| {
                Failure::input(format!("{} {text}: give a time such as 90s, 5m or 1h", spell("budget")))
            })?),
            (None, Some(_)) => None,
            (None, None) => Some(Duration::from_secs(60)),
        };
        if self.trials == Some(0) || self.batch == 0 {
            return Err(Failure::input(format!(
                "{} and {} must be at least 1",
                spell("trials"),
                spell("batch")
            )));
        }
        options.objective = self.objective()?;
        if !(0.0..=100.0).contains(&self.least_gain) {
            let name = spell("least_gain");
            return Err(Failure::input(format!("{name} is a share of the time in percent; give 0 to 100")));
        }
        if self.has_model {
            options.least_gain = self.least_gain / 100.0;
            // A network has many tasks, and its kernels are compared in place as well.
            (options.finalists, options.alternations) = (4, 7);
        }
        options.surroundings.hand_over = self.has_model && !self.alone;
        options.good_enough = self.good_enough.map(|us| us * 1e-6);
        options.trials = self.trials;
        options.threads = self.threads;
        options.seed = self.seed;
        options.db = (!self.simulated).then(|| self.db.clone());
        options.resume = !self.fresh;
        options.batch = self.batch;
        Ok(options)
    }

    fn objective(&self) -> Result<Objective, Failure> {
        let spell = self.spell;
        match (self.objective, self.good_enough) {
            ("sum", None) => Ok(Objective::Sum),
            ("sum", Some(_)) => Ok(Objective::Requirement),
            ("speedup", None) => Ok(Objective::Speedup),
            ("early-stop", None) => Ok(Objective::EarlyStop { rounds: 10, gain: 0.005 }),
            ("speedup" | "early-stop", Some(_)) => Err(Failure::input(format!(
                "{} is a limit of the sum; leave {} out",
                spell("good_enough"),
                spell("objective")
            ))),
            (other, _) => Err(Failure::input(format!(
                "{} {other}: give sum, speedup or early-stop",
                spell("objective")
            ))),
        }
    }
}
