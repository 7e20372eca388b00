//! Records of the same task near the explained schedule: near in time, or near in knobs.

use std::collections::BTreeMap;

use serde::Serialize;
use talweg_db::Record;
use talweg_schedule::Trace;
use talweg_search::Sample;
use talweg_space::{Candidate, KnobRole, Space};
use talweg_tuner::records::{candidate_of, sample_of};

/// The nearest records.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Losers {
    /// Distinct schedules of the task that were measured, the explained one aside.
    pub measured: usize,
    /// Records that failed.
    pub failed: usize,
    /// Those that take about as long, fastest first.
    pub by_time: Vec<Loser>,
    /// Those of the same sketch whose knobs differ least, nearest first.
    pub by_knobs: Vec<Loser>,
}

/// A measured schedule that is not the explained one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Loser {
    /// Its record.
    pub record: i64,
    /// Who proposed it.
    pub strategy: String,
    /// Its seconds.
    pub seconds: f64,
    /// Its seconds by those of the explained schedule, if that was measured.
    pub ratio: Option<f64>,
    /// How far its knobs are from the explained ones: the sum of the logarithms of their ratios, base 2.
    pub distance: Option<f64>,
    /// What it does differently.
    pub differs: Vec<Difference>,
}

/// One thing that two schedules do differently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Difference {
    /// A knob has another value.
    Knob {
        /// The knob.
        knob: String,
        /// The value of the explained schedule.
        winner: i64,
        /// The value of this one.
        loser: i64,
    },
    /// The structure is another one.
    Sketch {
        /// The sketch of the explained schedule; none if it is of no sketch, as the default.
        winner: Option<String>,
        /// The sketch of this one.
        loser: Option<String>,
    },
    /// A step that only one of the two has, for schedules that are not of one sketch.
    Step {
        /// The step.
        step: String,
        /// Whether this one has it, and not the explained one.
        added: bool,
    },
}

/// Good records that are candidates of the space.
pub fn samples(space: &Space, records: &[Record]) -> Vec<Sample> {
    records.iter().filter_map(|r| sample_of(space, r)).collect()
}

/// The records nearest to a schedule given by its trace text and its time.
pub fn nearest(space: &Space, trace: &str, seconds: Option<f64>, records: &[Record], count: usize) -> Losers {
    let winner = candidate_of(space, trace);
    let mut fastest: BTreeMap<&str, (f64, &Record)> = BTreeMap::new();
    for record in records.iter().filter(|r| r.trace != trace) {
        let Some(time) = record.typical_seconds() else { continue };
        let entry = fastest.entry(record.trace.as_str()).or_insert((time, record));
        if time < entry.0 {
            *entry = (time, record);
        }
    }
    let loser = |(time, record): &(f64, &Record)| {
        let own = candidate_of(space, &record.trace);
        Loser {
            record: record.id.get(),
            strategy: record.strategy.clone(),
            seconds: *time,
            ratio: seconds.map(|s| time / s),
            distance: winner.as_ref().zip(own.as_ref()).and_then(|(w, l)| distance(space, w, l)),
            differs: differences(space, (winner.as_ref(), trace), (own.as_ref(), &record.trace)),
        }
    };
    let all: Vec<Loser> = fastest.values().map(loser).collect();
    let nearest_by = |key: &dyn Fn(&Loser) -> Option<f64>| {
        let mut keyed: Vec<(f64, &Loser)> = all.iter().filter_map(|l| Some((key(l)?, l))).collect();
        keyed.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.record.cmp(&b.1.record)));
        keyed.into_iter().take(count).map(|(_, l)| l.clone()).collect::<Vec<_>>()
    };
    Losers {
        measured: all.len(),
        failed: records.iter().filter(|r| r.outcome.is_err()).count(),
        by_time: nearest_by(&|l| Some(l.seconds)),
        by_knobs: nearest_by(&|l| l.distance),
    }
}

/// How far two candidates of one sketch are apart; none for different sketches.
fn distance(space: &Space, a: &Candidate, b: &Candidate) -> Option<f64> {
    let sketch = space.sketches.get(a.sketch).filter(|_| a.sketch == b.sketch)?;
    let values = a.values.iter().zip(&b.values);
    let apart = sketch.knobs.iter().zip(values).map(|(knob, (a, b))| match knob.role {
        KnobRole::Choice { .. } => f64::from(u8::from(a != b)),
        _ => ((*a as f64).max(0.5) / (*b as f64).max(0.5)).log2().abs(),
    });
    Some(apart.sum())
}

