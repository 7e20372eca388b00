//! The inner loop of sums of products: `acc[l] += a[l, k] * b[l, k]` for all lanes `l` and steps `k`.
//!
//! A product of two f32 is exact in f64, and the order of additions depends on strides alone, so every machine gives
//! the same bits.

/// Elements that are multiplied, and the type their products are summed in.
pub(crate) trait Term: Copy {
    type Sum: Copy + Default;
    fn add_product(sum: Self::Sum, a: Self, b: Self) -> Self::Sum;
    fn add(a: Self::Sum, b: Self::Sum) -> Self::Sum;
}

impl Term for f32 {
    type Sum = f64;
    #[inline(always)]
    fn add_product(sum: f64, a: f32, b: f32) -> f64 {
        sum + f64::from(a) * f64::from(b)
    }
    #[inline(always)]
    fn add(a: f64, b: f64) -> f64 {
        a + b
    }
}

/// Products of i32 are summed modulo 2^32.
impl Term for i32 {
    type Sum = i32;
    #[inline(always)]
    fn add_product(sum: i32, a: i32, b: i32) -> i32 {
        sum.wrapping_add(a.wrapping_mul(b))
    }
    #[inline(always)]
    fn add(a: i32, b: i32) -> i32 {
        a.wrapping_add(b)
    }
}

/// One factor: a tensor read at `offset + lane * l + step * k`; every such position lies inside `data`.
#[derive(Clone, Copy)]
pub(crate) struct Factor<'a, T> {
    pub data: &'a [T],
    pub offset: i64,
    pub lane: i64,
    pub step: i64,
}

impl<T: Term> Factor<'_, T> {
    #[inline(always)]
    fn at(&self, lane: usize, step: usize) -> T {
        self.data[(self.offset + self.lane * lane as i64 + self.step * step as i64) as usize]
    }

    #[inline(always)]
    fn row(&self, lanes: usize, step: usize) -> &[T] {
        let start = (self.offset + self.step * step as i64) as usize;
        &self.data[start..start + lanes]
    }
}

/// Accumulates `steps` products in every lane, with the widest vectors of this machine.
pub(crate) fn accumulate<T: Term>(acc: &mut [T::Sum], a: Factor<'_, T>, b: Factor<'_, T>, steps: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the machine has AVX-512F.
            return unsafe { accumulate_avx512(acc, a, b, steps) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the machine has AVX2.
            return unsafe { accumulate_avx2(acc, a, b, steps) };
        }
    }
    accumulate_any(acc, a, b, steps);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn accumulate_avx512<T: Term>(acc: &mut [T::Sum], a: Factor<'_, T>, b: Factor<'_, T>, steps: usize) {
    accumulate_any(acc, a, b, steps);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn accumulate_avx2<T: Term>(acc: &mut [T::Sum], a: Factor<'_, T>, b: Factor<'_, T>, steps: usize) {
    accumulate_any(acc, a, b, steps);
}

#[inline(always)]
fn accumulate_any<T: Term>(acc: &mut [T::Sum], a: Factor<'_, T>, b: Factor<'_, T>, steps: usize) {
    match (a.lane, b.lane) {
        (0, 1) => broadcast(acc, a, b, steps),
        (1, 0) => broadcast(acc, b, a, steps),
        (1, 1) => rows(acc, a, b, steps),
        _ if a.step == 1 && b.step == 1 => columns(acc, a, b, steps),
        _ => strided(acc, a, b, steps),
    }
}

/// One factor is the same in all lanes, the other contiguous: four steps for each pass over the accumulators.
#[inline(always)]
fn broadcast<T: Term>(acc: &mut [T::Sum], one: Factor<'_, T>, row: Factor<'_, T>, steps: usize) {
    let n = acc.len();
    let mut k = 0;
    while k + 4 <= steps {
        let x = [one.at(0, k), one.at(0, k + 1), one.at(0, k + 2), one.at(0, k + 3)];
        let r = [row.row(n, k), row.row(n, k + 1), row.row(n, k + 2), row.row(n, k + 3)];
        for (l, out) in acc.iter_mut().enumerate() {
            let mut sum = *out;
            sum = T::add_product(sum, x[0], r[0][l]);
            sum = T::add_product(sum, x[1], r[1][l]);
            sum = T::add_product(sum, x[2], r[2][l]);
            sum = T::add_product(sum, x[3], r[3][l]);
            *out = sum;
        }
        k += 4;
    }
    for k in k..steps {
        let x = one.at(0, k);
        for (out, v) in acc.iter_mut().zip(row.row(n, k)) {
            *out = T::add_product(*out, x, *v);
        }
    }
}

/// Both factors are contiguous over lanes.
#[inline(always)]
fn rows<T: Term>(acc: &mut [T::Sum], a: Factor<'_, T>, b: Factor<'_, T>, steps: usize) {
    let n = acc.len();
    for k in 0..steps {
        for ((out, x), y) in acc.iter_mut().zip(a.row(n, k)).zip(b.row(n, k)) {
            *out = T::add_product(*out, *x, *y);
        }
    }
}

/// Both factors are contiguous over steps: each lane is a dot product, summed in a few interleaved parts.
#[inline(always)]
fn columns<T: Term>(acc: &mut [T::Sum], a: Factor<'_, T>, b: Factor<'_, T>, steps: usize) {
    const PARTS: usize = 32;
    for (lane, out) in acc.iter_mut().enumerate() {
        let column = |f: Factor<'_, T>| (f.offset + f.lane * lane as i64) as usize;
        let (x, y) = (&a.data[column(a)..][..steps], &b.data[column(b)..][..steps]);
        let ((x, x_rest), (y, y_rest)) = (x.as_chunks::<PARTS>(), y.as_chunks::<PARTS>());
        let mut sums = [T::Sum::default(); PARTS];
        for (x, y) in x.iter().zip(y) {
            for ((sum, x), y) in sums.iter_mut().zip(x).zip(y) {
                *sum = T::add_product(*sum, *x, *y);
            }
        }
        let rest = x_rest.iter().zip(y_rest).fold(*out, |sum, (x, y)| T::add_product(sum, *x, *y));
        *out = sums.into_iter().fold(rest, T::add);
    }
}

/// Any strides: a few lanes at a time run through all steps, so that contiguous steps stay in cache.
#[inline(always)]
fn strided<T: Term>(acc: &mut [T::Sum], a: Factor<'_, T>, b: Factor<'_, T>, steps: usize) {
    const GROUP: usize = 8;
    for (group, out) in acc.chunks_mut(GROUP).enumerate() {
        let mut sums = [T::Sum::default(); GROUP];
        sums[..out.len()].copy_from_slice(out);
        for k in 0..steps {
            for (l, sum) in sums[..out.len()].iter_mut().enumerate() {
                let lane = group * GROUP + l;
                *sum = T::add_product(*sum, a.at(lane, k), b.at(lane, k));
            }
        }
        out.copy_from_slice(&sums[..out.len()]);
    }
}
