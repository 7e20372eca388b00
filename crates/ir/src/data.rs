//! Arrays of elements: what interpreters and compiled kernels read and write, and how two of them differ.

use half::{bf16, f16};

use crate::dtype::DType;

/// Storage unit: keeps every array aligned to a cache line, as compiled kernels expect.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line([u8; Array::ALIGN]);

/// A row-major array with owned storage aligned to 64 bytes.
#[derive(Clone)]
pub struct Array {
    dtype: DType,
    shape: Vec<usize>,
    /// Number of elements, the product of the extents.
    len: usize,
    lines: Vec<Line>,
}

/// An array that cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DataError {
    /// The number of values does not fit the shape.
    #[error("{values} values do not fill an array of shape {shape:?}; pass one value for each element")]
    Length {
        /// The shape asked for.
        shape: Vec<usize>,
        /// How many values there were.
        values: usize,
    },
    /// The memory cannot be had.
    #[error("an array {dtype}{shape:?} does not fit in memory; use smaller extents")]
    TooLarge {
        /// The element type asked for.
        dtype: DType,
        /// The shape asked for.
        shape: Vec<usize>,
    },
}

mod sealed {
    pub trait Sealed {}
}

/// Rust types that are the memory form of element types.
pub trait Element: Copy + sealed::Sealed {
    /// Whether arrays of this element type hold this Rust type.
    fn stores(dtype: DType) -> bool;
}

macro_rules! element {
    ($($rust:ty => $($dtype:ident)|+;)*) => {$(
        impl sealed::Sealed for $rust {}
        impl Element for $rust {
            fn stores(dtype: DType) -> bool {
                matches!(dtype, $(DType::$dtype)|+)
            }
        }
    )*};
}

element! {
    f32 => F32;
    f16 => F16;
    bf16 => BF16;
    i8 => I8;
    u8 => U8 | Bool;
    i32 => I32;
    i64 => I64;
}

impl Array {
    /// Alignment of the storage in bytes.
    pub const ALIGN: usize = 64;

    /// An array of zeros, or an error when the memory cannot be had.
    pub fn try_zeros(dtype: DType, shape: &[usize]) -> Result<Array, DataError> {
        let too_large = || DataError::TooLarge { dtype, shape: shape.to_vec() };
        let bytes = shape
            .iter()
            .try_fold(dtype.bytes(), |n, e| n.checked_mul(*e))
            .filter(|n| *n <= isize::MAX as usize - Array::ALIGN)
            .ok_or_else(too_large)?;
        let count = bytes.div_ceil(Array::ALIGN);
        let mut lines = Vec::new();
        lines.try_reserve_exact(count).map_err(|_| too_large())?;
        lines.resize(count, Line([0; Array::ALIGN]));
        Ok(Array { dtype, shape: shape.to_vec(), len: bytes / dtype.bytes(), lines })
    }

    /// An array of zeros.
    ///
    /// # Panics
    /// When the memory cannot be had; see [`Array::try_zeros`].
    pub fn zeros(dtype: DType, shape: &[usize]) -> Array {
        match Array::try_zeros(dtype, shape) {
            Ok(array) => array,
            Err(e) => panic!("{e}"),
        }
    }

    /// An array of any element type from f32 values, each converted like a cast.
    pub fn from_f32(dtype: DType, shape: &[usize], values: &[f32]) -> Result<Array, DataError> {
        let mut out = Array::filled_by(dtype, shape, values.len())?;
        for (at, v) in values.iter().enumerate() {
            out.set_f64(at, f64::from(*v));
        }
        Ok(out)
    }

    /// An array of any element type from integers, each converted like a cast.
    pub fn from_i64(dtype: DType, shape: &[usize], values: &[i64]) -> Result<Array, DataError> {
        let mut out = Array::filled_by(dtype, shape, values.len())?;
        for (at, v) in values.iter().enumerate() {
            out.set_i64(at, *v);
        }
        Ok(out)
    }

    fn filled_by(dtype: DType, shape: &[usize], values: usize) -> Result<Array, DataError> {
        let out = Array::try_zeros(dtype, shape)?;
        if out.len() == values { Ok(out) } else { Err(DataError::Length { shape: shape.to_vec(), values }) }
    }