/// What the second schedule does differently from the first.
fn differences(
    space: &Space,
    (winner, winner_trace): (Option<&Candidate>, &str),
    (loser, loser_trace): (Option<&Candidate>, &str),
) -> Vec<Difference> {
    if let (Some(a), Some(b)) = (winner, loser)
        && a.sketch == b.sketch
        && let Some(sketch) = space.sketches.get(a.sketch)
    {
        let values = sketch.knobs.iter().zip(a.values.iter().zip(&b.values));
        let differ = values.filter(|(_, (a, b))| a != b);
        let knob = |(knob, (a, b)): (&talweg_space::Knob, (&i64, &i64))| Difference::Knob {
            knob: knob.symbol.to_string(),
            winner: *a,
            loser: *b,
        };
        return differ.map(knob).collect();
    }
    let name = |c: Option<&Candidate>| Some(space.sketches.get(c?.sketch)?.name.clone());
    let mut out = vec![Difference::Sketch { winner: name(winner), loser: name(loser) }];
    out.extend(step_differences(winner_trace, loser_trace));
    out
}

/// Steps that only one of two traces has.
fn step_differences(winner: &str, loser: &str) -> Vec<Difference> {
    let steps = |text: &str| -> Vec<String> {
        let trace = Trace::parse(text).unwrap_or_default();
        trace.steps.iter().map(ToString::to_string).collect()
    };
    let (ours, theirs) = (steps(winner), steps(loser));
    let missing = ours.iter().filter(|s| !theirs.contains(s)).map(|s| (s, false));
    let added = theirs.iter().filter(|s| !ours.contains(s)).map(|s| (s, true));
    missing.chain(added).map(|(step, added)| Difference::Step { step: step.clone(), added }).collect()
}

#[cfg(test)]
mod tests {
    use talweg_db::{Database, NewRecord, RunInfo, Samples, TargetKey};
    use talweg_ops::Spec;
    use talweg_space::Rng;
    use talweg_target::{Isa, Target};
    use talweg_tuner::records::{task_key, trace_text};

    use super::*;

    #[test]
    fn neighbours_are_told_by_their_knobs() {
        let target = Target::generic(Isa::Avx512);
        let dag = Spec::parse("matmul:m=64,n=64,k=64").expect("an operator").build().expect("a program");
        let space = Space::of(&dag, &target);
        let mut rng = Rng::new(3);
        let winner = space.sample(&mut rng);
        let sketch = &space.sketches[winner.sketch];
        // One knob one value further, the first for which that is legal.
        let neighbour = (0..sketch.knobs.len()).find_map(|at| {
            let mut values = winner.values.clone();
            values[at] = *sketch.knobs[at].domain.iter().find(|v| **v != values[at])?;
            let candidate = Candidate { sketch: winner.sketch, values };
            space.satisfies(&candidate).then_some((at, candidate))
        });
        let (at, neighbour) = neighbour.expect("a legal neighbour");
        let mut db = Database::open_in_memory().expect("a database");
        let run = db.begin_run(&RunInfo::default()).expect("a run");
        let (task, machine) = (task_key(&dag), TargetKey::new(target.fingerprint()));
        let record = |candidate: &Candidate, seconds: f64| {
            let trace = trace_text(&space, candidate).expect("a trace");
            let samples = Samples { seconds: vec![seconds; 3], ..Samples::default() };
            NewRecord::new(run, &task, &machine, 1, trace, Ok(samples))
        };
        let mut batch = vec![record(&winner, 1e-3), record(&neighbour, 1.5e-3)];
        batch.extend((0..6).map(|_| record(&space.sample(&mut rng), 1.2e-3)));
        db.insert_batch(&batch).expect("stored");
        let records = db.records(&task, &machine, 1).expect("records");
        let text = trace_text(&space, &winner).expect("a trace");
        let losers = nearest(&space, &text, Some(1e-3), &records, 3);
        assert_eq!(losers.by_time.len(), 3);
        assert!(losers.by_time.windows(2).all(|w| w[0].seconds <= w[1].seconds));
        let nearest = losers.by_knobs.first().expect("the neighbour is of the same sketch");
        let knob = Difference::Knob {
            knob: sketch.knobs[at].symbol.to_string(),
            winner: winner.values[at],
            loser: neighbour.values[at],
        };
        assert_eq!(nearest.differs, [knob]);
        assert!(nearest.ratio.is_some_and(|r| (r - 1.5).abs() < 1e-9), "{:?}", nearest.ratio);
    }

    #[test]
    fn schedules_of_no_sketch_differ_in_steps() {
        let found = step_differences("split C i [8]\nvectorize C j", "split C i [4]\nvectorize C j");
        let step = |step: &str, added| Difference::Step { step: step.into(), added };
        assert_eq!(found, [step("split C i [8]", false), step("split C i [4]", true)]);
    }
}
