//! Candidates as numbers: sketches one after the other, the values of a sketch's knobs as mixed-radix digits, the last
//! knob counting fastest. The numbers cover all combinations, also those that constraints exclude.

use crate::candidate::Candidate;
use crate::sketch::Sketch;
use crate::space::Space;

impl Sketch {
    /// Combinations of all knob values; `None` beyond 128 bits.
    pub fn combinations(&self) -> Option<u128> {
        self.knobs.iter().try_fold(1u128, |n, k| n.checked_mul(k.domain.len() as u128))
    }
}

impl Space {
    /// Combinations of all knob values of all sketches; `None` beyond 128 bits.
    pub fn combinations(&self) -> Option<u128> {
        self.sketches.iter().try_fold(0u128, |n, s| n.checked_add(s.combinations()?))
    }

    /// The number of a candidate; `None` when a value is not in its domain.
    pub fn index_of(&self, candidate: &Candidate) -> Option<u128> {
        let sketch = self.sketch(candidate).ok()?;
        let before = self.sketches[..candidate.sketch]
            .iter()
            .try_fold(0u128, |n, s| n.checked_add(s.combinations()?))?;
        let own = sketch.knobs.iter().zip(&candidate.values).try_fold(0u128, |n, (k, v)| {
            let digit = k.domain.binary_search(v).ok()? as u128;
            n.checked_mul(k.domain.len() as u128)?.checked_add(digit)
        })?;
        before.checked_add(own)
    }

    /// The candidate with a number, legal or not; `None` past the end.
    pub fn at_index(&self, index: u128) -> Option<Candidate> {
        let mut left = index;
        for (sketch, s) in self.sketches.iter().enumerate() {
            let count = s.combinations()?;
            if left >= count {
                left -= count;
                continue;
            }
            let mut values = vec![0; s.knobs.len()];
            for (value, k) in values.iter_mut().zip(&s.knobs).rev() {
                let radix = k.domain.len() as u128;
                *value = k.domain[(left % radix) as usize];
                left /= radix;
            }
            return Some(Candidate { sketch, values });
        }
        None
    }
}
