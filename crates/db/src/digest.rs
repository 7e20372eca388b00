//! Content hashes that are the same on every machine and in every build.

/// A running 128-bit FNV-1a hash over fields that keep their borders.
pub(crate) struct Digest(u128);

const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

impl Digest {
    pub(crate) fn new() -> Digest {
        Digest(OFFSET)
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(PRIME);
        }
    }

    /// Adds an integer.
    pub(crate) fn int(&mut self, value: u64) {
        self.bytes(&value.to_le_bytes());
    }

    /// Adds a text with its length.
    pub(crate) fn text(&mut self, text: &str) {
        self.int(text.len() as u64);
        self.bytes(text.as_bytes());
    }

    /// Adds a number; both zeros count as one, as SQLite stores them alike.
    pub(crate) fn float(&mut self, value: f64) {
        self.int((value + 0.0).to_bits());
    }

    /// Adds a number that may be missing.
    pub(crate) fn maybe(&mut self, value: Option<f64>) {
        self.int(u64::from(value.is_some()));
        self.float(value.unwrap_or(0.0));
    }

    pub(crate) fn finish(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }
}

/// The hash that texts are found by; equal hashes are told apart by the text itself.
pub(crate) fn text_hash(text: &str) -> i64 {
    let mut digest = Digest::new();
    digest.bytes(text.as_bytes());
    (digest.0 as u64 ^ (digest.0 >> 64) as u64).cast_signed()
}

/// A digest in the form exports name it by.
pub(crate) fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_the_published_function() {
        let mut digest = Digest::new();
        digest.bytes(b"a");
        assert_eq!(hex(&digest.finish()), "d228cb696f1a8caf78912b704e4a8964");
    }

    #[test]
    fn fields_keep_their_borders() {
        let of = |texts: [&str; 2]| {
            let mut digest = Digest::new();
            texts.iter().for_each(|text| digest.text(text));
            digest.finish()
        };
        assert_ne!(of(["ab", "c"]), of(["a", "bc"]));
        assert_eq!(of(["ab", "c"]), of(["ab", "c"]));
    }

    #[test]
    fn both_zeros_are_one() {
        let of = |value: f64| {
            let mut digest = Digest::new();
            digest.float(value);
            digest.finish()
        };
        assert_eq!(of(0.0), of(-0.0));
        assert_ne!(of(0.0), of(1.0));
    }
}
