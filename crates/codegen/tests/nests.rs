//! Each feature of the emitter against the interpreter.

mod support;
use support::check;

const EXACT: f64 = 1e-6;
const SUMS: f64 = 1e-4;

#[test]
fn elementwise_with_every_tail() {
    for n in [1, 2, 3, 5, 7, 8, 13, 16, 17, 20, 31, 33, 64, 67] {
        check(
            &format!(
                "nest add {{ input A: f32[{n}] input B: f32[{n}] output C: f32[{n}]
                   vectorize i in 0..{n} {{ C[i] = A[i] * 2.0 + B[i] }} }}"
            ),
            EXACT,
        );
    }
}

#[test]
fn register_tile_in_a_local() {
    check(
        "nest tile { input A: f32[12, 40] input B: f32[40, 64] output C: f32[12, 64] local acc: f32[6, 64]
           for i in 0..2 {
             alloc acc
             unroll r in 0..6 { vectorize c in 0..64 { acc[r, c] = 0.0 } }
             for k in 0..40 {
               unroll r2 in 0..6 { vectorize c2 in 0..64 { acc[r2, c2] += A[i * 6 + r2, k] * B[k, c2] } }
             }
             unroll r3 in 0..6 { vectorize c3 in 0..64 { C[i * 6 + r3, c3] = max(acc[r3, c3], 0.0) } }
           } }",
        SUMS,
    );
}

#[test]
fn accumulators_in_memory() {
    check(
        "nest conv { input A: f32[10, 12, 8] input W: f32[3, 3, 8, 20] output C: f32[8, 10, 20]
           for y in 0..8 { for x in 0..5 {
             unroll u in 0..2 { vectorize f in 0..20 { C[y, x * 2 + u, f] = 0.5 } }
             for kh in 0..3 { for kw in 0..3 { for c in 0..8 {
               unroll u2 in 0..2 { vectorize f2 in 0..20 {
                 C[y, x * 2 + u2, f2] += A[y + kh, x * 2 + u2 + kw, c] * W[kh, kw, c, f2] } }
             } } }
           } } }",
        SUMS,
    );
}

#[test]
fn local_with_an_epilogue_loop_stays_in_memory() {
    check(
        "nest tile { input A: f32[4, 40] input B: f32[40, 32] output C: f32[4, 32] local acc: f32[4, 32]
           alloc acc
           for r in 0..4 { vectorize c in 0..32 { acc[r, c] = 0.0 } }
           for k in 0..40 {
             unroll r2 in 0..4 { vectorize c2 in 0..32 { acc[r2, c2] += A[r2, k] * B[k, c2] } }
           }
           for r3 in 0..4 { vectorize c3 in 0..32 { C[r3, c3] = abs(acc[r3, c3]) } } }",
        SUMS,
    );
}

#[test]
fn lanes_are_combined() {
    for n in [3, 16, 37, 64, 100] {
        check(
            &format!(
                "nest rows {{ input A: f32[5, {n}] output S: f32[5] output M: f32[5]
                   for i in 0..5 {{
                     S[i] = 1.0
                     M[i] = -inf
                     vectorize k in 0..{n} {{ S[i] += A[i, k] * A[i, k] M[i] max= A[i, k] }}
                   }} }}"
            ),
            SUMS,
        );
    }
}

#[test]
fn lanes_are_combined_over_a_serial_loop() {
    check(
        "nest rows { input A: f32[5, 8, 4, 24] output S: f32[5] local T: f32[1]
           for i in 0..5 {
             alloc T
             T[0] = 2.0
             for o in 0..8 { unroll u in 0..4 { vectorize k in 0..24 { T[0] += A[i, o, u, k] } } }
             S[i] = T[0]
           } }",
        SUMS,
    );
}

