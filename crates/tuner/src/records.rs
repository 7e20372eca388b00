//! Candidates as database records, and back.
//!
//! The trace of a record begins with a comment that names the candidate. Resuming reads it, and trusts it only if the
//! candidate still has the steps that follow: a space that has changed since costs its records, not correctness.

use talweg_db::{Record, TaskKey};
use talweg_ir::Dag;
use talweg_search::{Candidate, Outcome, Sample};
use talweg_space::Space;

use crate::options::{Surroundings, TuneOptions};

/// The version of the canonical text of tasks.
pub const TASK_VERSION: u32 = 1;

/// What records of the default schedule give as their strategy.
pub const DEFAULT: &str = "default";

/// What the environment of a run calls the measured peak of the machine, in billions of operations a second.
pub const PEAK: &str = "peak GFLOP/s";

/// What the environment of a run calls its surroundings.
const HANDED_OVER: &str = "handed over";
const COLD_CONSTANTS: &str = "cold constants";

const MARK: &str = "# candidate ";

/// The key of a DAG.
pub fn task_key(dag: &Dag) -> TaskKey {
    TaskKey::new(dag.to_string(), TASK_VERSION)
}

/// What else may explain the results of a run, one `name: value` a line; reports read it.
pub fn environment(options: &TuneOptions, peak: Option<f64>) -> String {
    let mut out = format!("threads: {}\nbatch: {}\n", options.threads, options.batch);
    if let Some(model) = options.model {
        out += &format!("model: {}\n", model.name());
    }
    if let Some(budget) = options.budget {
        out += &format!("budget: {} s\n", budget.as_secs_f64());
    }
    if let Some(trials) = options.trials {
        out += &format!("trials: {trials}\n");
    }
    if let Some(peak) = peak {
        out += &format!("{PEAK}: {:.1}\n", peak / 1e9);
    }
    let is = |yes: bool| if yes { "yes" } else { "no" };
    out += &format!("{HANDED_OVER}: {}\n", is(options.surroundings.hand_over));
    out += &format!("{COLD_CONSTANTS}: {}\n", is(options.surroundings.cold_constants));
    out += &format!("resumes: {}\n", is(options.resume));
    out + &format!("system: {} {}\n", std::env::consts::OS, std::env::consts::ARCH)
}

/// What the candidates of a run with this environment found in the caches. Runs that do not say timed them alone.
pub fn surroundings_of(environment: &str) -> Surroundings {
    let is = |name: &str| {
        environment.lines().any(|line| line.strip_prefix(name).is_some_and(|value| value == ": yes"))
    };
    Surroundings { hand_over: is(HANDED_OVER), cold_constants: is(COLD_CONSTANTS) }
}

/// The trace text of a candidate.
pub fn trace_text(space: &Space, candidate: &Candidate) -> Result<String, talweg_space::SpaceError> {
    Ok(format!("{MARK}{candidate}\n{}", space.trace(candidate)?))
}

/// The candidate of a trace text, if it is one of this space.
pub fn candidate_of(space: &Space, text: &str) -> Option<Candidate> {
    let name = text.strip_prefix(MARK)?.lines().next()?;
    let candidate: Candidate = name.parse().ok()?;
    let same = space.satisfies(&candidate) && trace_text(space, &candidate).is_ok_and(|own| own == text);
    same.then_some(candidate)
}

/// A stored record as a sample, if it is a candidate of this space.
pub fn sample_of(space: &Space, record: &Record) -> Option<Sample> {
    let candidate = candidate_of(space, &record.trace)?;
    let outcome = record.typical_seconds().map_or(Outcome::Failed, Outcome::Seconds);
    Some(Sample::new(candidate, outcome))
}
