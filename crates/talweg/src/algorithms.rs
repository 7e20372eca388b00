//! Which algorithm each convolution of a network uses: by measured times where tuning has some, by an estimate where it
//! has none, and never one whose expected error is above what the user accepts.

use talweg_graph::{Algorithm, Fork, Way};
use talweg_ir::{Dag, Source, Tensor};
use talweg_target::Target;

/// The error of a single convolution, relative to the scale of its result, that is accepted unless the user says
/// otherwise.
pub const DEFAULT_MAX_ERROR: f64 = 1e-4;

/// Share of the peak that contractions of the direct algorithm reach by the default schedule.
const DIRECT_EFFICIENCY: f64 = 0.7;
/// Share of the peak that the products of transformed tiles reach.
const PRODUCT_EFFICIENCY: f64 = 0.65;
/// Bytes that a core moves per cycle where the data of a stage does not stay in its second cache level.
const FAR_BYTES: f64 = 4.0;
/// Bytes that a core moves per cycle within its second cache level.
const NEAR_BYTES: f64 = 16.0;
/// An algorithm replaces the direct one only when it is estimated to take this share of its time or less.
const WORTHWHILE: f64 = 0.9;

/// The position of the fastest way whose error is accepted. `seconds` knows the measured times of tasks; ways that were
/// not measured are judged by their estimate, scaled by how far the direct way's measurement is from its own.
pub fn pick(fork: &Fork, target: &Target, max_error: f64, seconds: &dyn Fn(&Way) -> Option<f64>) -> usize {
    let Some(direct) = fork.ways.first() else { return 0 };
    let measured = seconds(direct);
    let scale = measured.map_or(1.0, |s| s / estimate(direct, target));
    let mut best = (0, measured.unwrap_or_else(|| estimate(direct, target)));
    for (at, way) in fork.ways.iter().enumerate().skip(1) {
        if way.algorithm.expected_error() > max_error {
            continue;
        }
        let time = match (measured, seconds(way)) {
            (Some(_), Some(own)) => own,
            _ => estimate(way, target) * scale / WORTHWHILE,
        };
        if time < best.1 {
            best = (at, time);
        }
    }
    best.0
}

/// Cycles of one core that a way takes, for comparisons among the ways of one step: multiply-adds at a share of the
/// peak, and what passes through memory between the stages.
pub fn estimate(way: &Way, target: &Target) -> f64 {
    let dag = &way.task.dag;
    let lanes = f64::from(target.vector_bits) / 32.0;
    let compute = multiply_adds(dag) / (lanes * f64::from(target.fma_ports.max(1)));
    match way.algorithm {
        Algorithm::Direct => compute / DIRECT_EFFICIENCY + weight_bytes(dag) / FAR_BYTES,
        Algorithm::Winograd { .. } => {
            let between = between_bytes(dag);
            let speed = if between < target.l2 as f64 { NEAR_BYTES } else { FAR_BYTES };
            compute / PRODUCT_EFFICIENCY + 2.0 * between / speed + weight_bytes(dag) / FAR_BYTES
        }
    }
}

fn bytes(tensor: &Tensor) -> f64 {
    let elements: f64 = tensor.const_shape().unwrap_or_default().iter().map(|e| *e as f64).product();
    elements * tensor.dtype.bytes() as f64
}

/// Steps of all reductions.
fn multiply_adds(dag: &Dag) -> f64 {
    let computes = dag.tensors.iter().filter_map(Tensor::compute).filter(|c| c.reduction.is_some());
    let points = |c: &talweg_ir::Compute| {
        let extents = c.axes.iter().chain(c.reduce_axes());
        extents.map(|a| a.extent.as_int().unwrap_or(1) as f64).product::<f64>()
    };
    computes.map(points).sum()
}

/// Bytes of the reductions and of the computed tensors they read.
fn between_bytes(dag: &Dag) -> f64 {
    let mut total = 0.0;
    for tensor in &dag.tensors {
        let Some(compute) = tensor.compute().filter(|c| c.reduction.is_some()) else { continue };
        let read = compute.body.reads().into_iter().map(|(t, _)| dag.tensor(t));
        total += bytes(tensor) + read.filter(|t| t.compute().is_some()).map(bytes).sum::<f64>();
    }
    total
}

fn weight_bytes(dag: &Dag) -> f64 {
    dag.tensors.iter().filter(|t| t.source == Source::Const).map(bytes).sum()
}
