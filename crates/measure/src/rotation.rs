//! Copies of a kernel's constants that take turns, so that no run finds them where the last one left them.
//!
//! In a network the weights of a layer were last read a whole network ago; measured alone in a loop they lie in the
//! nearest cache. With copies that together exceed that cache every run reads them from farther away, while inputs and
//! outputs stay near, as they do in the network.

use crate::region::Region;
use crate::resident::{Outcome, no_memory, refuse};

/// More copies than this are never made: tiny constants do not matter.
const MAX_COPIES: usize = 256;

/// One constant: the position of its argument, where it lies, and its size.
pub(crate) struct Constant {
    pub argument: usize,
    pub start: *const u8,
    pub bytes: usize,
}

/// Argument pointers that take turns, and the memory they point to.
pub(crate) struct Rotation {
    /// At least one set of pointers.
    pub sets: Vec<Vec<*mut u8>>,
    _memory: Option<Region>,
}

/// As many copies as are needed to fill `wanted` bytes; one if the constants are that large themselves.
pub(crate) fn copies(wanted: usize, bytes: usize) -> usize {
    if bytes == 0 { 1 } else { wanted.div_ceil(bytes).clamp(1, MAX_COPIES) }
}

impl Rotation {
    /// Copies of the constants behind `pointers` that fill so many bytes together; the originals are the first.
    pub fn new(pointers: Vec<*mut u8>, constants: &[Constant], wanted: usize) -> Outcome<Rotation> {
        let size = |c: &Constant| c.bytes.next_multiple_of(64);
        let each: usize = constants.iter().map(size).sum();
        let count = copies(wanted, each);
        if count < 2 {
            return Ok(Rotation { sets: vec![pointers], _memory: None });
        }
        let memory = Region::new(each * (count - 1)).map_err(|e| no_memory("copies of the constants", e))?;
        let mut sets = vec![pointers];
        let mut at = 0;
        for _ in 1..count {
            let mut set = sets[0].clone();
            for constant in constants {
                let to = memory.as_ptr().wrapping_add(at);
                // SAFETY: the constant is live memory of that size, the region has room for all copies, and the two
                // are different mappings.
                unsafe { std::ptr::copy_nonoverlapping(constant.start, to, constant.bytes) };
                set[constant.argument] = to;
                at += size(constant);
            }
            sets.push(set);
        }
        memory.protect().map_err(|e| refuse(format!("cannot protect copies of the constants: {e}")))?;
        Ok(Rotation { sets, _memory: Some(memory) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_fill_the_wanted_bytes_and_hold_the_same() {
        assert_eq!([copies(0, 64), copies(100, 0), copies(100, 100)], [1, 1, 1]);
        assert_eq!([copies(1000, 300), copies(1 << 30, 64)], [4, MAX_COPIES]);
        let (mut input, constant) = ([0u8; 4], [7u8; 100]);
        let pointers = vec![input.as_mut_ptr(), constant.as_ptr().cast_mut()];
        let constants = [Constant { argument: 1, start: constant.as_ptr(), bytes: 100 }];
        let Ok(rotation) = Rotation::new(pointers.clone(), &constants, 500) else { panic!("no memory") };
        assert_eq!(rotation.sets.len(), 4);
        assert_eq!(rotation.sets[0], pointers);
        for set in &rotation.sets[1..] {
            assert_eq!(set[0], pointers[0]);
            assert_ne!(set[1], pointers[1]);
            // SAFETY: every set points to a copy of a hundred bytes that the rotation keeps alive.
            assert_eq!(unsafe { std::slice::from_raw_parts(set[1], 100) }, constant);
        }
    }
}
