//! The inner loops of a tape: each step on one block of points.

use crate::elementary;
use crate::node::{BinaryOp, UnaryOp};
use crate::tape::{BLOCK, Back, Flow, Op, Step};

/// One value at every point of a block.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lanes(pub [f64; BLOCK]);

/// Runs all steps on a block; `out` holds as many rows of `width` as the block has points.
pub(crate) fn forward(steps: &[Step], slots: &mut [Lanes], out: &mut [f64], width: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq") {
            // SAFETY: the features were just found.
            return unsafe { forward_avx512(steps, slots, out, width) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the feature was just found.
            return unsafe { forward_avx2(steps, slots, out, width) };
        }
    }
    forward_any(steps, slots, out, width);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq")]
fn forward_avx512(steps: &[Step], slots: &mut [Lanes], out: &mut [f64], width: usize) {
    forward_any(steps, slots, out, width);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn forward_avx2(steps: &[Step], slots: &mut [Lanes], out: &mut [f64], width: usize) {
    forward_any(steps, slots, out, width);
}

/// Runs the steps backwards on a block: `seed` holds the adjoints of the outputs, row by row.
pub(crate) fn backward(steps: &[Back], values: &[Lanes], adjoints: &mut [Lanes], seed: &[f64], width: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq") {
            // SAFETY: the features were just found.
            return unsafe { backward_avx512(steps, values, adjoints, seed, width) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the feature was just found.
            return unsafe { backward_avx2(steps, values, adjoints, seed, width) };
        }
    }
    backward_any(steps, values, adjoints, seed, width);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq")]
fn backward_avx512(steps: &[Back], values: &[Lanes], adjoints: &mut [Lanes], seed: &[f64], width: usize) {
    backward_any(steps, values, adjoints, seed, width);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn backward_avx2(steps: &[Back], values: &[Lanes], adjoints: &mut [Lanes], seed: &[f64], width: usize) {
    backward_any(steps, values, adjoints, seed, width);
}

#[inline(always)]
fn truth(v: bool) -> f64 {
    if v { 1.0 } else { 0.0 }
}

#[inline(always)]
fn map1(to: &mut Lanes, a: &Lanes, f: impl Fn(f64) -> f64) {
    for (to, a) in to.0.iter_mut().zip(&a.0) {
        *to = f(*a);
    }
}

#[inline(always)]
fn map2(to: &mut Lanes, a: &Lanes, b: &Lanes, f: impl Fn(f64, f64) -> f64) {
    for ((to, a), b) in to.0.iter_mut().zip(&a.0).zip(&b.0) {
        *to = f(*a, *b);
    }
}

#[inline(always)]
fn map3(to: &mut Lanes, a: &Lanes, b: &Lanes, c: &Lanes, f: impl Fn(f64, f64, f64) -> f64) {
    for (((to, a), b), c) in to.0.iter_mut().zip(&a.0).zip(&b.0).zip(&c.0) {
        *to = f(*a, *b, *c);
    }
}

/// Borrows the slot of a result for writing and those of the operands for reading.
#[inline(always)]
fn split<'a>(slots: &'a mut [Lanes], s: &Step) -> (&'a mut Lanes, &'a Lanes, &'a Lanes, &'a Lanes) {
    let [to, a, b, c] = [s.to as usize, s.a as usize, s.b as usize, s.c as usize];
    assert!(to != a && to != b && to != c);
    assert!(to.max(a).max(b).max(c) < slots.len());
    let base = slots.as_mut_ptr();
    // SAFETY: all four are inside the slice, and the one borrowed for writing is none of the others.
    unsafe { (&mut *base.add(to), &*base.add(a), &*base.add(b), &*base.add(c)) }
}

#[inline(always)]
fn forward_any(steps: &[Step], slots: &mut [Lanes], out: &mut [f64], width: usize) {
    for s in steps {
        if s.op == Op::Output {
            let values = &slots[s.a as usize].0;
            for (row, v) in out.chunks_exact_mut(width).zip(values) {
                row[s.to as usize] = *v;
            }
            continue;
        }
        let (to, a, b, c) = split(slots, s);
        match s.op {
            Op::Output => {}
            Op::Select => map3(to, a, b, c, |c, a, b| if c != 0.0 { a } else { b }),
            Op::Unary(op) => match op {
                UnaryOp::Not => map1(to, a, |a| truth(a == 0.0)),
                UnaryOp::Log => map1(to, a, elementary::ln),
                UnaryOp::Exp => map1(to, a, elementary::exp),
                UnaryOp::Sqrt => map1(to, a, f64::sqrt),
                UnaryOp::Abs => map1(to, a, f64::abs),
            },
            Op::Binary(op) => match op {
                BinaryOp::Add => map2(to, a, b, |a, b| a + b),
                BinaryOp::Mul => map2(to, a, b, |a, b| a * b),
                BinaryOp::Div => map2(to, a, b, |a, b| a / b),
                BinaryOp::FloorDiv => map2(to, a, b, |a, b| (a / b).floor()),
                BinaryOp::CeilDiv => map2(to, a, b, |a, b| (a / b).ceil()),
                BinaryOp::Mod => map2(to, a, b, |a, b| a - b * (a / b).floor()),
                BinaryOp::Min => map2(to, a, b, f64::min),
                BinaryOp::Max => map2(to, a, b, f64::max),
                BinaryOp::Pow => map2(to, a, b, f64::powf),
                BinaryOp::Lt => map2(to, a, b, |a, b| truth(a < b)),
                BinaryOp::Le => map2(to, a, b, |a, b| truth(a <= b)),
                BinaryOp::Eq => map2(to, a, b, |a, b| truth(a == b)),
                BinaryOp::Ne => map2(to, a, b, |a, b| truth(a != b)),
                BinaryOp::And => map2(to, a, b, |a, b| truth((a != 0.0) & (b != 0.0))),
                BinaryOp::Or => map2(to, a, b, |a, b| truth((a != 0.0) | (b != 0.0))),
            },
        }
    }
}

/// A contribution to an adjoint; none where the adjoint it comes from is zero, whatever the derivative.
#[inline(always)]
fn part(adjoint: f64, derivative: f64) -> f64 {
    if adjoint == 0.0 { 0.0 } else { adjoint * derivative }
}

/// The arrays one step backwards reads.
struct Reads<'a> {
    adjoint: &'a Lanes,
    value: &'a Lanes,
    a: &'a Lanes,
    b: &'a Lanes,
}

