//! Element types: arithmetic, conversions, rounding, truth values.

mod support;
use support::check;

const EXACT: f64 = 0.0;

fn elementwise(dtype: &str, expression: &str, tolerance: f64) {
    check(
        &format!(
            "nest types {{ input A: {dtype}[37] input B: {dtype}[37] output C: {dtype}[37] output D: {dtype}[37]
               vectorize i in 0..37 {{ C[i] = {expression} }}
               for j in 0..37 {{ D[j] = {} }} }}",
            expression.replace("[i]", "[j]")
        ),
        tolerance,
    );
}

#[test]
fn integers_wrap_and_divide_like_the_interpreter() {
    for dtype in ["i8", "u8", "i32", "i64"] {
        for expression in [
            "A[i] + B[i] * A[i] - B[i]",
            "A[i] / B[i]",
            "A[i] % B[i]",
            "max(A[i], B[i]) - min(A[i], B[i])",
            "abs(A[i]) + neg(B[i])",
            "select(A[i] < B[i], A[i], B[i])",
            "select(A[i] <= B[i] && A[i] != B[i], A[i], B[i])",
            "pow(A[i], B[i])",
        ] {
            elementwise(dtype, expression, EXACT);
        }
        elementwise(dtype, &format!("A[i] / (B[i] - B[i]) + A[i] % {dtype}(0) + A[i] / {dtype}(7)"), EXACT);
    }
    for dtype in ["i8", "i32", "i64"] {
        elementwise(dtype, &format!("A[i] / {dtype}(-1) + A[i] % {dtype}(-1) + A[i] % {dtype}(-3)"), EXACT);
    }
}

#[test]
fn small_floats_round_when_stored() {
    for dtype in ["f16", "bf16"] {
        for expression in ["A[i] * B[i] + A[i]", "A[i] / B[i]", "exp(A[i])", "max(A[i], B[i])", "floor(A[i])"]
        {
            elementwise(dtype, expression, 1e-2);
        }
        elementwise(dtype, "A[i] + B[i]", 1e-3);
        elementwise(dtype, "A[i]", EXACT);
    }
}

#[test]
fn conversions() {
    for (from, to) in [
        ("f32", "i8"),
        ("f32", "u8"),
        ("f32", "i32"),
        ("f32", "i64"),
        ("f32", "bool"),
        ("f32", "f16"),
        ("f32", "bf16"),
        ("f16", "f32"),
        ("bf16", "f32"),
        ("bf16", "f16"),
        ("i8", "f32"),
        ("u8", "f32"),
        ("i32", "f32"),
        ("i64", "f32"),
        ("i8", "i32"),
        ("u8", "i32"),
        ("i32", "i8"),
        ("i64", "u8"),
        ("i8", "i64"),
        ("u8", "i64"),
        ("i32", "bool"),
        ("bool", "f32"),
        ("bool", "i32"),
        ("bool", "u8"),
    ] {
        let scale =
            if from.starts_with('f') || from == "bf16" { format!(" * {from}(300)") } else { String::new() };
        check(
            &format!(
                "nest cast {{ input A: {from}[45] output C: {to}[45] output D: {to}[45]
                   vectorize i in 0..45 {{ C[i] = cast.{to}(A[i]{scale}) }}
                   for j in 0..45 {{ D[j] = cast.{to}(A[j]{scale}) }} }}"
            ),
            1e-2 * f64::from(u8::from(to == "f16" || to == "bf16")),
        );
    }
}

#[test]
fn saturating_conversions_of_extremes() {
    check(
        "nest extremes { output C: i8[4] output D: i32[4] output E: u8[4] output F: i64[4]
           C[0] = cast.i8(inf) C[1] = cast.i8(-inf) C[2] = cast.i8(nan) C[3] = cast.i8(-128.9)
           D[0] = cast.i32(inf) D[1] = cast.i32(-inf) D[2] = cast.i32(nan) D[3] = cast.i32(3e9)
           E[0] = cast.u8(inf) E[1] = cast.u8(-inf) E[2] = cast.u8(nan) E[3] = cast.u8(-1.0)
           F[0] = cast.i64(inf) F[1] = cast.i64(-inf) F[2] = cast.i64(nan) F[3] = cast.i64(-7.9) }",
        EXACT,
    );
}

#[test]
fn truth_values() {
    check(
        "nest truth { input A: f32[50] input B: f32[50] input M: bool[50] output C: bool[50] output D: f32[50]
           vectorize i in 0..50 {
             C[i] = A[i] < B[i] && not(M[i]) || A[i] == B[i]
             D[i] = select(M[i], A[i], select(A[i] != B[i], B[i], 0.0))
           } }",
        EXACT,
    );
}

#[test]
fn indices_as_values() {
    check(
        "nest indices { output C: f32[40] output D: i32[40] output E: i64[40] output M: bool[40]
           for o in 0..2 { vectorize i in 0..20 {
             C[o * 20 + i] = index.f32(o * 20 + i // 3)
             D[o * 20 + i] = index.i32(i % 7 + o - max(i, 5))
             E[o * 20 + i] = index.i64(i * 4000000000 + o)
             M[o * 20 + i] = guard(i < 7 + o)
           } } }",
        EXACT,
    );
}

#[test]
fn integer_reductions() {
    for dtype in ["i8", "u8", "i32", "i64"] {
        check(
            &format!(
                "nest reduce {{ input A: {dtype}[3, 70] output S: {dtype}[3] output P: {dtype}[3]
                   output M: {dtype}[3] output N: {dtype}[3]
                   for i in 0..3 {{
                     S[i] = {dtype}(0) P[i] = {dtype}(1) M[i] = {dtype}(0) N[i] = {dtype}(9)
                     for o in 0..2 {{ vectorize k in 0..35 {{
                       S[i] += A[i, o * 35 + k] P[i] *= A[i, o * 35 + k]
                       M[i] max= A[i, o * 35 + k] N[i] min= A[i, o * 35 + k] }} }}
                   }} }}"
            ),
            EXACT,
        );
    }
}

#[test]
fn small_integers_accumulate_in_wide_ones() {
    check(
        "nest dot { input A: u8[4, 33] input B: i8[33, 32] output C: i32[4, 32]
           unroll i in 0..4 { vectorize j in 0..32 { C[i, j] = i32(0) } }
           for k in 0..33 { unroll i2 in 0..4 { vectorize j2 in 0..32 {
             C[i2, j2] += cast.i32(A[i2, k]) * cast.i32(B[k, j2]) } } } }",
        EXACT,
    );
}

#[test]
fn small_floats_accumulate_in_f32() {
    check(
        "nest dot { input A: f16[4, 33] input B: bf16[33, 20] output C: f32[4, 20]
           unroll i in 0..4 { vectorize j in 0..20 { C[i, j] = 0.0 } }
           for k in 0..33 { unroll i2 in 0..4 { vectorize j2 in 0..20 {
             C[i2, j2] += cast.f32(A[i2, k]) * cast.f32(B[k, j2]) } } } }",
        1e-4,
    );
}
