//! Operators to measure, drawn from a seed: shapes as networks have them, and some as they do not.

use talweg_ops::Spec;
use talweg_space::Rng;

/// Families in the order operators are drawn: the common ones more often.
const FAMILIES: [&str; 20] = [
    "conv2d",
    "matmul",
    "bmm",
    "depthwise",
    "conv2d",
    "softmax",
    "matmul",
    "pool2d",
    "conv2d",
    "conv3d",
    "layernorm",
    "bmm",
    "elementwise",
    "conv2d",
    "conv2d_transpose",
    "matmul",
    "depthwise",
    "conv1d",
    "rmsnorm",
    "reduce",
];

/// Operations of one run: enough to be timed, few enough for slow schedules to end soon.
const FLOPS: std::ops::RangeInclusive<f64> = 2e5..=5e9;
/// Bytes an operator touches at most.
const BYTES: f64 = 80e6;
/// Draws until an operator is of a good size.
const DRAWS: usize = 200;

const CHANNELS: [i64; 20] =
    [3, 8, 16, 24, 32, 48, 64, 80, 96, 128, 144, 160, 192, 256, 320, 384, 512, 576, 960, 1024];
const IMAGES: [i64; 10] = [4, 7, 8, 13, 14, 16, 28, 32, 56, 112];
const EXTENTS: [i64; 26] = [
    1, 4, 16, 32, 49, 50, 64, 96, 100, 128, 160, 192, 197, 240, 256, 320, 384, 512, 576, 768, 1000, 1024,
    1536, 2048, 3072, 4096,
];
const EPILOGUES: [&str; 8] = [
    "",
    "",
    ",epilogue=bias",
    ",epilogue=relu",
    ",epilogue=bias+relu",
    ",epilogue=bias+gelu",
    ",epilogue=bias+residual+relu",
    ",epilogue=scale+bias+relu",
];
const CHAINS: [&str; 8] =
    ["relu", "add", "add+relu", "mul+add", "add+mul+relu", "gelu", "sigmoid+mul", "scale+bias+relu"];

/// A random stream with the choices that operators are made of.
struct Draw(Rng);

impl Draw {
    fn of<T: Copy + Default>(&mut self, from: &[T]) -> T {
        self.0.pick(from).copied().unwrap_or_default()
    }

    fn text(&mut self, family: &str) -> String {
        let epilogue = self.of(&EPILOGUES);
        let (c, f) = (self.of(&CHANNELS), self.of(&CHANNELS));
        let n = self.of(&[1i64, 1, 1, 1, 2, 4]);
        let h = self.of(&IMAGES);
        let w = if self.0.chance(0.8) { h } else { self.of(&IMAGES) };
        let (k, s) = (self.of(&[1i64, 1, 3, 3, 3, 5, 7]).min(h.min(w)), self.of(&[1i64, 1, 1, 2]));
        let p = if self.0.chance(0.85) { k / 2 } else { 0 };
        let (rows, columns) = (self.of(&EXTENTS), self.of(&EXTENTS));
        match family {
            "conv2d" => {
                let dilation = if k > 1 && self.0.chance(0.08) { ",dil=2" } else { "" };
                let both = c.min(f);
                let (c, f, groups) = match self.0.chance(0.08) && both >= 8 {
                    true => (both, both, ",g=4"),
                    false => (c, f, ""),
                };
                format!("conv2d:n={n},h={h},w={w},c={c},f={f},k={k},s={s}{dilation},p={p}{groups}{epilogue}")
            }
            "conv1d" => format!("conv1d:n={n},w={},c={c},f={f},k={k},s={s},p={p}{epilogue}", h * 8),
            "conv3d" => {
                let d = self.of(&[4i64, 8, 16]);
                let (k, p) = (k.min(3), p.min(1));
                format!("conv3d:n=1,d={d},h={h},w={h},c={c},f={f},k={k},s={s},p={p}{epilogue}")
            }
            "depthwise" => format!("depthwise:n={n},h={h},w={w},c={c},k={},s={s},p={p}{epilogue}", k.max(3)),
            "conv2d_transpose" => {
                let (k, s, p) = self.of(&[(4i64, 2i64, 1i64), (2, 2, 0), (3, 1, 1), (4, 1, 0)]);
                format!("conv2d_transpose:n={n},h={h},w={h},c={c},f={f},k={k},s={s},p={p}{epilogue}")
            }
            "pool2d" => {
                let kind = self.of(&["max", "avg"]);
                format!("pool2d:kind={kind},n={n},h={h},w={w},c={c},k={},s={s},p={}", k.max(2), k.max(2) / 2)
            }
            "matmul" => {
                let (m, transposed) = (self.of(&EXTENTS), self.of(&["", ",tb=1", ",rhs=input"]));
                format!("matmul:m={m},n={columns},k={rows}{transposed}{epilogue}")
            }
            "bmm" => {
                let (b, k) = (self.of(&[2i64, 4, 8, 12, 16]), self.of(&[32i64, 50, 64, 80, 128, 197]));
                let transposed = self.of(&["", ",tb=1"]);
                format!("bmm:b={b},m={rows},n={columns},k={k}{transposed}")
            }
            "elementwise" => format!("elementwise:rows={rows},n={columns},chain={}", self.of(&CHAINS)),
            "reduce" => {
                format!("reduce:op={},rows={rows},n={columns}", self.of(&["sum", "mean", "max"]))
            }
            _ => format!("{family}:rows={rows},n={columns}"),
        }
    }
}

/// The first `count` operators of a seed. More of them begin with the same ones; an operator may occur only once.
pub fn operators(seed: u64, count: usize) -> Vec<Spec> {
    let mut specs: Vec<Spec> = Vec::new();
    let mut position = 0;
    let mut rng = Rng::new(seed);
    while specs.len() < count && position < 4 * count + 64 {
        let mut draw = Draw(rng.fork());
        let family = FAMILIES[position % FAMILIES.len()];
        position += 1;
        let good = (0..DRAWS).find_map(|_| {
            let spec = Spec::parse(&draw.text(family)).ok()?;
            let fits = FLOPS.contains(&spec.flops()) && spec.bytes() <= BYTES && spec.build().is_ok();
            (fits && !specs.contains(&spec)).then_some(spec)
        });
        specs.extend(good);
    }
    specs
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_seed_names_its_operators() {
        let (few, many) = (operators(1, 40), operators(1, 120));
        assert_eq!(many.len(), 120);
        assert_eq!(few, many[..40]);
        assert_ne!(few, operators(2, 40));
        let distinct: BTreeSet<String> = many.iter().map(ToString::to_string).collect();
        assert_eq!(distinct.len(), 120);
    }

    #[test]
    fn every_family_is_among_them() {
        let found: BTreeSet<&str> = operators(3, 60).iter().map(|s| s.operator().name).collect();
        assert_eq!(found, FAMILIES.into_iter().collect());
    }

    #[test]
    fn sizes_are_bounded() {
        for spec in operators(4, 100) {
            assert!(FLOPS.contains(&spec.flops()) && spec.bytes() <= BYTES, "{spec}");
        }
    }
}
