//! What a network is trained for: the speeds of a task's programs relative to one another.
//!
//! No loss changes when all scores of a group change alike: how fast a task can be at all is not asked for.

/// The slowest speed that is told apart, relative to the task's best: failures count as it.
pub const FLOOR: f32 = 1.0 / 64.0;

/// What differs between the scores of two programs of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MlpLoss {
    /// Squares: a difference of scores is the logarithm of a ratio of speeds.
    LogSpeed,
    /// Pairs: the faster one has the higher score; pairs of which one is much faster count more.
    Rank,
    /// Both, with equal weight.
    Both,
}

impl MlpLoss {
    /// The loss of a group's scores, given speeds relative to the task's best; its derivatives go to `out`.
    pub fn gradient(self, scores: &[f32], labels: &[f32], out: &mut [f32]) -> f64 {
        out.fill(0.0);
        let mut loss = 0.0;
        if self != MlpLoss::Rank {
            loss += log_speed(scores, labels, out);
        }
        if self != MlpLoss::LogSpeed {
            loss += rank(scores, labels, out);
        }
        loss
    }
}

/// How much a program counts: fast ones are what a search must tell apart.
fn weight(label: f32) -> f32 {
    0.1 + label.clamp(0.0, 1.0)
}

fn log_speed(scores: &[f32], labels: &[f32], out: &mut [f32]) -> f64 {
    let target = |label: f32| label.max(FLOOR).ln();
    let total: f32 = labels.iter().map(|l| weight(*l)).sum();
    let errors = || scores.iter().zip(labels).map(|(s, l)| (s - target(*l), weight(*l)));
    let mean: f32 = errors().map(|(e, w)| e * w).sum::<f32>() / total.max(f32::MIN_POSITIVE);
    let mut loss = 0.0;
    for ((error, weight), out) in errors().zip(out) {
        let (error, share) = (error - mean, weight / total);
        loss += f64::from(share * error * error);
        *out += 2.0 * share * error;
    }
    loss
}

fn rank(scores: &[f32], labels: &[f32], out: &mut [f32]) -> f64 {
    let (mut loss, mut total) = (0.0, 0.0f32);
    let mut derivatives = vec![0.0f32; scores.len()];
    for i in 0..scores.len() {
        for j in 0..scores.len() {
            let weight = labels[i] - labels[j];
            if weight > 0.0 {
                let wrong = scores[j] - scores[i];
                total += weight;
                loss += f64::from(weight * (wrong.max(0.0) + (-wrong.abs()).exp().ln_1p()));
                let push = weight / (1.0 + (-wrong).exp());
                derivatives[i] -= push;
                derivatives[j] += push;
            }
        }
    }
    if total > 0.0 {
        out.iter_mut().zip(derivatives).for_each(|(out, d)| *out += d / total);
        loss /= f64::from(total);
    }
    loss
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derivatives_are_finite_differences() {
        let (scores, labels) = ([0.3, -1.0, 0.1, 2.0], [1.0, 0.5, 0.0, 0.25]);
        for loss in [MlpLoss::LogSpeed, MlpLoss::Rank, MlpLoss::Both] {
            let mut gradient = [0.0; 4];
            loss.gradient(&scores, &labels, &mut gradient);
            for at in 0..4 {
                let moved = |by: f32| {
                    let mut scores = scores;
                    scores[at] += by;
                    loss.gradient(&scores, &labels, &mut [0.0; 4])
                };
                let expected = (moved(1e-2) - moved(-1e-2)) / 2e-2;
                let found = f64::from(gradient[at]);
                assert!((expected - found).abs() < 1e-3, "{loss:?} {at}: {expected} {found}");
            }
        }
    }

    #[test]
    fn a_common_shift_costs_nothing() {
        let labels = [1.0f32, 0.5, 0.25];
        let scores: Vec<f32> = labels.iter().map(|l| l.ln() + 7.0).collect();
        let mut gradient = [1.0; 3];
        assert!(MlpLoss::LogSpeed.gradient(&scores, &labels, &mut gradient) < 1e-9);
        assert!(gradient.iter().all(|g| g.abs() < 1e-5), "{gradient:?}");
        let good = MlpLoss::Rank.gradient(&scores, &labels, &mut gradient);
        let bad = MlpLoss::Rank.gradient(&[0.0, 1.0, 2.0], &labels, &mut gradient);
        assert!(good < bad, "{good} {bad}");
    }

    #[test]
    fn equal_or_single_programs_teach_nothing() {
        let mut gradient = [1.0; 2];
        assert_eq!(MlpLoss::Rank.gradient(&[1.0, 2.0], &[0.5, 0.5], &mut gradient), 0.0);
        assert_eq!(gradient, [0.0; 2]);
        let mut one = [1.0];
        assert!(MlpLoss::Both.gradient(&[3.0], &[1.0], &mut one) < 1e-9);
        assert!(one[0].abs() < 1e-6);
    }
}
