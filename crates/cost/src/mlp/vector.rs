//! Vectors of the instruction sets that matrix products are written for.

/// A vector of numbers.
///
/// # Safety
/// Methods may be called only where the instructions of the type exist; loads and stores touch `LANES` numbers.
pub(super) trait Vector: Copy {
    /// Numbers of a vector.
    const LANES: usize;
    /// The same number everywhere.
    unsafe fn splat(x: f32) -> Self;
    /// Reads numbers that follow one another.
    unsafe fn load(from: *const f32) -> Self;
    /// Writes numbers that follow one another.
    unsafe fn store(self, to: *mut f32);
    /// `self + other`.
    unsafe fn add(self, other: Self) -> Self;
    /// `self * y + z`, rounded once where the machine can.
    unsafe fn mul_add(self, y: Self, z: Self) -> Self;
}

/// Whether the plain vectors round a multiply-add once: only where that is an instruction.
const FUSED: bool = cfg!(any(target_arch = "aarch64", target_feature = "fma"));

impl Vector for [f32; 4] {
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        [x; 4]
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller vouches for four numbers; they need not be aligned as an array.
        unsafe { from.cast::<Self>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller vouches for room for four numbers.
        unsafe { to.cast::<Self>().write_unaligned(self) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        std::array::from_fn(|i| self[i] + other[i])
    }

    #[inline(always)]
    unsafe fn mul_add(self, y: Self, z: Self) -> Self {
        std::array::from_fn(|i| if FUSED { self[i].mul_add(y[i], z[i]) } else { self[i] * y[i] + z[i] })
    }
}

#[cfg(target_arch = "x86_64")]
macro_rules! x86_vector {
    ($type:ident, $lanes:literal, $splat:ident, $load:ident, $store:ident, $add:ident, $mul_add:ident) => {
        impl Vector for std::arch::x86_64::$type {
            const LANES: usize = $lanes;

            #[inline(always)]
            unsafe fn splat(x: f32) -> Self {
                // SAFETY: the caller vouches for the instruction.
                unsafe { std::arch::x86_64::$splat(x) }
            }

            #[inline(always)]
            unsafe fn load(from: *const f32) -> Self {
                // SAFETY: the caller vouches for the instruction and the numbers.
                unsafe { std::arch::x86_64::$load(from) }
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut f32) {
                // SAFETY: the caller vouches for the instruction and the room.
                unsafe { std::arch::x86_64::$store(to, self) }
            }

            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                // SAFETY: the caller vouches for the instruction.
                unsafe { std::arch::x86_64::$add(self, other) }
            }

            #[inline(always)]
            unsafe fn mul_add(self, y: Self, z: Self) -> Self {
                // SAFETY: the caller vouches for the instruction.
                unsafe { std::arch::x86_64::$mul_add(self, y, z) }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
x86_vector!(__m256, 8, _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_add_ps, _mm256_fmadd_ps);
#[cfg(target_arch = "x86_64")]
x86_vector!(__m512, 16, _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_add_ps, _mm512_fmadd_ps);
