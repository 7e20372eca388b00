//! The reference executor: what a graph and a program mean, operator by operator and task by task.

use std::collections::BTreeMap;

use talweg_ir::{Array, Dag, InterpError, Source, TensorId, eval_dag};
use talweg_tensor::{ElementType, OpError, Tensor, TensorType, evaluate};

use crate::emit::dtype_of;
use crate::graph::{Graph, ValueId};
use crate::program::{Program, Step, Work};

/// Why a network has no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ReferenceError {
    /// A wrong number of inputs.
    #[error("{found} inputs given, but the network takes {expected}")]
    Arity {
        /// Inputs it takes.
        expected: usize,
        /// Inputs given.
        found: usize,
    },
    /// An input of another type.
    #[error("input `{name}` must be {expected}, but it is {found}")]
    Input {
        /// The input.
        name: String,
        /// Its type.
        expected: TensorType,
        /// The type given.
        found: TensorType,
    },
    /// A value that nothing has computed.
    #[error("`{value}` is read before it is written; the program is wrong")]
    Undefined {
        /// The value.
        value: String,
    },
    /// An operator refused.
    #[error("node `{node}`: {source}")]
    Op {
        /// The node.
        node: String,
        /// Why.
        source: OpError,
    },
    /// A task refused.
    #[error("task `{task}` of `{nodes}`: {source}")]
    Task {
        /// The task.
        task: String,
        /// The nodes it stands for.
        nodes: String,
        /// Why.
        source: Box<InterpError>,
    },
    /// A tensor no kernel can have.
    #[error("`{value}` of type {ty} does not fit a kernel's tensor")]
    Storage {
        /// The value.
        value: String,
        /// Its type.
        ty: TensorType,
    },
}

/// Computes a graph node by node; gives every value that was computed, constants and inputs included.
pub fn run_graph(graph: &Graph, inputs: &[Tensor]) -> Result<BTreeMap<ValueId, Tensor>, ReferenceError> {
    let mut values = begin(graph, inputs)?;
    for node in &graph.nodes {
        let read: Result<Vec<Option<&Tensor>>, ReferenceError> =
            node.inputs.iter().map(|i| i.map(|v| lookup(graph, &values, v)).transpose()).collect();
        let results = evaluate(&node.op, &read?)
            .map_err(|source| ReferenceError::Op { node: node.name.clone(), source })?;
        values.extend(node.outputs.iter().copied().zip(results));
    }
    Ok(values)
}

/// Computes a program step by step: kernels by their tensor expressions, plain steps by their operators.
pub fn run_program(
    program: &Program,
    inputs: &[Tensor],
) -> Result<BTreeMap<ValueId, Tensor>, ReferenceError> {
    let graph = &program.graph;
    let mut values = begin(graph, inputs)?;
    for step in &program.steps {
        let results = run_step(program, step, &values)?;
        values.extend(step.outputs.iter().copied().zip(results));
    }
    Ok(values)
}

/// The outputs of a network among its values.
pub fn outputs(graph: &Graph, values: &BTreeMap<ValueId, Tensor>) -> Result<Vec<Tensor>, ReferenceError> {
    graph.outputs.iter().map(|v| lookup(graph, values, *v).cloned()).collect()
}

fn begin(graph: &Graph, inputs: &[Tensor]) -> Result<BTreeMap<ValueId, Tensor>, ReferenceError> {
    if inputs.len() != graph.inputs.len() {
        return Err(ReferenceError::Arity { expected: graph.inputs.len(), found: inputs.len() });
    }
    let mut values = BTreeMap::new();
    for (at, value) in graph.values.iter().enumerate() {
        if let Some(constant) = &value.constant {
            values.insert(ValueId(at as u32), constant.clone());
        }
    }
    for (id, tensor) in graph.inputs.iter().zip(inputs) {
        if tensor.ty() != graph.ty(*id) {
            return Err(ReferenceError::Input {
                name: graph.value(*id).name.clone(),
                expected: graph.ty(*id).clone(),
                found: tensor.ty().clone(),
            });
        }
        values.insert(*id, tensor.clone());
    }
    Ok(values)
}

