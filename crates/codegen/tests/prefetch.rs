//! Panels of packed constants are fetched ahead exactly where rows pass over them repeatedly.

mod support;

use support::{check_nest, nest};
use talweg_codegen::{Options, emit_asm};
use talweg_target::Target;

/// A product of `rows` tiles of four rows by `panels` panels of 32 columns.
fn product(rows: usize, panels: usize, depth: usize) -> String {
    let (m, n) = (rows * 4, panels * 32);
    format!(
        "nest product {{
           input A: f32[{m}, {depth}] const B: f32[{depth}, {n}] output C: f32[{m}, {n}]
           packed P: f32[{panels}, {depth}, 32]
           local L: f32[4, 32]
           pack P[p, k, l] = B[k, p * 32 + l]
           parallel j in 0..{panels} {{ for i in 0..{rows} {{
             alloc L
             unroll r in 0..4 {{ vectorize c in 0..32 {{ L[r, c] = 0.0 }} }}
             for k in 0..{depth} {{
               unroll r2 in 0..4 {{ vectorize c2 in 0..32 {{ L[r2, c2] += A[i * 4 + r2, k] * P[j, k, c2] }} }}
             }}
             unroll r3 in 0..4 {{ vectorize c3 in 0..32 {{ C[i * 4 + r3, j * 32 + c3] = L[r3, c3] }} }}
           }} }}
         }}"
    )
}

fn prefetches(text: &str, target: &str, mnemonic: &str) -> usize {
    let target = Target::named(target).expect("a known name");
    let asm = emit_asm(&nest(text), &target, &Options::default()).expect("compiles");
    asm.lines().filter(|l| l.trim().starts_with(mnemonic)).count()
}

#[test]
fn the_next_panel_is_fetched_in_shares() {
    for (target, mnemonic) in [("avx512", "prefetcht1"), ("avx2", "prefetcht1"), ("neon", "prfm")] {
        assert_eq!(prefetches(&product(8, 12, 200), target, mnemonic), 1, "eight passes on {target}");
    }
    assert_eq!(prefetches(&product(1, 12, 200), "avx512", "prefetch"), 0, "one pass has nothing to share");
    assert_eq!(prefetches(&product(8, 2, 100), "avx512", "prefetch"), 0, "small constants stay cached");
}

#[test]
fn fetching_behind_the_last_panel_changes_nothing() {
    for (rows, panels, depth) in [(2, 6, 200), (8, 12, 100), (40, 5, 210)] {
        check_nest(&nest(&product(rows, panels, depth)), 1e-4, 2);
    }
}
