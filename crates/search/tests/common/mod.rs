//! Running strategies on the simulated device.

use talweg_search::{Candidate, Sample, SimulatedDevice, Strategy};
use talweg_space::Space;

/// Asks and tells until so many candidates are measured, or none are left.
pub fn run(
    strategy: &mut dyn Strategy,
    device: &SimulatedDevice,
    space: &Space,
    trials: usize,
    batch: usize,
) -> Vec<Sample> {
    let mut samples = Vec::new();
    while samples.len() < trials {
        let asked = strategy.ask((trials - samples.len()).min(batch));
        if asked.is_empty() {
            break;
        }
        let measure = |c: Candidate| Sample { outcome: device.measure(space, &c), candidate: c };
        let told: Vec<Sample> = asked.into_iter().map(measure).collect();
        strategy.tell(&told);
        samples.extend(told);
    }
    samples
}

/// The speed of the fastest.
pub fn speed(samples: &[Sample]) -> f64 {
    samples.iter().map(|s| s.outcome.speed()).fold(0.0, f64::max)
}
