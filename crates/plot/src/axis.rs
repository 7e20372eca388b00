//! Scales, their ends, ticks and labels.

/// How values become places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences are equally long.
    Linear,
    /// Equal ratios are equally long; values must be positive.
    Log,
}

/// An axis: what it shows, from where to where.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What the values are.
    pub label: String,
    /// How they are placed.
    pub scale: Scale,
    /// The smallest value.
    pub lo: f64,
    /// The largest.
    pub hi: f64,
}

impl Axis {
    /// An axis from `lo` to `hi`; ends that no axis can have are moved apart.
    pub fn new(label: impl Into<String>, scale: Scale, lo: f64, hi: f64) -> Axis {
        let least = if scale == Scale::Log { f64::MIN_POSITIVE } else { f64::MIN };
        let lo = if lo.is_finite() { lo.max(least) } else { 1.0 };
        let hi = if hi.is_finite() && hi > lo { hi } else { lo + lo.abs().max(1e-9) };
        Axis { label: label.into(), scale, lo, hi }
    }

    /// An axis around values, leaving out those that cannot be shown.
    pub fn around(label: impl Into<String>, scale: Scale, values: impl Iterator<Item = f64>) -> Axis {
        let can_show = |v: &f64| v.is_finite() && (scale == Scale::Linear || *v > 0.0);
        let (lo, hi) = values
            .filter(can_show)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), v| (lo.min(v), hi.max(v)));
        Axis::new(label, scale, lo, hi)
    }

    /// Where a value is: 0 at the smallest, 1 at the largest, values outside at the ends.
    pub fn place(&self, value: f64) -> f64 {
        let value = value.clamp(self.lo, self.hi);
        let share = match self.scale {
            Scale::Linear => (value - self.lo) / (self.hi - self.lo),
            Scale::Log => (value / self.lo).ln() / (self.hi / self.lo).ln(),
        };
        share.clamp(0.0, 1.0)
    }

    /// Round values on the axis, about `wanted` of them, in order.
    pub fn ticks(&self, wanted: usize) -> Vec<f64> {
        match self.scale {
            Scale::Linear => linear_ticks(self.lo, self.hi, wanted.max(1)),
            Scale::Log => log_ticks(self.lo, self.hi, wanted.max(2)),
        }
    }
}

fn linear_ticks(lo: f64, hi: f64, wanted: usize) -> Vec<f64> {
    let rough = (hi - lo) / wanted as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|s| *s >= rough * 0.999);
    let step = step.unwrap_or(10.0 * power);
    let first = (lo / step - 1e-9).ceil();
    (0..=2 * wanted)
        .map(|at| (first + at as f64) * step)
        .take_while(|v| *v <= hi + step * 1e-9)
        .map(|v| if v.abs() < step * 1e-9 { 0.0 } else { v })
        .collect()
}

fn log_ticks(lo: f64, hi: f64, wanted: usize) -> Vec<f64> {
    let (first, last) = (lo.log10().floor() as i32, hi.log10().ceil() as i32);
    let of = |steps: &[f64]| -> Vec<f64> {
        let all = (first..=last).flat_map(|p| steps.iter().map(move |s| s * 10f64.powi(p)));
        all.filter(|v| *v >= lo * (1.0 - 1e-9) && *v <= hi * (1.0 + 1e-9)).collect()
    };
    let finest = [1.0, 2.0, 3.0, 5.0, 7.0];
    let choices = [of(&finest), of(&[1.0, 2.0, 5.0]), of(&[1.0, 3.0]), of(&[1.0])];
    let fits = choices.iter().find(|ticks| ticks.len() <= wanted + 1);
    fits.unwrap_or(&choices[3]).clone()
}

/// A number as short as it can be read.
pub fn label(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        return "0".into();
    }
    if !(1e-3..1e5).contains(&size) {
        return format!("{value:.0e}");
    }
    let digits = (2 - size.log10().floor() as i32).clamp(0, 5) as usize;
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_shares_of_the_axis() {
        let linear = Axis::new("", Scale::Linear, 2.0, 6.0);
        assert_eq!([1.0, 2.0, 3.0, 6.0, 9.0].map(|v| linear.place(v)), [0.0, 0.0, 0.25, 1.0, 1.0]);
        let log = Axis::new("", Scale::Log, 1.0, 100.0);
        assert!((log.place(10.0) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(
            Axis::new("", Scale::Linear, 0.0, 1.0).ticks(5),
            [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]
        );
        assert_eq!(Axis::new("", Scale::Log, 0.8, 300.0).ticks(4), [1.0, 10.0, 100.0]);
        assert_eq!(Axis::new("", Scale::Log, 1.0, 10.0).ticks(4), [1.0, 2.0, 5.0, 10.0]);
        for (lo, hi) in [(-3.3, 7.9), (1e-9, 2e-9), (5.0, 5.0), (f64::NAN, f64::INFINITY)] {
            let axis = Axis::new("", Scale::Linear, lo, hi);
            let ticks = axis.ticks(5);
            assert!(ticks.len() <= 11 && ticks.iter().all(|t| *t >= axis.lo - 1e-6 && *t <= axis.hi + 1e-6));
        }
    }

    #[test]
    fn labels_are_short() {
        let labels = [0.0, 0.05, 0.30000000000000004, 1.0, 12.5, 300.0, 4096.0, 1e7].map(label);
        assert_eq!(labels, ["0", "0.05", "0.3", "1", "12.5", "300", "4096", "1e7"]);
    }
}
