//! The steps of training: Adam, with clipped gradients and a pull towards given parameters.

/// The state of Adam for a list of parameters.
#[derive(Clone, Debug)]
pub struct Adam {
    first: Vec<f32>,
    second: Vec<f32>,
    steps: i32,
    clip: f32,
}

const BETA_1: f32 = 0.9;
const BETA_2: f32 = 0.999;
const EPSILON: f32 = 1e-8;

impl Adam {
    /// A start for so many parameters; gradients longer than `clip` are shortened to it before they count.
    pub fn new(parameters: usize, clip: f32) -> Adam {
        Adam { first: vec![0.0; parameters], second: vec![0.0; parameters], steps: 0, clip }
    }

    /// One step down the gradient. `towards`, or zero, pulls the parameters with the strength `decay`.
    pub fn step(
        &mut self,
        parameters: &mut [f32],
        gradient: &[f32],
        rate: f32,
        decay: f32,
        towards: Option<&[f32]>,
    ) {
        self.steps = self.steps.saturating_add(1);
        let length = gradient.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt() as f32;
        let scale = if length > self.clip { self.clip / length } else { 1.0 };
        let (bias_1, bias_2) = (1.0 - BETA_1.powi(self.steps), 1.0 - BETA_2.powi(self.steps));
        let moments = self.first.iter_mut().zip(&mut self.second);
        for (at, ((w, g), (first, second))) in parameters.iter_mut().zip(gradient).zip(moments).enumerate() {
            let g = g * scale;
            *first = BETA_1 * *first + (1.0 - BETA_1) * g;
            *second = BETA_2 * *second + (1.0 - BETA_2) * g * g;
            let home = towards.map_or(0.0, |towards| towards[at]);
            *w -= rate * (*first / bias_1 / ((*second / bias_2).sqrt() + EPSILON) + decay * (*w - home));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_lead_to_the_minimum() {
        let (mut w, mut adam) = ([3.0f32, -2.0], Adam::new(2, 1.0));
        for _ in 0..2000 {
            let gradient = [2.0 * (w[0] - 1.0), 8.0 * (w[1] - 0.5)];
            adam.step(&mut w, &gradient, 0.01, 0.0, None);
        }
        assert!((w[0] - 1.0).abs() < 1e-2 && (w[1] - 0.5).abs() < 1e-2, "{w:?}");
    }

    #[test]
    fn without_a_gradient_parameters_return() {
        let (mut w, mut adam) = ([3.0f32], Adam::new(1, 1.0));
        (0..1000).for_each(|_| adam.step(&mut w, &[0.0], 0.1, 0.1, Some(&[2.0])));
        assert!((w[0] - 2.0).abs() < 1e-2, "{w:?}");
    }
}
