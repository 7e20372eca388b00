//! Random damage to bytes, from a seed.

/// A small generator: the same seed gives the same numbers everywhere.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// One to eight changes: bits, bytes, extreme values, parts cut out, doubled or moved, text swapped for other text.
pub fn mutate(bytes: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let mut result = bytes.to_vec();
    for _ in 0..=random.below(8) {
        let at = random.below(result.len());
        let width = 1 + random.below(16).min(result.len().saturating_sub(at + 1));
        match random.below(8) {
            _ if result.is_empty() => result.push(random.next() as u8),
            0 => result[at] ^= 1 << random.below(8),
            1 => result[at] = random.next() as u8,
            2 => result[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
            3 => drop(result.drain(at..at + width)),
            4 => {
                let part = result[at..at + width].to_vec();
                let to = random.below(result.len());
                result.splice(to..to, part);
            }
            5 => result.truncate(at.max(1)),
            6 => {
                let from = random.below(other.len());
                let part = other[from..(from + width).min(other.len())].to_vec();
                result.splice(at..at, part);
            }
            _ => {
                let to = random.below(result.len());
                result.swap(at, to);
            }
        }
    }
    result
}
