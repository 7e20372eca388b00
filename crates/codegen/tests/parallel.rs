//! Parallel loops, workspaces, and compiling from several threads.

mod support;
use support::{check_nest, execute, nest, random_arguments, targets};
use talweg_codegen::{CodegenError, Options, compile, emit_asm, emit_llvm};
use talweg_ir::{compare, run_nest};
use talweg_target::Target;

fn check(text: &str) {
    for threads in [1, 2, 3] {
        check_nest(&nest(text), 1e-4, threads);
    }
}

#[test]
fn parallel_matmul_with_locals() {
    check(
        "nest mm { input A: f32[20, 24] const B: f32[24, 48] packed P: f32[3, 24, 16] output C: f32[20, 48]
           local acc: f32[4, 16] local big: f32[16, 24]
           pack P[j, k, c] = B[k, j * 16 + c]
           parallel f in 0..15 {
             alloc acc
             alloc big
             for k0 in 0..24 { for c0 in 0..16 { big[c0, k0] = P[f % 3, k0, c0] } }
             unroll r in 0..4 { vectorize c in 0..16 { acc[r, c] = 0.0 } }
             for k in 0..24 { unroll r2 in 0..4 { vectorize c2 in 0..16 {
               acc[r2, c2] += A[f // 3 * 4 + r2, k] * big[c2, k] } } }
             unroll r3 in 0..4 { vectorize c3 in 0..16 { C[f // 3 * 4 + r3, f % 3 * 16 + c3] = acc[r3, c3] } }
           } }",
    );
}

#[test]
fn temporaries_between_parallel_loops() {
    check(
        "nest two { input A: f32[9, 33] output C: f32[9, 33] temp T: f32[9, 33] temp S: f32[9]
           for o in 0..3 {
             parallel i in 0..3 { S[o * 3 + i] = 0.0 for j in 0..33 { T[o * 3 + i, j] = A[o * 3 + i, j] * 2.0 S[o * 3 + i] += A[o * 3 + i, j] } }
             parallel p in 0..3 { vectorize q in 0..33 { C[o * 3 + p, q] = T[o * 3 + p, q] - S[o * 3 + p] } }
           } }",
    );
}

#[test]
fn clipped_parallel_extents() {
    check(
        "nest clip { input A: f32[10] output C: f32[10]
           for o in 0..4 { parallel i in 0..min(3, 10 - o * 3) { C[o * 3 + i] = A[o * 3 + i] + 1.0 } } }",
    );
}

#[test]
fn compiles_for_targets_that_cannot_run_here() {
    let nest = nest(
        "nest all { input A: f32[6, 67] input H: f16[67] output C: f32[6, 67] output S: f32[6]
           parallel i in 0..6 {
             S[i] = 0.0
             vectorize j in 0..67 { C[i, j] = tanh(A[i, j]) + cast.f32(H[j]) S[i] += exp(A[i, j]) }
           } }",
    );
    let options = Options { verify: true, ..Options::default() };
    for (name, machine) in [("neon", 183), ("avx2", 62), ("avx512", 62)] {
        let target = Target::named(name).expect("a known name");
        let compiled = compile(&nest, &target, &options).expect("compiles");
        assert_eq!(&compiled.object[..4], b"\x7fELF");
        assert_eq!(u16::from_le_bytes([compiled.object[18], compiled.object[19]]), machine, "{name}");
    }
    let neon = Target::named("neon").expect("a known name");
    let asm = emit_asm(&nest, &neon, &options).expect("assembles");
    assert!(asm.contains("fmla"), "{asm}");
    let llvm = emit_llvm(&nest, &neon, &options).expect("emits");
    assert!(llvm.contains("define void @all("), "{llvm}");
}

#[test]
fn two_threads_compile_at_once() {
    let sources: Vec<_> = (1..20)
        .map(|n| {
            nest(&format!(
                "nest k{n} {{ input A: f32[{n}, 40] output C: f32[{n}]
                   for i in 0..{n} {{ C[i] = 0.0 for o in 0..5 {{ vectorize k in 0..8 {{ C[i] += exp(A[i, o * 8 + k]) }} }} }} }}"
            ))
        })
        .collect();
    std::thread::scope(|scope| {
        for part in 0..2 {
            let sources = &sources;
            scope.spawn(move || {
                let target = &targets()[0];
                for nest in sources.iter().skip(part) {
                    let mut expected = random_arguments(nest, 3);
                    let mut got = expected.clone();
                    run_nest(nest, &mut expected).expect("runs");
                    let compiled = compile(nest, target, &Options::default()).expect("compiles");
                    execute(&compiled, &mut got, 1);
                    let d = compare(&expected[1].1, &got[1].1);
                    assert!(d.within(1e-5), "{}: {d}", nest.name);
                }
            });
        }
    });
}

/// Resident memory of this process in bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: usize = statm.split(' ').nth(1).and_then(|p| p.parse().ok()).expect("a number");
    pages * 4096
}

#[test]
fn thousands_of_compilations_do_not_leak() {
    let target = &targets()[0];
    let options = Options { verify: false, ..Options::default() };
    let compile_one = |n: usize| {
        let nest = nest(&format!(
            "nest k{n} {{ input A: f32[16] output C: f32[16] vectorize i in 0..16 {{ C[i] = A[i] * {n}.5 }} }}"
        ));
        let compiled = compile(&nest, target, &options).expect("compiles");
        assert_eq!(compiled.meta.name, format!("k{n}"));
    };
    (0..300).for_each(compile_one);
    let before = resident();
    (300..2300).for_each(compile_one);
    let grown = resident().saturating_sub(before);
    assert!(grown < 24 << 20, "2000 compilations kept {grown} bytes");
}

#[test]
fn explosions_and_open_knobs_are_errors() {
    let target = &targets()[0];
    let huge = nest(
        "nest huge { input A: f32[4096] output C: f32[4096, 4096]
           unroll i in 0..4096 { unroll j in 0..4096 { C[i, j] = A[j] } } }",
    );
    let e = compile(&huge, target, &Options::default()).expect_err("too large");
    assert!(matches!(e, CodegenError::TooLarge { .. }), "{e}");
    assert!(e.to_string().contains("unroll less"), "{e}");
    let open = nest("nest open { output C: f32[$n] for i in 0..$n { C[i] = 1.0 } }");
    let e = compile(&open, target, &Options::default()).expect_err("has a knob");
    assert!(matches!(e, CodegenError::NotConcrete { .. }), "{e}");
    let gpu = nest("nest gpu { output C: f32[4] bind(thread.x) i in 0..4 { C[i] = 1.0 } }");
    let e = compile(&gpu, target, &Options::default()).expect_err("is for a GPU");
    assert!(e.to_string().contains("thread.x"), "{e}");
}
