//! Randomly scheduled reductions: every order of loops, kind, tail and placement of the accumulators, against the
//! interpreter.

mod support;

use support::{check_nest, nest};

/// A small generator, so that every run tests the same programs.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % n
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        let at = self.below(of.len());
        &of[at]
    }

    fn shuffle<T>(&mut self, of: &mut [T]) {
        for at in (1..of.len()).rev() {
            let other = self.below(at + 1);
            of.swap(at, other);
        }
    }
}

/// An axis split by a factor that need not divide it.
struct Axis {
    name: char,
    extent: usize,
    factor: usize,
}

impl Axis {
    fn outer(&self) -> usize {
        self.extent.div_ceil(self.factor)
    }

    /// The axis as an expression over the loops of one statement.
    fn index(&self, tag: &str) -> String {
        format!("({n}0{tag} * {f} + {n}1{tag})", n = self.name, f = self.factor)
    }

    fn guard(&self, tag: &str) -> Option<String> {
        let exact = self.extent.is_multiple_of(self.factor);
        (!exact).then(|| format!("{} < {}", self.index(tag), self.extent))
    }
}

/// A statement in all loops of some axes, in random order, with guards for the tails.
fn loops(r: &mut Random, axes: &[&Axis], tag: &str, statement: &str, parallel: bool) -> String {
    let mut all: Vec<(String, usize, bool)> = Vec::new();
    for a in axes {
        all.push((format!("{}0{tag}", a.name), a.outer(), a.name != 'k'));
        all.push((format!("{}1{tag}", a.name), a.factor, a.name != 'k'));
    }
    r.shuffle(&mut all);
    let mut out = String::new();
    let mut unrolled = 1;
    for (at, (name, extent, spatial)) in all.iter().enumerate() {
        let last = at + 2 >= all.len();
        let kind = match r.below(6) {
            0 | 1 if *extent <= 6 && unrolled * extent <= 48 => "unroll",
            2..=4 if last => "vectorize",
            5 if at == 0 && parallel && *spatial => "parallel",
            _ => "for",
        };
        if kind == "unroll" {
            unrolled *= extent;
        }
        out += &format!("{kind} {name} in 0..{extent} {{ ");
    }
    let guards: Vec<String> = axes.iter().filter_map(|a| a.guard(tag)).collect();
    if guards.is_empty() {
        out += statement;
    } else {
        out += &format!("if {} {{ {statement} }}", guards.join(" && "));
    }
    out + &" }".repeat(all.len()) + "\n"
}

fn program(r: &mut Random) -> String {
    let axis = |r: &mut Random, name: char, extents: &[usize]| {
        let extent = *r.pick(extents);
        let factor = *r.pick(&[1, 2, 3, 4, 5, 8, 16, 20]);
        Axis { name, extent, factor: factor.min(extent) }
    };
    let i = axis(r, 'i', &[1, 3, 4, 7, 10]);
    let j = axis(r, 'j', &[1, 5, 16, 17, 24, 40]);
    let k = axis(r, 'k', &[1, 2, 6, 9, 16, 33]);
    let (m, n, depth) = (i.extent, j.extent, k.extent);
    let (ii, jj, kk) = (i.index("u"), j.index("u"), k.index("u"));
    let value = match r.below(6) {
        0 => format!("A[{ii}, {kk}] * B[{kk}, {jj}]"),
        1 => format!(
            "select(guard(1 <= {ii} && {kk} < {}), A[{ii} - 1, {kk} + 1], 0.0) * B[{kk}, {jj}]",
            depth - 1
        ),
        2 => format!("select(guard({jj} < {}), B[{kk}, {jj} + 1], A[{ii}, {kk}])", n - 1),
        3 => format!("exp(A[{ii}, {kk}]) - B[{kk}, {jj}] * index.f32({jj} % 3)"),
        4 => format!("max(A[{ii}, {kk}], B[{kk}, ({jj} * 7) % {n}])"),
        _ => format!("A[{ii}, {kk}] * B[{kk}, {n} - 1 - {jj}] + A[{ii}, 0]"),
    };
    let (update, start) = *r.pick(&[("+=", "0.5"), ("+=", "0.0"), ("max=", "-inf"), ("min=", "9.0")]);
    let place = *r.pick(&["C", "T", "L"]);
    let at = |tag: &str| format!("{place}[{}, {}]", i.index(tag), j.index(tag));
    let mut body = String::new();
    if place == "L" {
        body += "alloc L\n";
    }
    let parallel = place != "L";
    body += &loops(r, &[&i, &j], "s", &format!("{} = {start}", at("s")), parallel);
    body += &loops(r, &[&i, &j, &k], "u", &format!("{} {update} {value}", at("u")), parallel);
    let c = format!("C[{}, {}]", i.index("e"), j.index("e"));
    body += &loops(r, &[&i, &j], "e", &format!("{c} = max({}, -1.0) * 2.0", at("e")), parallel);
    format!(
        "nest random {{ input A: f32[{m}, {depth}] input B: f32[{depth}, {n}] output C: f32[{m}, {n}]
           temp T: f32[{m}, {n}] local L: f32[{m}, {n}]\n{body} }}"
    )
}

#[test]
fn random_schedules_compute_the_same() {
    let mut r = Random(2026);
    for case in 0..200 {
        let text = program(&mut r);
        let outcome = std::panic::catch_unwind(|| check_nest(&nest(&text), 1e-4, 1 + case % 2));
        if let Err(e) = outcome {
            eprintln!("case {case}:\n{text}");
            std::panic::resume_unwind(e);
        }
    }
}
