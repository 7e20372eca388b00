//! Dense: `C[i, j] = sum[k] A[i, k] * B[k, j]`, with a register tile, blocks for the cache, and packed weights.
//!
//! Choices: three levels of rows and columns, unrolled reduction, order of blocks and of panels.

use super::{AnnotatePolicy, Config, Contraction, ReorderPolicy, Shape, Sizes, SplitPolicy, Template};
use crate::analysis::StageKind;
use crate::error::SpaceError;

/// See the module.
pub struct Dense;

impl Template for Dense {
    fn name(&self) -> &'static str {
        "dense"
    }

    fn matches(&self, shape: &Shape) -> bool {
        shape.kind == StageKind::Contraction && shape.reduce.len() == 1 && shape.batch.is_empty()
    }

    fn schedule(&self, config: &mut Config) -> Result<(), SpaceError> {
        matmul(config)
    }
}

/// Rows by columns over one reduction; other axes are batches and stay outermost.
pub(super) fn matmul(config: &mut Config) -> Result<(), SpaceError> {
    let c = Contraction::begin(config)?;
    let axes = c.axes(config);
    let reduce = c.reduce(config);
    let Some(((column, _), others)) = axes.split_last() else { return Ok(()) };
    let Some(((row, _), batch)) = others.split_last() else { return vector_only(config, &c) };
    let rows = config.split(&c.outer, &c.outer, row, 3, &SplitPolicy::new(Sizes::All).max_factor(30))?;
    let columns =
        config.split(&c.outer, &c.outer, column, 3, &SplitPolicy::new(Sizes::Vectors).max_factor(64))?;
    let batch: Vec<String> = batch.iter().map(|(n, _)| n.clone()).collect();
    let tile = [rows.inner(), columns.inner()];
    let all: Vec<String> = batch
        .iter()
        .chain([&rows.loops[0], &columns.loops[0], &rows.loops[1], &columns.loops[1]])
        .chain(&tile)
        .cloned()
        .collect();
    config.reorder(&c.outer, &all, &ReorderPolicy::Identity)?;
    let swapped = || ReorderPolicy::Candidates(vec![vec![0, 1], vec![1, 0]]);
    let blocks = config.reorder(&c.outer, &[rows.loops[0].clone(), columns.loops[0].clone()], &swapped())?;
    let panels = config.reorder(&c.outer, &[rows.loops[1].clone(), columns.loops[1].clone()], &swapped())?;
    let depth = config.split(
        &c.local,
        &c.outer,
        &reduce[0].0,
        2,
        &SplitPolicy::new(Sizes::Divisors).max_factor(8),
    )?;
    config.annotate(&c.local, &[depth.inner()], &unrolled(1))?;
    c.limit(config, rows.inner_size(), columns.inner_size(), depth.inner_size());
    let parallel: Vec<String> = batch.iter().chain(&blocks).cloned().collect();
    c.finish(config, &tile, &panels[1], &parallel, &depth.loops)
}

/// Exactly these many loops unrolled: no choice.
pub(super) fn unrolled(count: usize) -> AnnotatePolicy {
    AnnotatePolicy::Candidates(vec![vec![super::Annotation::Unroll; count]])
}

/// A result with columns only.
fn vector_only(config: &mut Config, c: &Contraction) -> Result<(), SpaceError> {
    let (axes, reduce) = (c.axes(config), c.reduce(config));
    let columns =
        config.split(&c.outer, &c.outer, &axes[0].0, 2, &SplitPolicy::new(Sizes::Vectors).max_factor(256))?;
    c.limit(config, 1.into(), columns.inner_size(), 1);
    let reduction: Vec<String> = reduce.into_iter().map(|(n, _)| n).collect();
    c.finish(config, &columns.loops[1..], &columns.loops[0], &columns.loops[..1], &reduction)
}
