//! Random small operators for property tests of other crates: every family, with strides, dilation, groups, asymmetric
//! padding, odd extents and epilogues.

use crate::spec::Spec;

/// A small deterministic generator (splitmix64).
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From `lo` to `hi`, both included.
    fn range(&mut self, lo: i64, hi: i64) -> i64 {
        lo + (self.next() % (hi.max(lo) - lo + 1) as u64) as i64
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[(self.next() % from.len() as u64) as usize]
    }

    /// An extent up to `cap`: often a prime or a neighbour of a power of two, sometimes anything.
    fn extent(&mut self, cap: i64) -> i64 {
        let cap = cap.max(1);
        let likely = [1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 23, 29, 31, 32, 33, 37, 47, 61, 64, 65];
        let below = likely.partition_point(|e| *e <= cap);
        if self.chance(70) { self.pick(&likely[..below]) } else { self.range(1, cap) }
    }
}

/// How many times a family is tried before extents are halved.
const TRIES_PER_SIZE: u32 = 16;

/// A random operator, the same for the same arguments, none of whose tensors has more than `max_elements` elements and
/// none of whose stages runs over more than 64 times as many points.
pub fn sample_spec(seed: u64, max_elements: i64) -> Spec {
    let mut random = Random(seed);
    let family = random.range(0, FAMILIES.len() as i64 - 1) as usize;
    let mut cap = 64;
    let mut tries = 0;
    loop {
        let text = FAMILIES[family](&mut random, cap);
        if let Ok(spec) = Spec::parse(&text)
            && fits(&spec, max_elements)
        {
            return spec;
        }
        tries += 1;
        if tries % TRIES_PER_SIZE == 0 {
            cap = (cap / 2).max(1);
        }
        if tries > TRIES_PER_SIZE * 64 {
            return smallest();
        }
    }
}

/// What is left when no operator fits: one element.
fn smallest() -> Spec {
    match Spec::parse("elementwise:n=1,chain=neg") {
        Ok(spec) => spec,
        Err(e) => unreachable!("the smallest spec is valid: {e}"),
    }
}

fn fits(spec: &Spec, max_elements: i64) -> bool {
    let Ok(dag) = spec.build() else {
        return false;
    };
    dag.tensors.iter().all(|t| {
        let elements: f64 = t.const_shape().unwrap_or_default().iter().map(|e| *e as f64).product();
        let reduced: f64 = t
            .compute()
            .map_or(&[][..], |c| c.reduce_axes())
            .iter()
            .map(|a| a.extent.as_int().unwrap_or(1) as f64)
            .product();
        elements <= max_elements as f64 && elements * reduced <= 64.0 * max_elements as f64
    })
}

type Family = fn(&mut Random, i64) -> String;

const FAMILIES: [Family; 15] = [
    matmul,
    bmm,
    |r, cap| conv(r, cap, 1),
    |r, cap| conv(r, cap, 2),
    |r, cap| conv(r, cap, 2),
    |r, cap| conv(r, cap, 3),
    depthwise,
    |r, cap| {
        let rank = r.range(1, 3) as usize;
        transpose(r, cap, rank)
    },
    |r, cap| transpose(r, cap, 2),
    pool,
    global_average,
    rows,
    reduction,
    elementwise,
    separable,
];

fn matmul(r: &mut Random, cap: i64) -> String {
    let (m, n, k) = (r.extent(cap), r.extent(cap), r.extent(cap));
    let rhs = r.pick(&["const", "input"]);
    let (tb, tail) = (r.range(0, 1), epilogue(r));
    format!("matmul:m={m},n={n},k={k},tb={tb},rhs={rhs}{tail}")
}

fn bmm(r: &mut Random, cap: i64) -> String {
    let (b, m, n, k) = (r.range(1, 5), r.extent(cap), r.extent(cap), r.extent(cap));
    let (tb, tail) = (r.range(0, 1), epilogue(r));
    format!("bmm:b={b},m={m},n={n},k={k},tb={tb}{tail}")
}

/// Spatial extents, batch and channels.
fn image(r: &mut Random, cap: i64, rank: usize) -> String {
    let mut out = format!("n={}", r.range(1, 2));
    let spatial = (cap / rank as i64).max(1);
    for letter in crate::window::spatial_letters(rank) {
        out += &format!(",{letter}={}", r.extent(spatial.min(17)));
    }
    out
}

/// Kernels, strides, dilations and paddings, sometimes different along each axis and on each side.
fn windows(r: &mut Random, rank: usize, max_dilation: i64, pooled: bool) -> String {
    let letters = crate::window::spatial_letters(rank);
    let sides = &[("pf", "pk"), ("pt", "pb"), ("pl", "pr")][3 - rank..];
    let mut out = String::new();
    let kernel = r.range(1, if rank == 3 { 3 } else { 5 });
    out += &format!(",k={kernel}");
    let mut smallest = kernel;
    if r.chance(30) {
        for letter in letters {
            let k = r.range(1, 4);
            smallest = smallest.min(k);
            out += &format!(",k{letter}={k}");
        }
    }
    out += &format!(",s={}", r.pick(&[1, 1, 2, 3]));
    if r.chance(25) {
        for letter in letters {
            out += &format!(",s{letter}={}", r.range(1, 3));
        }
    }
    if max_dilation > 1 && r.chance(35) {
        out += &format!(",dil={}", r.range(1, max_dilation));
        if r.chance(40) {
            out += &format!(",dw={}", r.range(1, max_dilation));
        }
    }
    // A pooling window may not lie in the padding altogether.
    let most = if pooled { (smallest - 1).min(3) } else { 3 };
    if r.chance(60) {
        out += &format!(",p={}", r.range(0, most));
        if r.chance(40) {
            for (before, after) in sides {
                out += &format!(",{before}={},{after}={}", r.range(0, most), r.range(0, most));
            }
        }
    }
    out
}

