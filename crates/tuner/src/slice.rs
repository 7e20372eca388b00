//! A part of a DAG: what it computes at one value of one axis of its output.
//!
//! The reference interpreter takes seconds for a large convolution, and milliseconds for one row of it.
//!
//! ```text
//! C[d, h, c] = sum[k] P[d + k, h] * W[k, c]         C[d, 0, c] = sum[k] P[d + k, 7] * W[k, c]
//! O[d, h, c] = max(C[d, h, c] + B[c], 0)      ->    O[d, 0, c] = max(C[d, 0, c] + B[c], 0)
//! ```
//!
//! A tensor that is read at anything but the axis itself, such as `P`, is computed whole.

use std::collections::BTreeMap;

use talweg_expr::Expr;
use talweg_ir::{Array, Compute, Dag, Source, TensorId};

/// The DAG of an output's elements at position `at` of axis `axis`, whose extent becomes one. `None` if the output has
/// no such axis, or if one of its reductions would still be computed whole.
pub fn slice(dag: &Dag, output: TensorId, axis: usize, at: i64) -> Option<Dag> {
    let mut sliced: BTreeMap<TensorId, usize> = BTreeMap::new();
    let extent = dag.tensor(output).const_shape()?.get(axis).copied()?;
    if !(0..extent).contains(&at) {
        return None;
    }
    sliced.insert(output, axis);
    let ids: Vec<TensorId> = dag.ids().collect();
    for &id in ids.iter().rev() {
        if id != output
            && dag.tensor(id).compute().is_some()
            && let Some(position) = common_position(dag, id, &sliced)
            && dag.tensor(id).const_shape()?.get(position) == Some(&extent)
            && !dag.tensor(id).output
        {
            sliced.insert(id, position);
        }
    }
    let is_whole = |id: &TensorId| {
        let reduces = dag.tensor(*id).compute().is_some_and(|c| c.reduction.is_some());
        reduces && !sliced.contains_key(id)
    };
    if ids.iter().any(is_whole) {
        return None;
    }
    let mut out = dag.clone();
    for (id, position) in &sliced {
        let tensor = &mut out.tensors[id.index()];
        tensor.shape[*position] = Expr::int(1);
        if let Source::Compute(compute) = &mut tensor.source {
            *compute = slice_compute(compute, *position, at, &sliced);
        }
    }
    Some(out)
}

/// The dimension of a tensor that all its readers index by the axis they are sliced at.
fn common_position(dag: &Dag, id: TensorId, sliced: &BTreeMap<TensorId, usize>) -> Option<usize> {
    let mut common = None;
    for reader in dag.consumers(id) {
        let compute = dag.tensor(reader).compute()?;
        let symbol = &compute.axes.get(*sliced.get(&reader)?)?.symbol;
        for (_, indices) in compute.body.reads().iter().filter(|(read, _)| *read == id) {
            let position = indices.iter().position(|index| index.as_sym() == Some(symbol))?;
            // The axis must not move along another dimension as well.
            let elsewhere =
                indices.iter().enumerate().any(|(q, e)| q != position && e.symbols().contains(symbol));
            if elsewhere || common.is_some_and(|known| known != position) {
                return None;
            }
            common = Some(position);
        }
    }
    common
}

fn slice_compute(compute: &Compute, axis: usize, at: i64, sliced: &BTreeMap<TensorId, usize>) -> Compute {
    let mut out = compute.clone();
    let symbol = compute.axes[axis].symbol.clone();
    out.axes[axis].extent = Expr::int(1);
    let by = |s: &talweg_expr::Symbol| (*s == symbol).then(|| Expr::int(at));
    out.body = compute.body.map(&mut |index| index.subst(&by), &mut |id, mut indices| {
        if let Some(position) = sliced.get(&id) {
            indices[*position] = Expr::int(0);
        }
        talweg_ir::Scalar::Read(id, indices)
    });
    out
}

/// The elements of an array at position `at` of axis `axis`.
pub fn slice_array(array: &Array, axis: usize, at: usize) -> Option<Array> {
    let mut shape = array.shape().to_vec();
    let extent = *shape.get(axis)?;
    let inner: usize = shape[axis + 1..].iter().product::<usize>() * array.dtype().bytes();
    shape[axis] = 1;
    let mut out = Array::try_zeros(array.dtype(), &shape).ok()?;
    if inner == 0 || at >= extent {
        return None;
    }
    for (to, from) in out.bytes_mut().chunks_mut(inner).zip(array.bytes().chunks(inner * extent)) {
        to.copy_from_slice(&from[at * inner..(at + 1) * inner]);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use talweg_ir::{EvalOptions, eval_dag_with};
    use talweg_ops::Spec;

    use super::*;
    use crate::reference::random_inputs;

    #[test]
    fn a_slice_is_what_the_whole_has_there() {
        let options = EvalOptions { threads: 1 };
        for (spec, axis) in [
            ("conv2d:h=9,w=7,c=5,f=6,k=3,p=1,epilogue=bias+relu", 1),
            ("conv2d:h=9,w=7,c=5,f=6,k=3,p=1,epilogue=bias+relu", 3),
            ("matmul:m=7,n=5,k=4,epilogue=bias+relu", 0),
            ("bmm:b=3,m=4,n=5,k=6", 0),
        ] {
            let dag = Spec::parse(spec).expect("an operator").build().expect("a program");
            let inputs = random_inputs(&dag);
            let (output, whole) = eval_dag_with(&dag, &inputs, &options).expect("values").remove(0);
            let extent = whole.shape()[axis];
            for at in [0, extent / 2, extent - 1] {
                let part = slice(&dag, output, axis, at as i64).unwrap_or_else(|| panic!("{spec}: no slice"));
                let found = eval_dag_with(&part, &inputs, &options).expect("values").remove(0).1;
                assert_eq!(found, slice_array(&whole, axis, at).expect("a slice"), "{spec} at {at}");
            }
            assert!(
                slice(&dag, output, axis, extent as i64).is_none() && slice(&dag, output, 9, 0).is_none()
            );
        }
    }

    #[test]
    fn what_needs_the_whole_axis_is_not_sliced() {
        let dag = Spec::parse("softmax:rows=4,n=8").expect("an operator").build().expect("a program");
        let output = dag.ids().find(|id| dag.tensor(*id).output).expect("an output");
        assert!(slice(&dag, output, 1, 0).is_none());
        assert!(slice(&dag, output, 0, 3).is_some());
    }
}
