//! The few functions outside an object that generated code may call.
//!
//! The table is fixed on purpose: a kernel that needs anything else is a bug in the code generator, and the
//! loader says so by name instead of searching the process for a symbol that happens to match.

use std::ffi::{c_int, c_void};

/// The address of an external function, if kernels may call it.
pub fn external_address(name: &str) -> Option<u64> {
    let at = TABLE.binary_search_by(|(entry, _)| (*entry).cmp(name)).ok()?;
    Some((TABLE[at].1).0.addr() as u64)
}

/// A code address; wrapped so that a table of them may be a constant.
struct Address(*const ());

// SAFETY: the address of a function may be read from any thread.
unsafe impl Sync for Address {}

macro_rules! libm {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {
        unsafe extern "C" { $(fn $name($($arg: $type),*) -> $result;)* }
    };
}

libm! {
    acosf(x: f32) -> f32; acos(x: f64) -> f64;
    asinf(x: f32) -> f32; asin(x: f64) -> f64;
    atanf(x: f32) -> f32; atan(x: f64) -> f64;
    atan2f(y: f32, x: f32) -> f32; atan2(y: f64, x: f64) -> f64;
    cbrtf(x: f32) -> f32; cbrt(x: f64) -> f64;
    ceilf(x: f32) -> f32; ceil(x: f64) -> f64;
    cosf(x: f32) -> f32; cos(x: f64) -> f64;
    coshf(x: f32) -> f32; cosh(x: f64) -> f64;
    erff(x: f32) -> f32; erf(x: f64) -> f64;
    expf(x: f32) -> f32; exp(x: f64) -> f64;
    exp2f(x: f32) -> f32; exp2(x: f64) -> f64;
    expm1f(x: f32) -> f32; expm1(x: f64) -> f64;
    fabsf(x: f32) -> f32; fabs(x: f64) -> f64;
    floorf(x: f32) -> f32; floor(x: f64) -> f64;
    fmaf(x: f32, y: f32, z: f32) -> f32; fma(x: f64, y: f64, z: f64) -> f64;
    fmaxf(x: f32, y: f32) -> f32; fmax(x: f64, y: f64) -> f64;
    fminf(x: f32, y: f32) -> f32; fmin(x: f64, y: f64) -> f64;
    fmodf(x: f32, y: f32) -> f32; fmod(x: f64, y: f64) -> f64;
    ldexpf(x: f32, e: c_int) -> f32; ldexp(x: f64, e: c_int) -> f64;
    logf(x: f32) -> f32; log(x: f64) -> f64;
    log1pf(x: f32) -> f32; log1p(x: f64) -> f64;
    log2f(x: f32) -> f32; log2(x: f64) -> f64;
    log10f(x: f32) -> f32; log10(x: f64) -> f64;
    nearbyintf(x: f32) -> f32; nearbyint(x: f64) -> f64;
    powf(x: f32, y: f32) -> f32; pow(x: f64, y: f64) -> f64;
    rintf(x: f32) -> f32; rint(x: f64) -> f64;
    roundf(x: f32) -> f32; round(x: f64) -> f64;
    sinf(x: f32) -> f32; sin(x: f64) -> f64;
    sinhf(x: f32) -> f32; sinh(x: f64) -> f64;
    sqrtf(x: f32) -> f32; sqrt(x: f64) -> f64;
    tanf(x: f32) -> f32; tan(x: f64) -> f64;
    tanhf(x: f32) -> f32; tanh(x: f64) -> f64;
    truncf(x: f32) -> f32; trunc(x: f64) -> f64;
    memcpy(to: *mut c_void, from: *const c_void, n: usize) -> *mut c_void;
    memmove(to: *mut c_void, from: *const c_void, n: usize) -> *mut c_void;
    memset(to: *mut c_void, byte: c_int, n: usize) -> *mut c_void;
    memcmp(a: *const c_void, b: *const c_void, n: usize) -> c_int;
}

macro_rules! table {
    ($($name:ident)*) => { &[$((stringify!($name), Address($name as *const ())),)*] };
}