    /// Random values that depend on the seed alone: floats in [-1, 1], signed integers in -8..=8, u8 in 0..=15,
    /// truth values.
    pub fn random(dtype: DType, shape: &[usize], seed: u64) -> Array {
        let mut out = Array::zeros(dtype, shape);
        let mut state = seed;
        for at in 0..out.len() {
            let bits = next_random(&mut state);
            match dtype {
                DType::F32 | DType::F16 | DType::BF16 => {
                    // 53 random bits make a number in [0, 1).
                    let unit = (bits >> 11) as f64 / (1u64 << 53) as f64;
                    out.set_f64(at, 2.0 * unit - 1.0);
                }
                DType::U8 => out.set_i64(at, (bits >> 60) as i64),
                DType::Bool => out.set_i64(at, (bits >> 63) as i64),
                DType::I8 | DType::I32 | DType::I64 => out.set_i64(at, ((bits >> 32) % 17) as i64 - 8),
            }
        }
        out
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Extents.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when some extent is zero.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The storage.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the lines hold at least `len * bytes` initialised bytes, and `u8` has no alignment.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.len() * self.dtype.bytes()) }
    }

    /// The storage, for writing. Bytes of `Bool` elements must stay 0 or 1.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let len = self.len() * self.dtype.bytes();
        // SAFETY: the lines hold at least `len` initialised bytes, borrowed exclusively here.
        unsafe { std::slice::from_raw_parts_mut(self.as_mut_ptr(), len) }
    }

    /// Pointer to the first element, aligned to 64 bytes.
    pub fn as_ptr(&self) -> *const u8 {
        self.lines.as_ptr().cast()
    }

    /// Pointer to the first element, aligned to 64 bytes.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.lines.as_mut_ptr().cast()
    }

    /// The elements, when they are stored as `T`; `Bool` elements are `u8`.
    pub fn as_slice<T: Element>(&self) -> Option<&[T]> {
        // SAFETY: `T` is the memory form of the element type, every bit pattern of it is valid, the storage holds
        // `len` of them and is aligned to 64 bytes.
        T::stores(self.dtype).then(|| unsafe { std::slice::from_raw_parts(self.as_ptr().cast(), self.len()) })
    }

    /// The elements, when they are stored as `T`, for writing.
    pub fn as_slice_mut<T: Element>(&mut self) -> Option<&mut [T]> {
        let len = self.len();
        // SAFETY: as in `as_slice`, and the borrow is exclusive.
        T::stores(self.dtype)
            .then(|| unsafe { std::slice::from_raw_parts_mut(self.as_mut_ptr().cast(), len) })
    }

    /// The elements of an f32 array.
    pub fn as_f32(&self) -> Option<&[f32]> {
        self.as_slice()
    }

    /// The elements of an f32 array, for writing.
    pub fn as_f32_mut(&mut self) -> Option<&mut [f32]> {
        self.as_slice_mut()
    }

    fn at<T: Element + Default>(&self, at: usize) -> T {
        self.as_slice().map_or_else(T::default, |s: &[T]| s[at])
    }

    fn put<T: Element>(&mut self, at: usize, value: T) {
        if let Some(s) = self.as_slice_mut() {
            s[at] = value;
        }
    }

    /// The element at a flat position, as a real number.
    ///
    /// # Panics
    /// When the position lies outside.
    #[inline]
    pub fn get_f64(&self, at: usize) -> f64 {
        match self.dtype {
            DType::F32 => f64::from(self.at::<f32>(at)),
            DType::F16 => self.at::<f16>(at).to_f64(),
            DType::BF16 => self.at::<bf16>(at).to_f64(),
            _ => self.get_i64(at) as f64,
        }
    }

    /// The element at a flat position, as an integer; floats are truncated.
    ///
    /// # Panics
    /// When the position lies outside.
    #[inline]
    pub fn get_i64(&self, at: usize) -> i64 {
        match self.dtype {
            DType::I8 => i64::from(self.at::<i8>(at)),
            DType::U8 => i64::from(self.at::<u8>(at)),
            DType::Bool => i64::from(self.at::<u8>(at) != 0),
            DType::I32 => i64::from(self.at::<i32>(at)),
            DType::I64 => self.at(at),
            DType::F32 | DType::F16 | DType::BF16 => self.get_f64(at) as i64,
        }
    }

    /// Writes a real number, rounded to the element type; truncated and saturated for integers.
    ///
    /// # Panics
    /// When the position lies outside.
    #[inline]
    pub fn set_f64(&mut self, at: usize, value: f64) {
        match self.dtype {
            DType::F32 => self.put(at, value as f32),
            DType::F16 => self.put(at, f16::from_f64(value)),
            DType::BF16 => self.put(at, bf16::from_f64(value)),
            DType::I8 => self.put(at, value as i8),
            DType::U8 => self.put(at, value as u8),
            DType::I32 => self.put(at, value as i32),
            DType::I64 => self.put(at, value as i64),
            DType::Bool => self.put(at, u8::from(value != 0.0)),
        }
    }

    /// Writes an integer, wrapped at the width of the element type; rounded for floats.
    ///
    /// # Panics
    /// When the position lies outside.
    #[inline]
    pub fn set_i64(&mut self, at: usize, value: i64) {
        match self.dtype {
            DType::I8 => self.put(at, value as i8),
            DType::U8 => self.put(at, value as u8),
            DType::I32 => self.put(at, value as i32),
            DType::I64 => self.put(at, value),
            DType::Bool => self.put(at, u8::from(value != 0)),
            DType::F32 | DType::F16 | DType::BF16 => self.set_f64(at, value as f64),
        }
    }

    /// The indices of a flat position.
    pub fn indices(&self, mut at: usize) -> Vec<usize> {
        let mut out = vec![0; self.shape.len()];
        for (i, extent) in out.iter_mut().zip(&self.shape).rev() {
            *i = at % extent.max(&1);
            at /= extent.max(&1);
        }
        out
    }
}

