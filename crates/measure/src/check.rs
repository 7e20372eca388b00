//! Comparing outputs with their references: a fast pass over floats that are right, and the exact one for all else.

use talweg_ir::{Array, DType, compare};

use crate::wire::Difference;

/// Elements of which the fast pass keeps one maximum.
const BLOCK: usize = 4096;

/// What an output must be.
pub(crate) struct Reference {
    name: String,
    expected: Array,
    tolerance: f64,
    /// Below this magnitude an element's error is relative to the root mean square of all.
    scale: f64,
}

/// The verdict on one output.
pub(crate) enum Verdict {
    /// Right; the largest difference.
    Right(Difference),
    /// Wrong; the largest difference.
    Wrong(Difference),
}

impl Reference {
    pub fn new(name: String, expected: Array, tolerance: f64) -> Reference {
        let scale = scale(&expected);
        Reference { name, expected, tolerance, scale }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn dtype(&self) -> DType {
        self.expected.dtype()
    }

    pub fn shape(&self) -> &[usize] {
        self.expected.shape()
    }

    pub fn tolerance(&self) -> f64 {
        self.tolerance
    }

    /// Compares what a kernel wrote, in memory of the same type and shape; `None` when there is no memory to do so.
    pub fn check(&self, got: &[u8]) -> Option<Verdict> {
        if let Some(expected) = self.expected.as_f32()
            && let Some((max_rel_error, at)) = largest_error(expected, got, self.scale)
            && max_rel_error <= self.tolerance
        {
            let [e, g] = [f64::from(expected[at]), f64::from(element(got, at))];
            return Some(Verdict::Right(self.difference(max_rel_error, self.expected.indices(at), e, g)));
        }
        if self.expected.bytes() == got && !self.dtype().is_float() {
            return Some(Verdict::Right(self.difference(0.0, Vec::new(), 0.0, 0.0)));
        }
        let mut array = Array::try_zeros(self.dtype(), self.shape()).ok()?;
        if array.bytes().len() != got.len() {
            return None;
        }
        array.bytes_mut().copy_from_slice(got);
        let found = compare(&self.expected, &array);
        let at = found.at.clone().unwrap_or_default();
        let difference = self.difference(found.max_rel, at, found.expected, found.got);
        let is_right = found.within(self.tolerance);
        Some(if is_right { Verdict::Right(difference) } else { Verdict::Wrong(difference) })
    }

    fn difference(&self, max_rel_error: f64, at: Vec<usize>, expected: f64, got: f64) -> Difference {
        Difference { output: self.name.clone(), max_rel_error, at, expected, got }
    }
}

fn element(bytes: &[u8], at: usize) -> f32 {
    bytes.as_chunks::<4>().0.get(at).map_or(f32::NAN, |b| f32::from_ne_bytes(*b))
}

/// The largest relative error and where it is; `None` when an element is not finite, or the sizes differ.
fn largest_error(expected: &[f32], got: &[u8], scale: f64) -> Option<(f64, usize)> {
    let (got, rest) = got.as_chunks::<4>();
    if got.len() != expected.len() || !rest.is_empty() || expected.is_empty() {
        return None;
    }
    let floor = scale as f32;
    let (mut worst, mut block) = (-1.0f32, 0);
    for (number, (e, g)) in expected.chunks(BLOCK).zip(got.chunks(BLOCK)).enumerate() {
        // Eight maxima at a time, so that the loop is vectorised; NaN is never larger, so it is added up besides.
        let mut largest = [0.0f32; 8];
        let mut poison = [0.0f32; 8];
        let mut lane = |at: usize, e: f32, g: &[u8; 4]| {
            let error = (e - f32::from_ne_bytes(*g)).abs() / e.abs().max(floor);
            largest[at] = if error > largest[at] { error } else { largest[at] };
            poison[at] += error * 0.0;
        };
        let (e_full, e_rest) = e.as_chunks::<8>();
        let (g_full, g_rest) = g.as_chunks::<8>();
        for (e, g) in e_full.iter().zip(g_full) {
            (0..8).for_each(|at| lane(at, e[at], &g[at]));
        }
        e_rest.iter().zip(g_rest).enumerate().for_each(|(at, (e, g))| lane(at, *e, g));
        if poison.iter().any(|p| *p != 0.0) {
            return None;
        }
        let here = largest.iter().copied().fold(0.0, f32::max);
        if here > worst {
            (worst, block) = (here, number);
        }
    }
    // Exactly, in the block that holds it.
    let begin = block * BLOCK;
    let end = expected.len().min(begin + BLOCK);
    let error = |at: usize| {
        let [e, g] = [f64::from(expected[at]), f64::from(f32::from_ne_bytes(got[at]))];
        (e - g).abs() / e.abs().max(scale)
    };
    let exact = (begin..end).map(|at| (error(at), at));
    exact.reduce(|best, one| if one.0 > best.0 { one } else { best })
}

/// The root mean square of the finite elements of a float array, as [`compare`] takes it.
fn scale(array: &Array) -> f64 {
    if !array.dtype().is_float() {
        return 1.0;
    }
    let (mut sum, mut count) = (0.0, 0usize);
    for value in (0..array.len()).map(|at| array.get_f64(at)).filter(|v| v.is_finite()) {
        sum += value * value;
        count += 1;
    }
    let root = if count == 0 { 0.0 } else { (sum / count as f64).sqrt() };
    root.max(f64::from(f32::MIN_POSITIVE))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: [usize; 2] = [101, 97];

    fn reference() -> Reference {
        Reference::new("C".into(), Array::random(DType::F32, &SHAPE, 3), 1e-5)
    }

    fn changed(change: impl Fn(&mut [f32])) -> (Verdict, talweg_ir::Difference) {
        let reference = reference();
        let mut got = reference.expected.clone();
        change(got.as_f32_mut().expect("floats"));
        let exact = compare(&reference.expected, &got);
        (reference.check(got.bytes()).expect("there is memory"), exact)
    }

    #[test]
    fn the_fast_pass_finds_what_the_exact_one_does() {
        let (verdict, exact) = changed(|got| {
            got.iter_mut().enumerate().for_each(|(at, g)| *g *= 1.0 + (at % 7) as f32 * 1e-7);
            got[5000] += 3e-6;
        });
        let Verdict::Right(found) = verdict else { panic!("it is right") };
        assert_eq!((found.max_rel_error, Some(found.at)), (exact.max_rel, exact.at.clone()));
        assert_eq!((found.expected, found.got), (exact.expected, exact.got));
        assert!(exact.max_rel > 1e-6 && exact.within(1e-5));
    }

    #[test]
    fn wrong_elements_are_found_wherever_they_are() {
        for at in [0, 7, 4095, 4096, 101 * 97 - 1] {
            for bad in [f32::NAN, f32::INFINITY, 7.5] {
                let (verdict, exact) = changed(|got| got[at] = bad);
                let Verdict::Wrong(found) = verdict else { panic!("{bad} at {at} passes") };
                assert_eq!(found.at, [at / 97, at % 97]);
                assert_eq!(Some(found.at), exact.at);
            }
        }
    }

    #[test]
    fn infinities_may_agree_and_integers_must() {
        let mut expected = Array::random(DType::F32, &[9], 1);
        expected.as_f32_mut().expect("floats")[4] = f32::INFINITY;
        let bytes = expected.bytes().to_vec();
        let reference = Reference::new("C".into(), expected, 1e-5);
        assert!(matches!(reference.check(&bytes), Some(Verdict::Right(_))));
        let integers = Array::random(DType::I32, &[9], 1);
        let mut bytes = integers.bytes().to_vec();
        let reference = Reference::new("C".into(), integers, 0.0);
        assert!(matches!(reference.check(&bytes), Some(Verdict::Right(_))));
        bytes[8] ^= 1;
        assert!(matches!(reference.check(&bytes), Some(Verdict::Wrong(_))));
        assert!(reference.check(&bytes[1..]).is_none());
    }
}
