//! The time that the shipped network expects of a schedule.
//!
//! The network says how fast programs of one task are relative to one another, not how fast the task is: a difference of
//! scores is the logarithm of a ratio of speeds. The samples of the task therefore give the scale, and without any there
//! is a score but no time.

use serde::Serialize;
use talweg_cost::{Batch, Matrix, Mlp};
use talweg_features::{FeatureProgram, FeatureScratch};
use talweg_ir::Nest;
use talweg_search::network::shipped_network;
use talweg_search::{Features, Sample, SpaceFeatures};
use talweg_space::{Candidate, Space};
use talweg_target::Target;

/// Samples below which the scale is not trusted.
const FEWEST: usize = 4;

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
}

/// Predicts the time of a nest without knobs; none if no network ships for the machine.
pub fn predict(
    space: &Space,
    nest: &Nest,
    target: &Target,
    threads: usize,
    samples: &[Sample],
    measured: Option<f64>,
) -> Option<Prediction> {
    let network = shipped_network(target, threads)?;
    let score = f64::from(score_nest(&network, nest, target)?);
    let scored = score_samples(&network, space, target, samples);
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
    })
}

fn score_nest(network: &Mlp, nest: &Nest, target: &Target) -> Option<f32> {
    let program = FeatureProgram::new(nest, &[], target).ok()?;
    let mut values = vec![0.0f32; program.rows() * program.width()];
    program.eval_batch(&[], 1, &mut values, &mut FeatureScratch::new());
    let features = Matrix::new(program.rows(), program.width(), values).ok()?;
    let offsets = [0, program.rows()];
    network.predict(&Batch { features: &features, offsets: &offsets }).ok()?.first().copied()
}

/// Scores and seconds of the samples that were measured.
fn score_samples(network: &Mlp, space: &Space, target: &Target, samples: &[Sample]) -> Vec<(f64, f64)> {
    let good: Vec<(&Sample, f64)> =
        samples.iter().filter_map(|s| s.outcome.seconds().map(|seconds| (s, seconds))).collect();
    let candidates: Vec<Candidate> = good.iter().map(|(s, _)| s.candidate.clone()).collect();
    let scores = SpaceFeatures::new(space, target, Features::Stores)
        .ok()
        .and_then(|mut features| features.score(&candidates, &|batch| network.predict(batch)).ok());
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
        let alone = predict(&space, &nest, &target, 1, &[], Some(1e-5)).expect("a network ships");
        assert_eq!((alone.seconds, alone.ratio, alone.samples), (None, None, 0));
        let mut rng = Rng::new(1);
        let samples = |seconds: f64, rng: &mut Rng| -> Vec<Sample> {
            (0..8).map(|_| Sample::new(space.sample(rng), Outcome::Seconds(seconds))).collect()
        };
        let fast =
            predict(&space, &nest, &target, 1, &samples(1e-6, &mut rng), Some(1e-5)).expect("the same");
        let mut rng = Rng::new(1);
        let slow =
            predict(&space, &nest, &target, 1, &samples(1e-3, &mut rng), Some(1e-5)).expect("the same");
        let (fast, slow) = (fast.seconds.expect("a time"), slow.seconds.expect("a time"));
        assert!((slow / fast / 1e3 - 1.0).abs() < 1e-6, "{fast} {slow}");
    }
}
