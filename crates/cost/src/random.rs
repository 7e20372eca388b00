//! The seeded random stream of the crate (SplitMix64): the same numbers on every machine, forever.

/// A small deterministic generator.
#[derive(Debug, Clone)]
pub struct Stream {
    state: u64,
}

/// Mixes a 64-bit value so that close inputs give unrelated outputs.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Stream {
    /// The stream named by `seed` and `key`. Keying by the round makes a warm start draw what one long
    /// fit would have drawn.
    pub fn new(seed: u64, key: u64) -> Stream {
        Stream { state: mix(seed ^ 0x7a1e_6000_0000_0001).wrapping_add(mix(key.wrapping_add(0x9e37_79b9))) }
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// Uniform below `n` (0 when `n` is 0).
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next_u64()) * n as u128) >> 64) as usize
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f32 {
        (self.next_u64() >> 40) as f32 / (1u64 << 24) as f32
    }

    /// Chooses `count` of the numbers below `n`, ascending.
    pub fn choose(&mut self, n: usize, count: usize) -> Vec<u32> {
        let mut left = count.min(n);
        let mut chosen = Vec::with_capacity(left);
        for i in 0..n {
            if left > 0 && self.below(n - i) < left {
                chosen.push(i as u32);
                left -= 1;
            }
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_name_different_streams() {
        let draw = |seed, key| Stream::new(seed, key).next_u64();
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
        assert_ne!(draw(1, 2), draw(2, 1));
    }

    #[test]
    fn choices_are_distinct_and_ascending() {
        let chosen = Stream::new(3, 0).choose(100, 30);
        assert_eq!(chosen.len(), 30);
        assert!(chosen.windows(2).all(|w| w[0] < w[1]) && chosen[29] < 100);
        assert_eq!(Stream::new(3, 0).choose(4, 9), [0, 1, 2, 3]);
    }

    #[test]
    fn units_fill_the_interval() {
        let mut stream = Stream::new(9, 9);
        let draws: Vec<f32> = (0..1000).map(|_| stream.unit()).collect();
        let mean = draws.iter().sum::<f32>() / 1000.0;
        assert!(draws.iter().all(|&x| (0.0..1.0).contains(&x)));
        assert!((mean - 0.5).abs() < 0.05, "mean {mean}");
        assert_eq!(stream.below(0), 0);
    }
}