fn lookup<'v>(
    graph: &Graph,
    values: &'v BTreeMap<ValueId, Tensor>,
    id: ValueId,
) -> Result<&'v Tensor, ReferenceError> {
    values.get(&id).ok_or_else(|| ReferenceError::Undefined { value: graph.value(id).name.clone() })
}

fn run_step(
    program: &Program,
    step: &Step,
    values: &BTreeMap<ValueId, Tensor>,
) -> Result<Vec<Tensor>, ReferenceError> {
    let graph = &program.graph;
    let read: Result<Vec<Option<&Tensor>>, ReferenceError> =
        step.inputs.iter().map(|i| i.map(|v| lookup(graph, values, v)).transpose()).collect();
    let read = read?;
    match &step.work {
        Work::Plain(op) => {
            evaluate(op, &read).map_err(|source| ReferenceError::Op { node: step.nodes.join("+"), source })
        }
        Work::View => {
            let shapes = step.outputs.iter().map(|o| graph.ty(*o).shape.clone());
            Ok(read.into_iter().flatten().zip(shapes).map(|(t, shape)| t.reshaped(shape)).collect())
        }
        Work::Kernel(task) => {
            let dag = &program.tasks[*task].dag;
            let mut arrays = Vec::new();
            for (id, tensor) in given_tensors(dag).into_iter().zip(read.into_iter().flatten()) {
                let shape = dag.tensor(id).const_shape().unwrap_or_default();
                let array = to_array(tensor, &shape).ok_or_else(|| ReferenceError::Storage {
                    value: dag.tensor(id).name.clone(),
                    ty: tensor.ty().clone(),
                })?;
                arrays.push((id, array));
            }
            let results = eval_dag(dag, &arrays).map_err(|source| ReferenceError::Task {
                task: dag.name.clone(),
                nodes: step.nodes.join("+"),
                source: Box::new(source),
            })?;
            let pairs = results.into_iter().zip(&step.outputs);
            pairs.map(|((_, array), value)| from_array(&array, graph, *value)).collect()
        }
    }
}

/// The tensors of a task that a step binds, in order.
pub fn given_tensors(dag: &Dag) -> Vec<TensorId> {
    dag.ids().filter(|id| !matches!(dag.tensor(*id).source, Source::Compute(_))).collect()
}

/// A tensor as an array of the same elements under a kernel's shape.
fn to_array(tensor: &Tensor, shape: &[i64]) -> Option<Array> {
    let dtype = dtype_of(tensor.element())?;
    let shape: Vec<usize> = shape.iter().map(|e| *e as usize).collect();
    let mut array = Array::try_zeros(dtype, &shape).ok()?;
    if array.bytes().len() != tensor.bytes().len() {
        return None;
    }
    array.bytes_mut().copy_from_slice(tensor.bytes());
    Some(array)
}

fn from_array(array: &Array, graph: &Graph, value: ValueId) -> Result<Tensor, ReferenceError> {
    let ty = graph.ty(value);
    let storage = || ReferenceError::Storage { value: graph.value(value).name.clone(), ty: ty.clone() };
    if dtype_of(ty.element) != Some(array.dtype()) {
        return Err(storage());
    }
    let bytes = bytes::Bytes::copy_from_slice(array.bytes());
    Tensor::from_bytes(ty.element, ty.shape.clone(), bytes).map_err(|_| storage())
}

/// The largest difference of two tensors relative to the larger scale; infinite when their types differ, or when one
/// has a NaN or an infinity where the other does not.
pub fn difference(expected: &Tensor, found: &Tensor) -> f64 {
    if expected.ty() != found.ty() {
        return f64::INFINITY;
    }
    if expected.element() == ElementType::I64 {
        return if expected.to_i64() == found.to_i64() { 0.0 } else { f64::INFINITY };
    }
    let (expected, found) = (expected.to_f64(), found.to_f64());
    let scale = expected.iter().filter(|v| v.is_finite()).fold(1e-6, |m: f64, v| m.max(v.abs()));
    let mut worst: f64 = 0.0;
    for (e, f) in expected.into_iter().zip(found) {
        if e == f || (e.is_nan() && f.is_nan()) {
            continue;
        }
        let error = (e - f).abs() / scale;
        worst = if error.is_finite() { worst.max(error) } else { f64::INFINITY };
    }
    worst
}