fn conv(r: &mut Random, cap: i64, rank: usize) -> String {
    let groups = r.pick(&[1, 1, 2, 3, 4]);
    let (c, f) = (groups * r.extent(cap.min(19)), groups * r.extent(cap.min(33)));
    let (image, windows, tail) = (image(r, cap, rank), windows(r, rank, 3, false), epilogue(r));
    let blocks = if groups == 1 && r.chance(30) {
        format!(",block={},fblock={}", block(r, c), block(r, f))
    } else {
        String::new()
    };
    format!("conv{rank}d:{image},c={c},f={f},g={groups}{windows}{blocks}{tail}")
}

/// A block that divides the channels, or 0 for channels last.
fn block(r: &mut Random, channels: i64) -> i64 {
    let divisors: Vec<i64> = (0..=channels).filter(|d| *d == 0 || channels % d == 0).collect();
    r.pick(&divisors)
}

fn depthwise(r: &mut Random, cap: i64) -> String {
    let c = r.extent(cap);
    let (image, windows, tail) = (image(r, cap, 2), windows(r, 2, 3, false), epilogue(r));
    let blocks = if r.chance(30) { format!(",block={}", block(r, c)) } else { String::new() };
    format!("depthwise:{image},c={c}{windows}{blocks}{tail}")
}

fn separable(r: &mut Random, cap: i64) -> String {
    let (c, f) = (r.extent(cap.min(37)), r.extent(cap.min(37)));
    let (image, windows, tail) = (image(r, cap, 2), windows(r, 2, 3, false), epilogue(r));
    let middle = r.pick(&["", "bias+relu6", "relu"]);
    format!("separable:{image},c={c},f={f}{windows},middle={middle}{tail}")
}

fn transpose(r: &mut Random, cap: i64, rank: usize) -> String {
    let (c, f) = (r.extent(cap.min(13)), r.extent(cap.min(19)));
    let (image, windows) = (image(r, cap.min(18), rank), windows(r, rank, 2, false));
    let (op, form) = (r.range(0, 1), r.pick(&["phased", "phased", "guarded"]));
    let tail = epilogue(r);
    format!("conv{rank}d_transpose:{image},c={c},f={f},op={op},form={form}{windows}{tail}")
}

fn pool(r: &mut Random, cap: i64) -> String {
    let rank = r.range(1, 3) as usize;
    let kind = r.pick(&["max", "avg"]);
    let c = r.extent(cap);
    let (image, windows, tail) = (image(r, cap, rank), windows(r, rank, 2, true), numbers(r));
    let counted = r.range(0, 1);
    format!("pool{rank}d:kind={kind},{image},c={c},count_include_pad={counted}{windows}{tail}")
}

fn global_average(r: &mut Random, cap: i64) -> String {
    let (c, tail) = (r.extent(cap), numbers(r));
    format!("global_avgpool:{},c={c}{tail}", image(r, cap, 2))
}

fn rows(r: &mut Random, cap: i64) -> String {
    let name = r.pick(&["softmax", "layernorm", "rmsnorm"]);
    format!("{name}:rows={},n={}", r.extent(cap), r.extent(cap))
}

fn reduction(r: &mut Random, cap: i64) -> String {
    let op = r.pick(&["sum", "mean", "max", "min", "prod"]);
    let (rows, n, tail) = (r.extent(cap), r.extent(cap), numbers(r));
    format!("reduce:op={op},rows={rows},n={n}{tail}")
}

fn elementwise(r: &mut Random, cap: i64) -> String {
    let ints = r.chance(30);
    let mut links = vec![link(r, ints)];
    while links.len() < 4 && r.chance(60) {
        links.push(link(r, ints));
    }
    let dtype = if ints { "i32" } else { "f32" };
    let (rows, n) = (r.extent(cap), r.extent(cap));
    format!("elementwise:rows={rows},n={n},chain={},dtype={dtype}", links.join("+"))
}

/// f32 or i32.
fn numbers(r: &mut Random) -> String {
    format!(",dtype={}", if r.chance(30) { "i32" } else { "f32" })
}

/// A type and up to three links; functions of reals only on floats.
fn epilogue(r: &mut Random) -> String {
    let ints = r.chance(35);
    let mut links = Vec::new();
    while links.len() < 3 && r.chance(45) {
        links.push(link(r, ints));
    }
    let dtype = if ints { "i32" } else { "f32" };
    format!(",epilogue={},dtype={dtype}", links.join("+"))
}

/// Links that keep every value finite.
fn link(r: &mut Random, ints: bool) -> &'static str {
    let integral = ["bias", "scale", "residual", "relu", "relu6", "add", "sub", "mul", "max", "min", "neg"];
    let real =
        ["gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "hardswish", "hardsigmoid", "elu", "leaky_relu"];
    if ints || r.chance(60) { r.pick(&integral) } else { r.pick(&real) }
}
