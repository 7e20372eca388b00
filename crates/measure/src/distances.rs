//! Distances between threads, told apart.

/// Distances that differ by less than this factor are one: cores that share a cache and cores that do not are farther apart
/// than that, what disturbs a probe is not.
const SAME: f64 = 1.7;

/// The distances that have been seen, each numbered by when it first was.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distances {
    seconds: Vec<f64>,
}

impl Distances {
    /// The number of a distance: that of the nearest one seen, or a new one.
    pub fn number(&mut self, seconds: f64) -> usize {
        let apart = |known: &f64| (seconds / known).ln().abs();
        let nearest = self.seconds.iter().enumerate().min_by(|a, b| apart(a.1).total_cmp(&apart(b.1)));
        match nearest.filter(|(_, known)| Distances::are_same(seconds, **known)) {
            Some((at, _)) => at,
            None => {
                self.seconds.push(seconds);
                self.seconds.len() - 1
            }
        }
    }

    /// Whether two distances are one.
    pub fn are_same(one: f64, other: f64) -> bool {
        (one / other).ln().abs() < SAME.ln()
    }

    /// The seconds of a distance when it was first seen.
    pub fn seconds(&self, number: usize) -> Option<f64> {
        self.seconds.get(number).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_values_are_one_distance() {
        let mut seen = Distances::default();
        let numbers: Vec<usize> =
            [185e-9, 24e-9, 190e-9, 30e-9, 21e-9, 272e-9, 900e-9].map(|s| seen.number(s)).to_vec();
        assert_eq!(numbers, [0, 1, 0, 1, 1, 0, 2]);
        assert_eq!((seen.seconds(1), seen.seconds(3)), (Some(24e-9), None));
    }
}
