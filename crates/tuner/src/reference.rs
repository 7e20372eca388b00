//! The data a task's candidates run on, and what they must compute.

use talweg_ir::{Array, DType, Dag, EvalOptions, InterpError, Source, TensorId, compare, eval_dag_with};
use talweg_measure::{Task, TaskError};

use crate::slice::{slice, slice_array};

/// Why there is no reference.
#[derive(Debug, thiserror::Error)]
pub enum ReferenceError {
    /// The reference interpreter cannot evaluate the DAG.
    #[error("the reference interpreter fails: {0}")]
    Interpreter(#[from] InterpError),
    /// The arrays do not fit into shared memory.
    #[error("{0}")]
    Task(#[from] TaskError),
}

/// Random arrays for a DAG's inputs and constants; the same for the same DAG.
pub fn random_inputs(dag: &Dag) -> Vec<(TensorId, Array)> {
    let given = dag.ids().filter(|id| !matches!(dag.tensor(*id).source, Source::Compute(_)));
    let random = |id: TensorId| {
        let t = dag.tensor(id);
        let shape: Vec<usize> = t.const_shape().unwrap_or_default().iter().map(|e| *e as usize).collect();
        (id, Array::random(t.dtype, &shape, u64::from(id.0) + 1))
    };
    given.map(random).collect()
}

/// Inputs and reference outputs of a DAG in shared memory.
pub fn reference_task(dag: &Dag, tolerance: f64) -> Result<Task, ReferenceError> {
    let inputs = random_inputs(dag);
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let outputs = eval_dag_with(dag, &inputs, &EvalOptions { threads })?;
    Ok(named_task(dag, &inputs, &outputs, tolerance)?)
}

/// A DAG with more operations than this is not interpreted as a whole: see [`checked_by_parts`].
pub const EXPENSIVE: f64 = 5e8;

/// Whether outputs of an expensive DAG are right, as far as the interpreter says at the first, the middle and the last
/// position of the longest axis of each; everything else at these positions is computed, tails of other axes included.
/// `None` if the DAG cannot be computed by parts.
pub fn checked_by_parts(
    dag: &Dag,
    inputs: &[(TensorId, Array)],
    outputs: &[(TensorId, Array)],
    tolerance: f64,
) -> Option<bool> {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    for (id, got) in outputs {
        let mut axes: Vec<usize> = (0..got.shape().len()).collect();
        axes.sort_by_key(|axis| std::cmp::Reverse(got.shape()[*axis]));
        let axis = *axes.iter().find(|axis| slice(dag, *id, **axis, 0).is_some())?;
        let extent = got.shape()[axis];
        for at in [0, extent / 2, extent - 1] {
            let part = slice(dag, *id, axis, at as i64)?;
            let values = eval_dag_with(&part, inputs, &EvalOptions { threads }).ok()?;
            let (_, expected) = values.into_iter().find(|(found, _)| found == id)?;
            if !compare(&expected, &slice_array(got, axis, at)?).within(tolerance) {
                return Some(false);
            }
        }
    }
    Some(true)
}

/// A task of these inputs and outputs, by the names they have in the DAG.
pub fn named_task(
    dag: &Dag,
    inputs: &[(TensorId, Array)],
    outputs: &[(TensorId, Array)],
    tolerance: f64,
) -> Result<Task, TaskError> {
    fn named<'a>(dag: &'a Dag, arrays: &'a [(TensorId, Array)]) -> Vec<(&'a str, &'a Array)> {
        arrays.iter().map(|(id, a)| (dag.tensor(*id).name.as_str(), a)).collect()
    }
    Task::new(&named(dag, inputs), &named(dag, outputs), tolerance)
}

/// The relative error that reordering a float computation may cause: it grows with the root of the longest
/// reduction, on top of some units for math functions and epilogues. Integers must be exact.
pub fn tolerance(dag: &Dag) -> f64 {
    let unit = dag.tensors.iter().filter(|t| t.output).map(|t| match t.dtype {
        DType::F16 => 2f64.powi(-11),
        DType::BF16 => 2f64.powi(-8),
        _ => 2f64.powi(-24),
    });
    let depth = dag
        .tensors
        .iter()
        .filter_map(|t| t.compute())
        .map(|c| c.reduce_axes().iter().map(|a| a.extent.as_int().unwrap_or(1) as f64).product::<f64>());
    unit.fold(0.0, f64::max) * 32.0 + 2f64.powi(-24) * 8.0 * depth.fold(1.0, f64::max).sqrt()
}
