//! What the templates of contractions share: where the reduction accumulates, and the end of every such schedule.

use talweg_expr::Expr;
use talweg_schedule::Step;

use super::Config;
use crate::error::SpaceError;
use crate::rules::always_inline::AlwaysInline;
use crate::rules::{Decision, PARALLEL_FROM, SketchRule};

/// Multiply-adds per basic block, at most.
const MAX_BODY: i64 = 128;

/// The stages of a contraction: the one that accumulates and the one whose loops it is tiled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contraction {
    /// Accumulates.
    pub local: String,
    /// Holds the loops.
    pub outer: String,
}

impl Contraction {
    /// Inlines what is cheap, and gives the reduction a buffer of its own unless an elementwise stage reads it in place.
    pub fn begin(config: &mut Config) -> Result<Contraction, SpaceError> {
        for stage in config.state.schedule.stage_names().into_iter().rev() {
            if AlwaysInline.condition(&config.state, &stage) != Decision::Skip
                && let Some(next) = AlwaysInline.apply(&config.state, &stage).pop()
            {
                config.state = next;
            }
        }
        let stage = config.shape.stage.clone();
        let out = match config.state.fusible_reader(&stage) {
            Some(reader) => Contraction { local: stage, outer: reader },
            None => {
                config.step(Step::CacheWrite { stage: stage.clone() })?;
                Contraction { local: format!("{stage}.local"), outer: stage }
            }
        };
        config.state.decide(&out.local);
        config.state.decide(&out.outer);
        Ok(out)
    }

    /// The register tile: `rows` unrolled, the last loop of `tile` vectorised; the accumulating stage is computed at
    /// `at`, over `reduction` outside and its own axes inside.
    pub fn finish(
        &self,
        config: &mut Config,
        tile: &[String],
        at: &str,
        parallel: &[String],
        reduction: &[String],
    ) -> Result<(), SpaceError> {
        let fused = config.state.fuse(&self.outer, parallel).map_err(|e| config.error(&e))?;
        let at = match &fused {
            Some(f) if parallel.iter().any(|p| p == at) => f.clone(),
            _ => at.to_string(),
        };
        config.step(Step::ComputeAt { stage: self.local.clone(), target: self.outer.clone(), at })?;
        let own: Vec<String> = config.state.stages().axes(&self.local).into_iter().map(|(n, _)| n).collect();
        let order: Vec<String> = reduction.iter().chain(&own).cloned().collect();
        let applied = (|| {
            config.state.reorder(&self.local, &order)?;
            if let Some((vector, rows)) = own.split_last() {
                config.state.unroll(&self.local, rows)?;
                config.state.vectorize(&self.local, vector)?;
            }
            if let Some((vector, rows)) = tile.split_last() {
                config.state.vectorize(&self.outer, vector)?;
                if !config.state.stages().is_expensive(&self.outer) {
                    config.state.unroll(&self.outer, rows)?;
                }
            }
            Ok(())
        })();
        applied.map_err(|e| config.error(&e))?;
        config.state.pack_constants(&self.local);
        if let Some(p) = &fused {
            for producer in config.state.stages().producers(&self.local) {
                config.state.places.push((producer, self.outer.clone(), p.clone()));
            }
        }
        if let Some(p) = fused
            && config.state.stages().iterations(&self.local) >= PARALLEL_FROM
        {
            config.state.parallel(&self.outer, &p).map_err(|e| config.error(&e))?;
        }
        Ok(())
    }

    /// Keeps the register tile within the registers, and the body of the innermost loop short.
    pub fn limit(&self, config: &mut Config, rows: Expr, vector: Expr, unrolled: impl Into<Expr>) {
        let lanes = config.state.lanes(&self.local);
        let registers = config.state.machine.registers;
        config.filter("registers", rows.clone() * &vector + &vector + lanes, registers * lanes);
        config.filter("unrolled body", rows * vector * unrolled.into(), MAX_BODY * lanes);
    }

    /// Name and extent of the axes of the outer stage.
    pub fn axes(&self, config: &Config) -> Vec<(String, i64)> {
        config.state.stages().axes(&self.outer)
    }

    /// Names of the reduction's axes.
    pub fn reduce(&self, config: &Config) -> Vec<(String, i64)> {
        config.state.stages().reduce_axes(&self.local)
    }
}
