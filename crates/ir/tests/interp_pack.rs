//! Packs against a copy of one element at a time.

use proptest::prelude::*;
use talweg_expr::{Expr, Symbol};
use talweg_ir::{Array, Buffer, DType, InterpError, Nest, Pack, Role, TensorId, run_pack, run_pack_into};

const SOURCE: TensorId = TensorId(0);
const PACKED: TensorId = TensorId(1);

/// A nest with one pack; each index is (constant, coefficients of the axes).
fn packing(dtype: DType, source: &[i64], packed: &[i64], indices: &[(i64, Vec<i64>)]) -> Nest {
    let extents = |shape: &[i64]| shape.iter().map(|e| Expr::int(*e)).collect();
    let axes: Vec<Symbol> = (0..packed.len()).map(|a| Symbol::var(format!("a{a}"))).collect();
    let index = |(constant, coefficients): &(i64, Vec<i64>)| {
        axes.iter().zip(coefficients).fold(Expr::int(*constant), |sum, (a, c)| sum + Expr::sym(a) * *c)
    };
    let indices = indices.iter().map(index).collect();
    Nest {
        name: "packing".into(),
        buffers: vec![
            Buffer { name: "w".into(), dtype, shape: extents(source), role: Role::Const },
            Buffer { name: "p".into(), dtype, shape: extents(packed), role: Role::Packed },
        ],
        packs: vec![Pack { packed: PACKED, source: SOURCE, axes, indices }],
        body: vec![],
    }
}

fn one_by_one(nest: &Nest, source: &Array) -> Array {
    let pack = &nest.packs[0];
    let shape: Vec<usize> = nest.buffer(PACKED).shape.iter().map(|e| e.as_int().unwrap() as usize).collect();
    let mut out = Array::zeros(source.dtype(), &shape);
    for at in 0..out.len() {
        let point = out.indices(at);
        let value = |s: &Symbol| pack.axes.iter().position(|a| a == s).map(|p| point[p] as i64);
        let index: Vec<i64> = pack.indices.iter().map(|e| e.eval(&value).unwrap()).collect();
        let inside = index.iter().zip(source.shape()).all(|(i, e)| (0..*e as i64).contains(i));
        if inside {
            let flat = index.iter().zip(source.shape()).fold(0, |sum, (i, e)| sum * e + *i as usize);
            if source.dtype().is_float() {
                out.set_f64(at, source.get_f64(flat));
            } else {
                out.set_i64(at, source.get_i64(flat));
            }
        }
    }
    out
}

#[test]
fn blocked_weights_with_a_tail() {
    // w[5, 6] laid out as p[n / 4][k][n % 4], columns 6 and 7 zero.
    let nest = packing(DType::F32, &[5, 6], &[2, 5, 4], &[(0, vec![0, 1, 0]), (0, vec![4, 0, 1])]);
    let w = Array::random(DType::F32, &[5, 6], 1);
    let p = run_pack(&nest, &nest.packs[0], &w).unwrap();
    assert_eq!(p, one_by_one(&nest, &w));
    let values = p.as_f32().unwrap();
    let mut bytes = vec![0; p.bytes().len()];
    run_pack_into(&nest, &nest.packs[0], &w, &mut bytes).unwrap();
    assert_eq!(bytes, p.bytes());
    let short = run_pack_into(&nest, &nest.packs[0], &w, &mut bytes[4..]).unwrap_err();
    assert!(short.to_string().contains("which is not its shape"), "{short}");
    assert_eq!(values[20..24], [w.as_f32().unwrap()[4], w.as_f32().unwrap()[5], 0.0, 0.0]);
}

#[test]
fn scalars_and_empty_packs() {
    let nest = packing(DType::I64, &[3], &[], &[(2, vec![])]);
    let w = Array::from_i64(DType::I64, &[3], &[7, 8, 9]).unwrap();
    assert_eq!(run_pack(&nest, &nest.packs[0], &w).unwrap().get_i64(0), 9);
    let nest = packing(DType::I64, &[3], &[4, 0], &[(0, vec![1, 1])]);
    assert!(run_pack(&nest, &nest.packs[0], &w).unwrap().is_empty());
}

#[test]
fn bad_packs_are_errors() {
    let mut nest = packing(DType::F32, &[8], &[8], &[(0, vec![1])]);
    let w = Array::zeros(DType::F32, &[8]);
    nest.packs[0].indices[0] = Expr::var("a0").floor_div(2);
    let e = run_pack(&nest, &nest.packs[0], &w).unwrap_err();
    assert!(e.to_string().contains("not affine"), "{e}");
    nest.packs[0].indices[0] = Expr::knob("t");
    assert!(run_pack(&nest, &nest.packs[0], &w).is_err());
    let e = run_pack(&nest, &nest.packs[0], &Array::zeros(DType::F32, &[9])).unwrap_err();
    assert!(matches!(e, InterpError::WrongArgument { .. }), "{e}");
    nest.packs[0].axes.clear();
    assert!(matches!(run_pack(&nest, &nest.packs[0], &w), Err(InterpError::BadAccess { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_affine_pack(
        dtype in proptest::sample::select(DType::ALL.to_vec()),
        source in proptest::collection::vec(1i64..6, 1..4),
        packed in proptest::collection::vec(1i64..6, 1..4),
        numbers in proptest::collection::vec(-3i64..5, 12),
        seed in 0u64..100,
    ) {
        let indices: Vec<(i64, Vec<i64>)> = (0..source.len())
            .map(|d| (numbers[d], (0..packed.len()).map(|a| numbers[3 + d * 3 + a]).collect()))
            .collect();
        let nest = packing(dtype, &source, &packed, &indices);
        let shape: Vec<usize> = source.iter().map(|e| *e as usize).collect();
        let w = Array::random(dtype, &shape, seed);
        prop_assert_eq!(run_pack(&nest, &nest.packs[0], &w).unwrap(), one_by_one(&nest, &w));
    }
}
