//! The time that cost models expect of a schedule: the shipped network, and trees that learnt from the task's other samples.
//!
//! The network says how fast programs of one task are relative to one another, not how fast the task is: a difference of
//! scores is the logarithm of a ratio of speeds. The samples of the task therefore give the scale, and without any there
//! is a score but no time. The trees are those of Ansor, and have not seen the schedule they are asked about.

use serde::Serialize;
use talweg_cost::{Batch, Loss, Matrix, Mlp, Params};
use talweg_features::{FeatureProgram, FeatureScratch, Machine};
use talweg_ir::Nest;
use talweg_search::network::shipped_network;
use talweg_search::{Features, Sample, SpaceFeatures, TrainingSet};
use talweg_space::{Candidate, Space};
use talweg_target::Target;

/// Samples below which the scale is not trusted.
const FEWEST: usize = 4;
/// Samples below which trees learn nothing.
const TO_LEARN: usize = 16;
/// The least speed, as a share of the best, that is taken for a prediction: trees extrapolate below zero.
const SLOWEST: f64 = 0.01;

/// What the network expects.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// The score; larger is faster.
    pub score: f64,
    /// Seconds, by the scale of the samples.
    pub seconds: Option<f64>,
    /// Predicted by measured time.
    pub ratio: Option<f64>,
    /// Samples of the task that the network scores higher.
    pub better: usize,
    /// Samples of the task that were scored.
    pub samples: usize,
    /// What trees expect that learnt from the other samples of the task.
    pub learned: Option<Learned>,
}

/// What trees expect that have not seen the schedule.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Learned {
    /// Seconds.
    pub seconds: f64,
    /// Predicted by measured time.
    pub ratio: Option<f64>,
    /// Samples they learnt from.
    pub samples: usize,
}

/// A schedule whose time is asked for.
pub struct Subject<'a> {
    /// Its nest, without knobs.
    pub nest: &'a Nest,
    /// Its candidate, if it is one of the space.
    pub candidate: Option<&'a Candidate>,
    /// Its measured seconds.
    pub measured: Option<f64>,
}

/// Predicts the time of a schedule; none if no network ships for the machine.
pub fn predict(
    space: &Space,
    subject: &Subject<'_>,
    target: &Target,
    threads: usize,
    samples: &[Sample],
) -> Option<Prediction> {
    let network = shipped_network(target, threads)?;
    let machine = Machine::new(target, threads);
    let features = describe(subject.nest, machine)?;
    let offsets = [0, features.rows()];
    let batch = Batch { features: &features, offsets: &offsets };
    let score = f64::from(*network.predict(&batch).ok()?.first()?);
    let measured = subject.measured;
    let scored = score_samples(&network, space, machine, samples);
    let mut offsets: Vec<f64> = scored.iter().map(|(score, seconds)| seconds.ln() + score).collect();
    offsets.sort_by(f64::total_cmp);
    let middle = (offsets.len() >= FEWEST).then(|| offsets[offsets.len() / 2]);
    let seconds = middle.map(|offset| (offset - score).exp());
    Some(Prediction {
        score,
        seconds,
        ratio: seconds.zip(measured).map(|(predicted, measured)| predicted / measured),
        better: scored.iter().filter(|(other, _)| *other > score + 1e-4).count(),
        samples: scored.len(),
        learned: learn(space, subject, machine, &batch, samples),
    })
}

/// What trees expect that learnt from all samples but those of the schedule itself.
fn learn(
    space: &Space,
    subject: &Subject<'_>,
    machine: Machine<'_>,
    batch: &Batch<'_>,
    samples: &[Sample],
) -> Option<Learned> {
    let others: Vec<Sample> =
        samples.iter().filter(|s| Some(&s.candidate) != subject.candidate).cloned().collect();
    let best = others.iter().filter_map(|s| s.outcome.seconds()).min_by(f64::total_cmp)?;
    if others.len() < TO_LEARN {
        return None;
    }
    let features = SpaceFeatures::new(space, machine, Features::Stores).ok()?;
    let mut set = TrainingSet::new();
    set.add(&features, 0, &others).ok()?;
    let params = Params { max_depth: 6, ..Params::ansor() };
    let trees = set.with_samples(|s| Loss::SummedSquares { floor: 0.0 }.fit(s, &params, None)).ok()?;
    let speed = f64::from(*trees.predict_programs(batch.features, batch.offsets, None).ok()?.first()?);
    let seconds = best / speed.max(SLOWEST);
    let ratio = subject.measured.map(|measured| seconds / measured);
    Some(Learned { seconds, ratio, samples: others.len() })
}

/// The features of a nest's stores.
fn describe(nest: &Nest, machine: Machine<'_>) -> Option<Matrix> {
    let program = FeatureProgram::new(nest, &[], machine).ok()?;
    let mut values = vec![0.0f32; program.rows() * program.width()];
    program.eval_batch(&[], 1, &mut values, &mut FeatureScratch::new());
    Matrix::new(program.rows(), program.width(), values).ok()
}

/// Scores and seconds of the samples that were measured.
fn score_samples(network: &Mlp, space: &Space, machine: Machine<'_>, samples: &[Sample]) -> Vec<(f64, f64)> {
    let good: Vec<(&Sample, f64)> =
        samples.iter().filter_map(|s| s.outcome.seconds().map(|seconds| (s, seconds))).collect();
    let candidates: Vec<Candidate> = good.iter().map(|(s, _)| s.candidate.clone()).collect();
    let scores = SpaceFeatures::new(space, machine, Features::Stores)
        .ok()
        .and_then(|features| features.score(&candidates, &|batch| network.predict(batch)).ok());
    let scores = scores.unwrap_or_default().into_iter().map(f64::from);
    scores.zip(good.iter().map(|(_, seconds)| *seconds)).filter(|(score, _)| score.is_finite()).collect()
}

#[cfg(test)]
mod tests {
    use talweg_ops::Spec;
    use talweg_schedule::{Schedule, analytic};
    use talweg_search::Outcome;
    use talweg_space::Rng;
    use talweg_target::Isa;

    use super::*;

    #[test]
    fn samples_give_the_scale() {
        let target = Target::generic(Isa::Avx512);
        let dag = Spec::parse("matmul:m=64,n=64,k=64").expect("an operator").build().expect("a program");
        let space = Space::of(&dag, &target);
        let trace = analytic::default_trace(&dag, &target);
        let nest = Schedule::replay(dag, &trace).and_then(|s| s.lower()).expect("a nest");
        let subject = Subject { nest: &nest, candidate: None, measured: Some(1e-5) };
        let alone = predict(&space, &subject, &target, 1, &[]).expect("a network ships");
        assert_eq!((alone.seconds, alone.ratio, alone.samples), (None, None, 0));
        assert_eq!(alone.learned, None);
        let with = |seconds: f64| {
            let mut rng = Rng::new(1);
            let samples: Vec<Sample> =
                (0..20).map(|_| Sample::new(space.sample(&mut rng), Outcome::Seconds(seconds))).collect();
            predict(&space, &subject, &target, 1, &samples).expect("the same")
        };
        let (fast, slow) = (with(1e-6), with(1e-3));
        let ratio = slow.seconds.expect("a time") / fast.seconds.expect("a time");
        assert!((ratio / 1e3 - 1.0).abs() < 1e-6, "{ratio}");
        // Trees that saw one time only expect it again.
        let learned = slow.learned.expect("enough samples");
        assert!((learned.seconds / 1e-3 - 1.0).abs() < 0.05, "{learned:?}");
    }
}