/// Sorted by name.
static TABLE: &[(&str, Address)] = table! {
    __extendhfsf2 __truncsfbf2 __truncsfhf2
    acos acosf asin asinf atan atan2 atan2f atanf cbrt cbrtf ceil ceilf cos cosf cosh coshf erf erff
    exp exp2 exp2f expf expm1 expm1f fabs fabsf floor floorf fma fmaf fmax fmaxf fmin fminf fmod fmodf
    ldexp ldexpf log log10 log10f log1p log1pf log2 log2f logf memcmp memcpy memmove memset
    nearbyint nearbyintf pow powf rint rintf round roundf sin sinf sinh sinhf sqrt sqrtf
    tan tanf tanh tanhf trunc truncf
};

// The compiler's helpers for half-width floats pass a 16-bit float in the low bits of a vector register, which
// is where a 32-bit float goes too; the upper bits are unspecified.

/// f16 -> f32.
extern "C" fn __extendhfsf2(half: f32) -> f32 {
    let bits = half.to_bits() & 0xffff;
    let sign = (bits & 0x8000) << 16;
    let (exponent, fraction) = ((bits >> 10) & 0x1f, bits & 0x3ff);
    let magnitude = match (exponent, fraction) {
        (0, _) => (fraction as f32 * 2f32.powi(-24)).to_bits(),
        (0x1f, 0) => f32::INFINITY.to_bits(),
        (0x1f, _) => 0x7fc0_0000 | (fraction << 13),
        _ => ((exponent + 112) << 23) | (fraction << 13),
    };
    f32::from_bits(sign | magnitude)
}

/// f32 -> f16, to nearest even.
extern "C" fn __truncsfhf2(value: f32) -> f32 {
    let bits = value.to_bits();
    let sign = (bits >> 16) & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    let half = if magnitude > 0x7f80_0000 {
        0x7e00 | ((magnitude >> 13) & 0x3ff)
    } else if magnitude >= 0x4780_0000 {
        0x7c00
    } else if magnitude < 0x3880_0000 {
        // Below the smallest normal number: adding a half pushes the value's bits to the end of the fraction,
        // and the addition itself rounds.
        (f32::from_bits(magnitude) + 0.5).to_bits() - 0.5f32.to_bits()
    } else {
        let rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
        (rounded - (112 << 23)) >> 13
    };
    f32::from_bits(sign | half)
}

/// f32 -> bf16, to nearest even.
extern "C" fn __truncsfbf2(value: f32) -> f32 {
    let bits = value.to_bits();
    if value.is_nan() {
        return f32::from_bits((bits >> 16) | 0x40);
    }
    f32::from_bits((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_finds_its_entries() {
        assert!(TABLE.windows(2).all(|pair| pair[0].0 < pair[1].0));
        for name in ["memcpy", "memset", "memmove", "expf", "tanh", "erff", "powf", "fmodf"] {
            assert!(external_address(name).is_some_and(|address| address != 0), "{name}");
        }
        assert_eq!(external_address("system"), None);
    }

    fn half(value: f32) -> u16 {
        __truncsfhf2(value).to_bits() as u16
    }

    #[test]
    fn every_half_survives_the_round_trip() {
        for bits in 0..=u16::MAX {
            let wide = __extendhfsf2(f32::from_bits(0xabcd_0000 | u32::from(bits)));
            let nan = (bits & 0x7fff) > 0x7c00;
            assert_eq!(wide.is_nan(), nan, "{bits:#x}");
            if !nan {
                assert_eq!(half(wide), bits);
            }
        }
    }

    #[test]
    fn halves_round_to_nearest_even() {
        assert_eq!(half(1.0 + 2f32.powi(-11)), 0x3c00);
        assert_eq!(half(1.0 + 3.0 * 2f32.powi(-11)), 0x3c02);
        assert_eq!(half(65504.0), 0x7bff);
        assert_eq!(half(65520.0), 0x7c00);
        assert_eq!(half(2f32.powi(-25)), 0);
        assert_eq!(half(-1.5 * 2f32.powi(-25)), 0x8001);
        assert!(__extendhfsf2(__truncsfhf2(f32::NAN)).is_nan());
    }

    #[test]
    fn bf16_rounds_to_nearest_even() {
        let bf16 = |value: f32| __truncsfbf2(value).to_bits();
        assert_eq!(bf16(1.0), 0x3f80);
        assert_eq!(bf16(f32::from_bits(0x3f80_8000)), 0x3f80);
        assert_eq!(bf16(f32::from_bits(0x3f81_8000)), 0x3f82);
        assert_eq!(bf16(f32::MAX), 0x7f80);
        assert_eq!(bf16(f32::NAN) & 0x7fc0, 0x7fc0);
    }
}
