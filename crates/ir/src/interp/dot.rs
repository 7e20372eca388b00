//! The inner loop of sums of products: `acc[l] += a[l, k] * b[l, k]` for all lanes `l` and steps `k`, in f64.
//!
//! A product of two f32 is exact in f64, and steps are added in order, so every variant gives the same bits.

/// One factor: an f32 tensor read at `offset + lane * l + step * k`; every such position lies inside `data`.
#[derive(Clone, Copy)]
pub(crate) struct Factor<'a> {
    pub data: &'a [f32],
    pub offset: i64,
    pub lane: i64,
    pub step: i64,
}

impl Factor<'_> {
    #[inline(always)]
    fn at(&self, lane: usize, step: usize) -> f64 {
        f64::from(self.data[(self.offset + self.lane * lane as i64 + self.step * step as i64) as usize])
    }

    #[inline(always)]
    fn row(&self, lanes: usize, step: usize) -> &[f32] {
        let start = (self.offset + self.step * step as i64) as usize;
        &self.data[start..start + lanes]
    }
}

/// Accumulates `steps` products in every lane, with the widest vectors of this machine.
pub(crate) fn accumulate(acc: &mut [f64], a: Factor<'_>, b: Factor<'_>, steps: usize) {
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
fn accumulate_avx512(acc: &mut [f64], a: Factor<'_>, b: Factor<'_>, steps: usize) {
    accumulate_any(acc, a, b, steps);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn accumulate_avx2(acc: &mut [f64], a: Factor<'_>, b: Factor<'_>, steps: usize) {
    accumulate_any(acc, a, b, steps);
}

#[inline(always)]
fn accumulate_any(acc: &mut [f64], a: Factor<'_>, b: Factor<'_>, steps: usize) {
    match (a.lane, b.lane) {
        (0, 1) => broadcast(acc, a, b, steps),
        (1, 0) => broadcast(acc, b, a, steps),
        (1, 1) => rows(acc, a, b, steps),
        _ => strided(acc, a, b, steps),
    }
}

/// One factor is the same in all lanes, the other contiguous: four steps for each pass over the accumulators.
#[inline(always)]
fn broadcast(acc: &mut [f64], one: Factor<'_>, row: Factor<'_>, steps: usize) {
    let n = acc.len();
    let mut k = 0;
    while k + 4 <= steps {
        let x = [one.at(0, k), one.at(0, k + 1), one.at(0, k + 2), one.at(0, k + 3)];
        let r = [row.row(n, k), row.row(n, k + 1), row.row(n, k + 2), row.row(n, k + 3)];
        for (l, out) in acc.iter_mut().enumerate() {
            let mut sum = *out;
            sum += x[0] * f64::from(r[0][l]);
            sum += x[1] * f64::from(r[1][l]);
            sum += x[2] * f64::from(r[2][l]);
            sum += x[3] * f64::from(r[3][l]);
            *out = sum;
        }
        k += 4;
    }
    for k in k..steps {
        let x = one.at(0, k);
        for (out, v) in acc.iter_mut().zip(row.row(n, k)) {
            *out += x * f64::from(*v);
        }
    }
}

/// Both factors are contiguous over lanes.
#[inline(always)]
fn rows(acc: &mut [f64], a: Factor<'_>, b: Factor<'_>, steps: usize) {
    let n = acc.len();
    for k in 0..steps {
        for ((out, x), y) in acc.iter_mut().zip(a.row(n, k)).zip(b.row(n, k)) {
            *out += f64::from(*x) * f64::from(*y);
        }
    }
}

/// Any strides: a few lanes at a time run through all steps, so that contiguous steps stay in cache.
#[inline(always)]
fn strided(acc: &mut [f64], a: Factor<'_>, b: Factor<'_>, steps: usize) {
    const GROUP: usize = 8;
    for (group, out) in acc.chunks_mut(GROUP).enumerate() {
        let mut sums = [0.0; GROUP];
        sums[..out.len()].copy_from_slice(out);
        for k in 0..steps {
            for (l, sum) in sums[..out.len()].iter_mut().enumerate() {
                let lane = group * GROUP + l;
                *sum += a.at(lane, k) * b.at(lane, k);
            }
        }
        out.copy_from_slice(&sums[..out.len()]);
    }
}