impl PartialEq for Array {
    fn eq(&self, other: &Array) -> bool {
        self.dtype == other.dtype && self.shape == other.shape && self.bytes() == other.bytes()
    }
}

impl std::fmt::Debug for Array {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const SHOWN: usize = 16;
        write!(f, "{}{:?} [", self.dtype, self.shape)?;
        for at in 0..self.len().min(SHOWN) {
            let comma = if at > 0 { ", " } else { "" };
            match self.dtype.is_float() {
                true => write!(f, "{comma}{}", self.get_f64(at))?,
                false => write!(f, "{comma}{}", self.get_i64(at))?,
            }
        }
        f.write_str(if self.len() > SHOWN { ", ..]" } else { "]" })
    }
}

/// The splitmix64 generator: full period, good bits from any seed.
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// How far an array is from the expected one, and where it is worst.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Largest absolute difference.
    pub max_abs: f64,
    /// Largest difference relative to the scale of the output; see [`compare`].
    pub max_rel: f64,
    /// Where the relative difference is largest; `None` when nothing differs or the arrays are not comparable.
    pub at: Option<Vec<usize>>,
    /// The expected value there.
    pub expected: f64,
    /// The value found there.
    pub got: f64,
}

impl Difference {
    /// Whether every element is within a relative tolerance.
    pub fn within(&self, tolerance: f64) -> bool {
        self.max_rel <= tolerance
    }
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.at {
            None if self.max_rel == 0.0 => f.write_str("equal"),
            None => f.write_str("shape or element type differ"),
            Some(at) => write!(
                f,
                "relative error {:e} (absolute {:e}) at {at:?}: expected {}, got {}",
                self.max_rel, self.max_abs, self.expected, self.got
            ),
        }
    }
}

/// Compares an array with the expected one.
///
/// The relative error of a float is `|e - g| / max(|e|, s)`, where the scale `s` is the root mean square of the finite
/// expected values: elements that are small only because large terms cancelled are not held to an accuracy that no
/// order of summation has. Equal infinities and two NaN agree; a NaN or infinity against anything else is an infinite
/// error, and so is any difference of integers, of shape or of element type.
pub fn compare(expected: &Array, got: &Array) -> Difference {
    let mut out = Difference { max_abs: 0.0, max_rel: 0.0, at: None, expected: 0.0, got: 0.0 };
    if expected.dtype != got.dtype || expected.shape != got.shape {
        return Difference { max_abs: f64::INFINITY, max_rel: f64::INFINITY, ..out };
    }
    let float = expected.dtype.is_float();
    let scale = if float { root_mean_square(expected).max(f64::from(f32::MIN_POSITIVE)) } else { 1.0 };
    let mut worst = None;
    for at in 0..expected.len() {
        let (e, g) = (expected.get_f64(at), got.get_f64(at));
        let same = if float {
            e == g || (e.is_nan() && g.is_nan())
        } else {
            expected.get_i64(at) == got.get_i64(at)
        };
        if same {
            continue;
        }
        let (abs, rel) = match float {
            true if e.is_finite() && g.is_finite() => ((e - g).abs(), (e - g).abs() / e.abs().max(scale)),
            true => (f64::INFINITY, f64::INFINITY),
            false => (expected.get_i64(at).abs_diff(got.get_i64(at)) as f64, f64::INFINITY),
        };
        out.max_abs = out.max_abs.max(abs);
        if worst.is_none() || rel > out.max_rel {
            worst = Some(at);
            out = Difference { max_rel: rel, expected: e, got: g, ..out };
        }
    }
    out.at = worst.map(|at| expected.indices(at));
    out
}

fn root_mean_square(array: &Array) -> f64 {
    let finite = || (0..array.len()).map(|at| array.get_f64(at)).filter(|v| v.is_finite());
    let count = finite().count();
    if count == 0 { 0.0 } else { (finite().map(|v| v * v).sum::<f64>() / count as f64).sqrt() }
}