/// Adds to the adjoint of one operand, with the derivative as a function of the value and both operands.
#[inline(always)]
fn flow(mode: Flow, to: &mut Lanes, r: &Reads<'_>, derivative: impl Fn(f64, f64, f64) -> f64) {
    let reads = r.adjoint.0.iter().zip(&r.value.0).zip(r.a.0.iter().zip(&r.b.0));
    let lanes = to.0.iter_mut().zip(reads);
    match mode {
        Flow::Stop => {}
        Flow::Set => lanes.for_each(|(to, ((g, v), (a, b)))| *to = part(*g, derivative(*v, *a, *b))),
        Flow::Add => lanes.for_each(|(to, ((g, v), (a, b)))| *to += part(*g, derivative(*v, *a, *b))),
    }
}

/// Hands an adjoint on as it is.
#[inline(always)]
fn pass(mode: Flow, to: &mut Lanes, r: &Reads<'_>) {
    match mode {
        Flow::Stop => {}
        Flow::Set => *to = *r.adjoint,
        Flow::Add => to.0.iter_mut().zip(&r.adjoint.0).for_each(|(to, g)| *to += *g),
    }
}

/// Where the first operand of `min` is the value; the other condition is for a second operand that is NaN.
#[inline(always)]
fn first_is_min(a: f64, b: f64) -> f64 {
    truth((a <= b) | b.is_nan())
}

#[inline(always)]
fn first_is_max(a: f64, b: f64) -> f64 {
    truth((a >= b) | b.is_nan())
}

