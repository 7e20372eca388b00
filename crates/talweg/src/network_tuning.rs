//! What follows the search when a network is tuned: the artefact by the winners, compared with the default in place,
//! task by task and whole; the better of the two, and its lock.

use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use talweg_artifact::{Artefact, BuildError, Choice};
use talweg_runtime::model::{Model, ModelError, RunError, Session, SessionOptions};
use talweg_schedule::Trace;
use talweg_target::Target;
use talweg_tuner::TaskReport;

use crate::in_place::{InPlace, Latency, profile, race};
use crate::lock::{Lock, Provenance};
use crate::network::{Network, random_tensor};

/// One thread is kept for a task when it is faster in place than all of them by this share.
const ONE_THREAD_WINS: f64 = 0.03;
/// Sums of task times and end-to-end times that differ by more than this share are explained.
const WORTH_EXPLAINING: f64 = 0.1;

/// Why a tuned network has no artefact.
#[derive(Debug, thiserror::Error)]
pub enum SettleError {
    /// Compiling fails.
    #[error("{0}")]
    Build(#[from] BuildError),
    /// What was compiled cannot be loaded.
    #[error("{0}")]
    Load(#[from] ModelError),
    /// What was compiled cannot be run.
    #[error("{0}")]
    Run(#[from] RunError),
    /// The artefact does not fit into memory.
    #[error("the artefact of `{model}`: {source}")]
    Memory {
        /// The model.
        model: String,
        /// What the system said.
        source: std::io::Error,
    },
}

/// A network compiled by the default schedules: what tuning is compared with, and how long compiling takes.
pub struct Baseline {
    /// The artefact, which is the result if nothing is better.
    pub artefact: Artefact,
    /// The same, loaded.
    pub model: Arc<Model>,
    /// How long compiling and loading took.
    pub seconds: f64,
}

impl Baseline {
    /// Compiles a network by the default schedules.
    pub fn build(network: &Network, target: &Target, jobs: usize) -> Result<Baseline, SettleError> {
        let begin = Instant::now();
        let artefact = network.compile_as(target, &[], None, jobs)?;
        let model = load(&artefact)?;
        Ok(Baseline { artefact, model, seconds: begin.elapsed().as_secs_f64() })
    }
}

/// Loads an artefact that is not a file yet.
pub(crate) fn load(artefact: &Artefact) -> Result<Arc<Model>, SettleError> {
    let model = artefact.manifest.model.clone();
    let bytes = artefact.to_bytes().map_err(|source| SettleError::Memory { model, source })?;
    Ok(Arc::new(Model::from_bytes(&bytes)?))
}

/// How to settle on an artefact.
#[derive(Clone, Debug)]
pub struct Settling {
    /// Who found the schedules, and for what.
    pub from: Provenance,
    /// Threads that compile.
    pub jobs: usize,
    /// Time for the comparisons in place and end to end; `None` leaves them out, because somebody waits.
    pub compare: Option<Duration>,
}

/// The comparison of two artefacts, end to end and in place.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The default artefact, end to end.
    pub default: Latency,
    /// The artefact that was settled on, in turns with it.
    pub tuned: Latency,
    /// The tasks alone, as they were measured in the search, each as often as it runs.
    pub alone: f64,
    /// The same tasks in place.
    pub in_place: InPlace,
    /// Why the sum of the tasks differs from the end-to-end time, if it does by much.
    pub explanation: Option<String>,
}

/// What was settled on.
pub struct Settled {
    /// The artefact.
    pub artefact: Artefact,
    /// Its lock.
    pub lock: Lock,
    /// Tasks whose default schedule is faster in place than what the search found.
    pub kept_default: Vec<String>,
    /// How many kernels run on one thread although there are more.
    pub on_one_thread: usize,
    /// Whether the default artefact as a whole was kept.
    pub default_won: bool,
    /// The comparison, unless it was left out.
    pub comparison: Option<Comparison>,
}

/// Compiles a network by what the search found, and proposes others: with the default wherever it is faster in place, and
/// with one thread for kernels that are faster on one. The fastest end to end is kept, the default among them.
///
/// `reports` has one entry a task of the network; those that were not reached are `None`.
pub fn settle(
    network: &Network,
    baseline: Baseline,
    reports: &[Option<&TaskReport>],
    settling: &Settling,
) -> Result<Settled, SettleError> {
    let Settling { from, jobs, compare } = settling;
    let found = |report: &Option<&TaskReport>| match report {
        Some(report) if !report.default_won => {
            Trace::parse(&report.trace).map_or(Choice::Default, Choice::Tuned)
        }
        _ => Choice::Default,
    };
    let mut found: Vec<Choice> = reports.iter().map(found).collect();
    found.resize(network.program.tasks.len(), Choice::Default);
    let tuned = network.compile_as(&from.target, &found, None, *jobs)?;
    let rule: Vec<Option<usize>> = tuned.manifest.kernels.iter().map(|k| k.threads).collect();
    let Some(budget) = *compare else {
        let lock = Lock::new(network, &found, &rule, from);
        return Ok(Settled {
            on_one_thread: count_limited(&rule, from.threads),
            artefact: tuned,
            lock,
            kept_default: Vec::new(),
            default_won: false,
            comparison: None,
        });
    };
    let mut default_session = session(&baseline.model, from.threads)?;
    let model = load(&tuned)?;
    let contest = contest(&model, &mut default_session, from.threads, budget / 2)?;
    let mut proposals = propose(&found, &rule, &contest);
    // Proposals that differ in threads only have the same artefact.
    let mut built = vec![(found.clone(), tuned, model)];
    let (mut sessions, mut artefacts) = (vec![default_session], Vec::new());
    for Proposal { choices, limits } in &proposals {
        let known = built.iter().position(|(own, ..)| own == choices);
        if known.is_none() {
            let artefact = network.compile_as(&from.target, choices, None, *jobs)?;
            let model = load(&artefact)?;
            built.push((choices.clone(), artefact, model));
        }
        artefacts.push(known.unwrap_or(built.len() - 1));
        sessions.push(limited(&built[artefacts[artefacts.len() - 1]].2, limits, from.threads)?);
    }
    let raced = race(&mut sessions.iter_mut().collect::<Vec<_>>(), budget / 2)?;
    let best =
        (1..sessions.len()).fold(0, |best, at| if raced.ahead[at] > raced.ahead[best] { at } else { best });
    let (mut artefact, Proposal { choices, limits }) = match best.checked_sub(1) {
        Some(at) => (built.swap_remove(artefacts[at]).1, proposals.swap_remove(at)),
        None => {
            let limits = baseline.artefact.manifest.kernels.iter().map(|k| k.threads).collect();
            (baseline.artefact, Proposal { choices: vec![Choice::Default; found.len()], limits })
        }
    };
    for (kernel, limit) in artefact.manifest.kernels.iter_mut().zip(&limits) {
        kernel.threads = *limit;
    }
    let (default, fastest, default_won) = (raced.latencies[0], raced.latencies[best], best == 0);
    let in_place = contest.of(&choices, &limits);
    let alone = sum_alone(network, reports, &choices);
    let explanation = explain(network, reports, &choices, &in_place, alone, fastest.quartile);
    let name = |at: usize| reports.get(at).copied().flatten().map_or(String::new(), |r| r.name.clone());
    let is_put_back = |at: &usize| !default_won && choices[*at] != found[*at];
    Ok(Settled {
        lock: Lock::new(network, &choices, &limits, from),
        artefact,
        kept_default: (0..choices.len()).filter(is_put_back).map(name).collect(),
        on_one_thread: count_limited(&limits, from.threads),
        default_won,
        comparison: Some(Comparison { default, tuned: fastest, alone, in_place, explanation }),
    })
}

/// A way to build a network: a schedule for each kernel, and how many threads it may use.
#[derive(Clone, Debug, PartialEq)]
struct Proposal {
    choices: Vec<Choice>,
    limits: Vec<Option<usize>>,
}

/// What to race beside the default: everything that was found, with the threads of the usual rule; the default put back where
/// it is faster in place; one thread as well where that is faster in place. How fast a kernel is depends on what those before
/// it leave in the caches, so what is better kernel by kernel need not be better as a whole.
fn propose(found: &[Choice], rule: &[Option<usize>], contest: &Contest) -> Vec<Proposal> {
    let (default, tuned) = (&contest.default.typical, &contest.tuned.typical);
    let is_behind = |at: usize| matches!(found[at], Choice::Tuned(_)) && default[at] < tuned[at];
    let is_serial = |at: usize| {
        let one = contest.serial.as_ref().map(|serial| serial.typical[at]);
        one.is_some_and(|one| !is_behind(at) && one < tuned[at] * (1.0 - ONE_THREAD_WINS))
    };
    let mixed = |at: usize| if is_behind(at) { Choice::Default } else { found[at].clone() };
    let mixed: Vec<Choice> = (0..found.len()).map(mixed).collect();
    let limits = (0..found.len()).map(|at| if is_serial(at) { Some(1) } else { rule[at] }).collect();
    let mut out = vec![Proposal { choices: found.to_vec(), limits: rule.to_vec() }];
    for limits in [rule.to_vec(), limits] {
        let proposal = Proposal { choices: mixed.clone(), limits };
        if !out.contains(&proposal) {
            out.push(proposal);
        }
    }
    out
}

fn count_limited(limits: &[Option<usize>], threads: usize) -> usize {
    limits.iter().filter(|limit| threads > 1 && **limit == Some(1)).count()
}

/// A session whose inputs hold small random numbers.
pub(crate) fn session(model: &Arc<Model>, threads: usize) -> Result<Session, RunError> {
    let mut session = Session::new(model.clone(), &SessionOptions { threads, pin: false })?;
    for at in 0..model.manifest().inputs.len() {
        let input = random_tensor(&model.manifest().inputs[at].operand.ty(), at as u64 + 1);
        session.input_mut(at).copy_from_slice(input.bytes());
    }
    Ok(session)
}

/// A session whose kernels use so many threads; all of them where there is no limit.
fn limited(model: &Arc<Model>, limits: &[Option<usize>], threads: usize) -> Result<Session, RunError> {
    let mut session = session(model, threads)?;
    session.limit_threads(&limits.iter().map(|limit| limit.unwrap_or(threads)).collect::<Vec<_>>());
    Ok(session)
}

/// The times of every kernel in place.
struct Contest {
    default: InPlace,
    tuned: InPlace,
    /// The tuned artefact with every kernel on one thread, where there are more.
    serial: Option<InPlace>,
}

impl Contest {
    /// The times of an artefact's kernels, as far as they do not depend on each other.
    fn of(&self, choices: &[Choice], limits: &[Option<usize>]) -> InPlace {
        let from = |at: usize| match (&choices[at], &self.serial) {
            (Choice::Default, _) => &self.default,
            (_, Some(serial)) if limits[at] == Some(1) => serial,
            _ => &self.tuned,
        };
        let all = 0..choices.len();
        InPlace {
            kernels: all.clone().map(|at| from(at).kernels[at]).collect(),
            typical: all.map(|at| from(at).typical[at]).collect(),
            plain: self.tuned.plain,
        }
    }
}

fn contest(
    model: &Arc<Model>,
    default: &mut Session,
    threads: usize,
    budget: Duration,
) -> Result<Contest, SettleError> {
    let kernels = model.manifest().kernels.len();
    let mut tuned = limited(model, &vec![None; kernels], threads)?;
    let mut serial = limited(model, &vec![Some(1); kernels], threads)?;
    let mut sessions = vec![default, &mut tuned];
    if threads > 1 {
        sessions.push(&mut serial);
    }
    let mut times = profile(&mut sessions, budget)?.into_iter();
    let (Some(default), Some(tuned_times)) = (times.next(), times.next()) else {
        unreachable!("every session has its times")
    };
    Ok(Contest { default, tuned: tuned_times, serial: times.next() })
}

/// Seconds of a task alone, by its choice.
fn alone(report: &TaskReport, choice: &Choice) -> f64 {
    if matches!(choice, Choice::Default) { report.default_seconds } else { report.best_seconds }
}

/// All tasks alone, each as often as the network uses it.
fn sum_alone(network: &Network, reports: &[Option<&TaskReport>], choices: &[Choice]) -> f64 {
    let tasks = network.program.tasks.iter().zip(reports).zip(choices);
    tasks.filter_map(|((task, report), choice)| Some(task.uses as f64 * alone((*report)?, choice))).sum()
}

/// Why a network takes another time than its tasks alone: one line, `None` when they agree. All times are those with
/// little disturbance.
fn explain(
    network: &Network,
    reports: &[Option<&TaskReport>],
    choices: &[Choice],
    in_place: &InPlace,
    sum: f64,
    end: f64,
) -> Option<String> {
    if reports.iter().any(Option::is_none) || (end - sum).abs() <= WORTH_EXPLAINING * sum {
        return None;
    }
    let mut farther: Vec<(f64, &str)> = Vec::new();
    for (at, (report, choice)) in reports.iter().zip(choices).enumerate() {
        let report = (*report)?;
        let uses = network.program.tasks[at].uses as f64;
        farther.push((in_place.kernels[at] - uses * alone(report, choice), report.name.as_str()));
    }
    farther.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()));
    let kernels: f64 = farther.iter().map(|(seconds, _)| seconds).sum();
    let ms = |seconds: f64| format!("{:+.3} ms", seconds * 1e3);
    let mut text = format!(
        "the network takes {:.3} ms, its tasks alone {:.3} ms: {} in kernels, which find weights cold and inputs in \
         another core's cache",
        end * 1e3,
        sum * 1e3,
        ms(kernels)
    );
    let most: Vec<String> =
        farther.iter().take(3).map(|(seconds, name)| format!("{name} {}", ms(*seconds))).collect();
    let _ = write!(text, " (most: {})", most.join(", "));
    if in_place.plain > 0.0 {
        let _ = write!(text, ", {} in steps without a kernel", ms(in_place.plain));
    }
    let _ = write!(text, ", {} in handing over between steps and by chance", ms(end - in_place.total()));
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_faster_in_place_is_proposed_and_nothing_twice() {
        let times = |us: [f64; 3]| InPlace { kernels: us.to_vec(), typical: us.to_vec(), plain: 0.0 };
        let contest = |serial: [f64; 3]| Contest {
            default: times([5.0, 2.0, 4.0]),
            tuned: times([4.0, 3.0, 4.0]),
            serial: Some(times(serial)),
        };
        let tuned = || Choice::Tuned(Trace::default());
        let found = [tuned(), tuned(), Choice::Default];
        let rule = [None, None, Some(1)];
        let proposals = propose(&found, &rule, &contest([3.0, 1.0, 3.9]));
        let mixed = vec![tuned(), Choice::Default, Choice::Default];
        assert_eq!(proposals.len(), 3);
        assert_eq!((&proposals[0].choices[..], &proposals[0].limits[..]), (&found[..], &rule[..]));
        assert_eq!((&proposals[1].choices, &proposals[1].limits[..]), (&mixed, &rule[..]));
        assert_eq!(
            (&proposals[2].choices, &proposals[2].limits[..]),
            (&mixed, &[Some(1), None, Some(1)][..])
        );
        assert_eq!(propose(&found, &rule, &contest([9.0; 3])).len(), 2);
        assert_eq!(propose(&found[..1], &rule[..1], &contest([9.0; 3])).len(), 1);
    }

    #[test]
    fn limits_count_only_where_there_are_threads() {
        assert_eq!(count_limited(&[Some(1), None, Some(2)], 2), 1);
        assert_eq!(count_limited(&[Some(1), None], 1), 0);
    }
}
