//! The machine code of register tiles: the innermost loop holds the multiply-adds, the loads they need, and nothing
//! else worth mentioning.

mod support;

use support::nest;
use talweg_codegen::{Options, emit_asm};
use talweg_target::Target;

/// The lines of the innermost loop with the most multiply-adds.
fn inner_loop(asm: &str, fma: &str) -> Vec<String> {
    let mut best = Vec::new();
    let mut block: Vec<String> = Vec::new();
    for line in asm.lines() {
        let line = line.trim();
        if line.starts_with(".LBB") {
            block.clear();
        } else if !line.is_empty()
            && !line.starts_with('.')
            && !line.starts_with('#')
            && !line.starts_with("//")
        {
            block.push(line.to_string());
        }
        let count = |b: &[String]| b.iter().filter(|l| l.starts_with(fma)).count();
        let jump = line.starts_with('j') || line.starts_with("b.") || line.starts_with("cb");
        if jump && count(&block) > count(&best) {
            best = block.clone();
        }
    }
    best
}

fn tile(rows: usize, columns: usize, accumulators: &str) -> String {
    let (declare, alloc, acc) = match accumulators {
        "local" => (format!("local L: f32[{rows}, {columns}]"), "alloc L", "L[r"),
        _ => (String::new(), "", "C[i * R + r"),
    };
    let at = |n: usize| format!("{acc}{n}, c{n}]").replace('R', &rows.to_string());
    let finish = if accumulators == "local" {
        format!(
            "unroll r3 in 0..{rows} {{ vectorize c3 in 0..{columns} {{ C[i * {rows} + r3, c3] = L[r3, c3] }} }}"
        )
    } else {
        String::new()
    };
    format!(
        "nest tile {{ input A: f32[{m}, 100] packed P: f32[100, {columns}] output C: f32[{m}, {columns}] {declare}
           for i in 0..4 {{
             {alloc}
             unroll r1 in 0..{rows} {{ vectorize c1 in 0..{columns} {{ {} = 0.0 }} }}
             for k in 0..100 {{
               unroll r2 in 0..{rows} {{ vectorize c2 in 0..{columns} {{ {} += A[i * {rows} + r2, k] * P[k, c2] }} }}
             }}
             {finish}
           }} }}",
        at(1),
        at(2),
        m = rows * 4,
    )
}

#[test]
fn tiles_stay_in_registers() {
    for (name, rows, columns, lanes, fma, stack) in [
        ("avx512", 6, 64, 16, "vfmadd", "%rsp"),
        ("avx512", 14, 32, 16, "vfmadd", "%rsp"),
        ("avx2", 6, 16, 8, "vfmadd", "%rsp"),
        ("neon", 6, 16, 4, "fmla", "sp"),
    ] {
        let target = Target::named(name).expect("a known name");
        for accumulators in ["local", "memory"] {
            let nest = nest(&tile(rows, columns, accumulators));
            let asm = emit_asm(&nest, &target, &Options::default()).expect("compiles");
            let body = inner_loop(&asm, fma);
            let count = |what: &str| body.iter().filter(|l| l.starts_with(what)).count();
            let place = format!("{name}, {accumulators}:\n{}", body.join("\n"));
            assert_eq!(count(fma), rows * columns / lanes, "{place}");
            assert!(!body.iter().any(|l| l.contains(stack)), "spills on {place}");
            assert!(body.len() <= count(fma) + rows + columns / lanes + 8, "too long on {place}");
        }
    }
}

#[test]
fn repeated_updates_store_once() {
    let nest = nest(
        "nest taps { input A: f32[40, 16] packed W: f32[5, 16] output C: f32[36, 16]
           for x in 0..36 {
             vectorize c in 0..16 { C[x, c] = 0.0 }
             unroll k in 0..5 { vectorize c2 in 0..16 { C[x, c2] += A[x + k, c2] * W[k, c2] } }
           } }",
    );
    let target = Target::named("avx512").expect("a known name");
    let body = inner_loop(&emit_asm(&nest, &target, &Options::default()).expect("compiles"), "vfmadd");
    let stores = body.iter().filter(|l| l.starts_with("vmovups") && l.ends_with(')')).count();
    assert_eq!(stores, 1, "{}", body.join("\n"));
    let loads = body.iter().filter(|l| l.contains("(%r")).count() - stores;
    assert_eq!(loads, 5, "the weights stay in registers:\n{}", body.join("\n"));
}