#[inline(always)]
fn backward_any(steps: &[Back], values: &[Lanes], adjoints: &mut [Lanes], seed: &[f64], width: usize) {
    for s in steps {
        let (v, g) = (&s.value, &s.adjoint);
        if v.op == Op::Output {
            let to = &mut adjoints[g.a as usize].0;
            let rows = seed.chunks_exact(width).map(|row| row[v.to as usize]);
            match s.flow[0] {
                Flow::Add => to.iter_mut().zip(rows).for_each(|(to, seed)| *to += seed),
                _ => {
                    // Lanes without a point must not keep what an earlier block left.
                    *to = [0.0; BLOCK];
                    to.iter_mut().zip(rows).for_each(|(to, seed)| *to = seed);
                }
            }
            continue;
        }
        let value = |number: u32| &values[number as usize];
        for (k, mode) in s.flow.into_iter().enumerate() {
            if mode == Flow::Stop {
                continue;
            }
            let target = [g.a, g.b, g.c][k];
            let (to, adjoint, ..) =
                split(adjoints, &Step { to: target, a: g.to, b: g.to, c: g.to, op: v.op });
            let r = Reads { adjoint, value: value(v.to), a: value(v.a), b: value(v.b) };
            match (v.op, k) {
                (Op::Output, _) => {}
                (Op::Select, 1) => flow(mode, to, &r, |_, c, _| truth(c != 0.0)),
                (Op::Select, _) => flow(mode, to, &r, |_, c, _| truth(c == 0.0)),
                (Op::Unary(op), _) => match op {
                    UnaryOp::Not => {}
                    UnaryOp::Log => flow(mode, to, &r, |_, a, _| 1.0 / a),
                    UnaryOp::Exp => flow(mode, to, &r, |v, _, _| v),
                    UnaryOp::Sqrt => flow(mode, to, &r, |v, _, _| 0.5 / v),
                    UnaryOp::Abs => flow(mode, to, &r, |_, a, _| truth(a > 0.0) - truth(a < 0.0)),
                },
                (Op::Binary(op), 0) => match op {
                    BinaryOp::Add | BinaryOp::Mod => pass(mode, to, &r),
                    BinaryOp::Mul => flow(mode, to, &r, |_, _, b| b),
                    BinaryOp::Div | BinaryOp::FloorDiv | BinaryOp::CeilDiv => {
                        flow(mode, to, &r, |_, _, b| 1.0 / b);
                    }
                    BinaryOp::Min => flow(mode, to, &r, |_, a, b| first_is_min(a, b)),
                    BinaryOp::Max => flow(mode, to, &r, |_, a, b| first_is_max(a, b)),
                    BinaryOp::Pow => flow(mode, to, &r, |_, a, b| part(b, a.powf(b - 1.0))),
                    _ => {}
                },
                (Op::Binary(op), _) => match op {
                    BinaryOp::Add => pass(mode, to, &r),
                    BinaryOp::Mul => flow(mode, to, &r, |_, a, _| a),
                    BinaryOp::Div | BinaryOp::FloorDiv | BinaryOp::CeilDiv => {
                        flow(mode, to, &r, |_, a, b| -(a / b) / b);
                    }
                    BinaryOp::Mod => flow(mode, to, &r, |_, a, b| -(a / b).floor()),
                    BinaryOp::Min => flow(mode, to, &r, |_, a, b| 1.0 - first_is_min(a, b)),
                    BinaryOp::Max => flow(mode, to, &r, |_, a, b| 1.0 - first_is_max(a, b)),
                    BinaryOp::Pow => flow(mode, to, &r, |v, a, _| if a > 0.0 { v * a.ln() } else { 0.0 }),
                    _ => {}
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every operator once, on slots 0 to 2.
    fn steps() -> Vec<Step> {
        use BinaryOp::*;
        let unary = [UnaryOp::Not, UnaryOp::Log, UnaryOp::Exp, UnaryOp::Sqrt, UnaryOp::Abs].map(Op::Unary);
        let binary = [Add, Mul, Div, FloorDiv, CeilDiv, Mod, Min, Max, Pow, Lt, Le, Eq, Ne, And, Or];
        let ops = unary.into_iter().chain(binary.map(Op::Binary)).chain([Op::Select]);
        ops.zip(3..).map(|(op, to)| Step { op, to, a: 0, b: 1, c: 2 }).collect()
    }

    fn same(a: &[Lanes], b: &[Lanes]) {
        for (k, (a, b)) in a.iter().zip(b).enumerate() {
            for (x, y) in a.0.iter().zip(&b.0) {
                assert!(
                    x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan()),
                    "slot {k}: {x} against {y}"
                );
            }
        }
    }

    #[test]
    fn every_instruction_set_gives_the_same_bits() {
        let steps = steps();
        let slots = 3 + steps.len();
        let mut start = vec![Lanes([0.0; BLOCK]); slots];
        for (k, lanes) in start.iter_mut().take(3).enumerate() {
            for (lane, v) in lanes.0.iter_mut().enumerate() {
                *v = ((lane * (k + 3) * 5) % 17) as f64 * 0.75 - 4.5;
            }
        }
        let back: Vec<Back> = steps
            .iter()
            .map(|s| Back { value: *s, adjoint: *s, flow: [Flow::Add, Flow::Add, Flow::Stop] })
            .collect();
        let mut plain = start.clone();
        forward_any(&steps, &mut plain, &mut [], 1);
        let mut adjoints = start.clone();
        adjoints.iter_mut().skip(3).for_each(|g| g.0.fill(0.625));
        let mut plain_adjoints = adjoints.clone();
        backward_any(&back, &plain, &mut plain_adjoints, &[], 1);

        let (mut chosen, mut chosen_adjoints) = (start.clone(), adjoints.clone());
        forward(&steps, &mut chosen, &mut [], 1);
        backward(&back, &chosen, &mut chosen_adjoints, &[], 1);
        same(&plain, &chosen);
        same(&plain_adjoints, &chosen_adjoints);
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the feature was just found.
            unsafe {
                forward_avx2(&steps, &mut start, &mut [], 1);
                backward_avx2(&back, &start, &mut adjoints, &[], 1);
            }
            same(&plain, &start);
            same(&plain_adjoints, &adjoints);
        }
    }
}
