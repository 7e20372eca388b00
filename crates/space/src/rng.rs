//! The one random stream of spaces and strategies: seeded, portable, cheap to clone.

/// A splitmix64 generator. The same seed gives the same numbers on every machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng(u64);

impl Rng {
    /// A stream of its own for each seed.
    pub fn new(seed: u64) -> Rng {
        Rng(seed ^ 0x6a09_e667_f3bc_c909)
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 when `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        // The high half of a 128-bit product is uniform enough for every n that occurs.
        ((u128::from(self.next_u64()) * n as u128) >> 64) as usize
    }

    /// A real number from 0 (included) to 1 (excluded).
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with the given probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// One of the items, `None` when there are none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len()))
    }

    /// A position, drawn in proportion to the weights; weights that are not positive are never drawn while others are.
    pub fn weighted(&mut self, weights: &[f64]) -> usize {
        let total: f64 = weights.iter().filter(|w| **w > 0.0).sum();
        let mut left = self.unit() * total;
        let mut last = 0;
        for (at, w) in weights.iter().enumerate().filter(|(_, w)| **w > 0.0) {
            last = at;
            left -= w;
            if left < 0.0 {
                break;
            }
        }
        last
    }

    /// Puts the items in random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }

    /// A stream that does not depend on how much of this one is used afterwards.
    pub fn fork(&mut self) -> Rng {
        Rng::new(self.next_u64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_reproducible_and_differ_by_seed() {
        let draw = |seed| (0..8).map(|_| Rng::new(seed).next_u64()).collect::<Vec<_>>();
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
    }

    #[test]
    fn weights_are_respected() {
        let mut rng = Rng::new(1);
        let mut seen = [0; 3];
        (0..4000).for_each(|_| seen[rng.weighted(&[1.0, 0.0, 3.0])] += 1);
        assert_eq!(seen[1], 0);
        assert!(seen[2] > 2 * seen[0] && seen[0] > 500, "{seen:?}");
        assert_eq!(rng.below(0), 0);
    }
}