#[test]
fn short_reductions_do_several_iterations_at_once() {
    for n in [1, 2, 4, 7, 9, 11, 12, 64] {
        check(
            &format!(
                "nest rows {{ input A: f32[3, {n}, 16] output S: f32[3] output M: f32[3]
                   for i in 0..3 {{
                     S[i] = 0.0
                     M[i] = -inf
                     for o in 0..{n} {{ vectorize k in 0..16 {{ S[i] += A[i, o, k] * A[i, o // 2, k] M[i] max= A[i, o, k] }} }}
                   }} }}"
            ),
            SUMS,
        );
    }
}

#[test]
fn empty_and_clipped_loops() {
    check(
        "nest clip { input A: f32[9, 9] output C: f32[9]
           for i in 0..9 {
             C[i] = 0.0
             for k in 0..min(4, 6 - i) { C[i] += A[i, k] }
             for z in 0..i - 8 { C[i] = 5.0 }
           } }",
        SUMS,
    );
}

#[test]
fn branches_keep_registers() {
    check(
        "nest branch { input A: f32[7, 16] output C: f32[16] local acc: f32[16]
           alloc acc
           vectorize c in 0..16 { acc[c] = 0.0 }
           for k in 0..7 {
             if k % 2 == 0 { vectorize c2 in 0..16 { acc[c2] += A[k, c2] } }
             else { if k == 3 { vectorize c3 in 0..16 { acc[c3] = acc[c3] * 2.0 } } }
           }
           vectorize c4 in 0..16 { C[c4] = acc[c4] } }",
        SUMS,
    );
}

#[test]
fn padding_is_guarded() {
    check(
        "nest pad { input A: f32[6, 5] output C: f32[10, 9] output D: f32[10, 21]
           for y in 0..10 {
             for x in 0..9 {
               C[y, x] = select(guard(2 <= y && y < 8 && 2 <= x && x < 7), A[y - 2, x - 2], 0.0)
             }
             vectorize v in 0..21 { D[y, v] = select(guard(2 <= y && y < 8 && 3 <= v && v < 8), A[y - 2, v - 3], 1.0) }
           } }",
        EXACT,
    );
}

#[test]
fn guarded_vector_rows() {
    check(
        "nest pad { input A: f32[6, 20] output C: f32[8, 20]
           for y in 0..8 { vectorize x in 0..20 {
             C[y, x] = select(guard(1 <= y && y < 7), A[y - 1, x] * 2.0, -1.0) } } }",
        EXACT,
    );
}

#[test]
fn strided_reversed_and_irregular_lanes() {
    check(
        "nest lanes { input A: f32[100] output C: f32[33] output D: f32[33] output E: f32[33] output F: f32[99] output G: f32[40]
           vectorize i in 0..33 {
             C[i] = A[i * 3 + 1]
             D[i] = A[40 - i]
             E[i] = A[i // 3 + i % 5]
             F[i * 3 + 2] = A[i]
             F[i * 3] = 1.0
             F[i * 3 + 1] = 2.0
           }
           for z in 0..40 { G[z] = 0.0 }
           vectorize j in 0..33 { G[j // 2 + j % 2 * 20] = A[j] } }",
        EXACT,
    );
}

#[test]
fn serial_loops_and_branches_inside_a_vector_loop() {
    check(
        "nest inside { input A: f32[7, 40] output C: f32[40] output D: f32[40]
           vectorize i in 0..40 {
             C[i] = 0.0
             D[i] = 1.0
             for k in 0..7 { C[i] += A[k, i] }
             if i < 21 { D[i] = C[i] }
             for t in 0..i // 16 { D[i] += A[t, i] }
           } }",
        SUMS,
    );
}

#[test]
fn nested_vector_loops() {
    check(
        "nest both { input A: f32[4, 20] output C: f32[4, 20]
           vectorize i in 0..4 { vectorize j in 0..20 { C[i, j] = A[i, j] + index.f32(i * 20 + j) } } }",
        EXACT,
    );
}

#[test]
fn local_inside_a_vector_loop_is_private_to_the_iteration() {
    check(
        "nest private { input A: f32[20] output C: f32[20] local T: f32[1]
           vectorize i in 0..20 { alloc T T[0] = A[i] C[i] = T[0] * 2.0 } }",
        EXACT,
    );
}

#[test]
fn stores_forward_to_loads() {
    check(
        "nest forward { input A: f32[40] output C: f32[40] temp T: f32[41]
           T[40] = 3.0
           for i in 0..40 { T[i] = A[i] T[39] = 1.0 T[i] = T[i] + T[39] C[i] = T[i] * T[40] } }",
        EXACT,
    );
}

#[test]
fn invariant_loads_and_zero_trip_inner_loops() {
    check(
        "nest invariant { input A: f32[6, 32] input B: f32[32] input S: f32[6] output C: f32[6, 32]
           for i in 0..6 {
             for j in 0..2 { vectorize l in 0..16 { C[i, j * 16 + l] = A[i, j * 16 + l] * S[i] + B[l] } }
             for e in 0..i - 4 { C[i, 0] += S[i] }
           } }",
        EXACT,
    );
}
