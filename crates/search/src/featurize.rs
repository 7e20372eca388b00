//! The feature rows of a space's candidates, compiled once for each sketch.

use talweg_cost::{Batch, CostError, Matrix};
use talweg_expr::Symbol;
use talweg_features::{FeatureError, FeatureProgram, FeatureScratch, per_store};
use talweg_space::{Candidate, Sketch, Space};
use talweg_target::Target;

use crate::parallel;

/// Candidates evaluated together: few enough for their rows to stay in the second cache level.
const CHUNK: usize = 64;

/// What the rows of a candidate describe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Features {
    /// Ansor's 164 features, one row a store.
    Stores,
    /// AutoTVM's context features, one row a loop.
    Loops,
    /// AutoTVM's relation features, one row a buffer.
    Buffers,
}

/// Takes the positions of a few candidates, the rows of each, and all rows.
type Taker<'a> = dyn FnMut(&[usize], usize, Matrix) -> Result<(), CostError> + 'a;

/// The compiled features of one sketch.
struct SketchFeatures {
    program: FeatureProgram,
    /// The node of each row, for [`Features::Stores`].
    nodes: Vec<usize>,
    /// Nodes of the sketch.
    count: usize,
}

impl SketchFeatures {
    fn new(sketch: &Sketch, target: &Target, kind: Features) -> Result<SketchFeatures, FeatureError> {
        let knobs: Vec<Symbol> = sketch.knobs.iter().map(|k| k.symbol.clone()).collect();
        let (nest, mut nodes) = (&sketch.nest, Vec::new());
        let program = match kind {
            Features::Stores => {
                let stores = per_store(nest, target);
                for store in &stores {
                    let stages = sketch.nodes.iter().map(|n| n.stage.as_str());
                    nodes.push(node_of(&nest.buffer(store.buffer).name, stages));
                }
                FeatureProgram::of_stores(nest, &knobs, stores)?
            }
            Features::Loops => FeatureProgram::of_context(nest, &knobs)?,
            Features::Buffers => FeatureProgram::of_relations(nest, &knobs)?,
        };
        Ok(SketchFeatures { program, nodes, count: sketch.nodes.len() })
    }
}

/// The features of every sketch of a space.
pub struct SpaceFeatures {
    sketches: Vec<SketchFeatures>,
    scratch: FeatureScratch,
    points: Vec<f64>,
}

impl SpaceFeatures {
    /// Compiles the formulas of every sketch.
    pub fn new(space: &Space, target: &Target, kind: Features) -> Result<SpaceFeatures, FeatureError> {
        let compile = |sketch: &Sketch| SketchFeatures::new(sketch, target, kind);
        let sketches: Result<Vec<SketchFeatures>, FeatureError> =
            parallel::map(&space.sketches, parallel::cores(), &compile).into_iter().collect();
        let sketches = sketches?;
        Ok(SpaceFeatures { sketches, scratch: FeatureScratch::new(), points: Vec::new() })
    }

    /// Columns of every row.
    pub fn width(&self) -> usize {
        self.sketches.first().map_or(0, |s| s.program.width())
    }

    /// The rows of some candidates, in order; candidates of unknown sketches or with a wrong number of knobs have none.
    pub fn rows(&mut self, candidates: &[Candidate]) -> Result<(Matrix, Vec<usize>), CostError> {
        let (mut data, mut offsets) = (Vec::new(), vec![0]);
        let width = self.width().max(1);
        for candidate in candidates {
            data.extend_from_slice(&self.eval(candidate.sketch, &[candidate]));
            offsets.push(data.len() / width);
        }
        Ok((Matrix::new(data.len() / width, width, data)?, offsets))
    }

    /// Scores candidates by a function of batches, all candidates of a batch having the same sketch. What cannot be
    /// described scores minus infinity.
    pub fn score(
        &mut self,
        candidates: &[Candidate],
        predict: &dyn Fn(&Batch<'_>) -> Result<Vec<f32>, CostError>,
    ) -> Result<Vec<f32>, CostError> {
        let mut out = vec![f32::NEG_INFINITY; candidates.len()];
        self.by_chunks(candidates, &mut |chunk, rows, features| {
            let offsets: Vec<usize> = (0..=chunk.len()).map(|c| c * rows).collect();
            let scores = predict(&Batch { features: &features, offsets: &offsets })?;
            chunk.iter().zip(scores).for_each(|(c, score)| out[*c] = score);
            Ok(())
        })?;
        Ok(out)
    }

    /// Gives away the features of candidates, a few of the same sketch at a time. Those that cannot be described are left out.
    fn by_chunks(&mut self, candidates: &[Candidate], take: &mut Taker<'_>) -> Result<(), CostError> {
        for sketch in 0..self.sketches.len() {
            let mine: Vec<usize> =
                (0..candidates.len()).filter(|c| candidates[*c].sketch == sketch).collect();
            for chunk in mine.chunks(CHUNK) {
                let batch: Vec<&Candidate> = chunk.iter().map(|c| &candidates[*c]).collect();
                let data = self.eval(sketch, &batch);
                let rows = self.sketches[sketch].program.rows();
                if data.is_empty() || rows == 0 {
                    continue;
                }
                let all = rows * chunk.len();
                take(chunk, rows, Matrix::new(all, data.len() / all, data)?)?;
            }
        }
        Ok(())
    }

    /// Scores the nodes of each candidate: the scores of its rows, added up by node.
    pub fn score_nodes(
        &mut self,
        candidates: &[Candidate],
        predict: &dyn Fn(&Batch<'_>) -> Result<Vec<f32>, CostError>,
    ) -> Result<Vec<Vec<f32>>, CostError> {
        let nodes: Vec<(Vec<usize>, usize)> =
            self.sketches.iter().map(|s| (s.nodes.clone(), s.count)).collect();
        let mut out: Vec<Vec<f32>> = candidates
            .iter()
            .map(|c| match nodes.get(c.sketch).filter(|(nodes, _)| !nodes.is_empty()) {
                Some((_, count)) => vec![0.0; *count],
                None => Vec::new(),
            })
            .collect();
        self.by_chunks(candidates, &mut |chunk, rows, features| {
            let each: Vec<usize> = (0..=features.rows()).collect();
            let scores = predict(&Batch { features: &features, offsets: &each })?;
            for (at, scores) in chunk.iter().zip(scores.chunks(rows)) {
                let Some((nodes, _)) = nodes.get(candidates[*at].sketch) else { continue };
                for (score, node) in scores.iter().zip(nodes) {
                    if let Some(sum) = out[*at].get_mut(*node) {
                        *sum += score;
                    }
                }
            }
            Ok(())
        })?;
        Ok(out)
    }

    /// The rows of candidates of one sketch; empty when one of them is not of it.
    fn eval(&mut self, sketch: usize, candidates: &[&Candidate]) -> Vec<f32> {
        let Some(SketchFeatures { program, .. }) = self.sketches.get(sketch) else { return Vec::new() };
        let knobs = program.knobs().len();
        if candidates.iter().any(|c| c.values.len() != knobs) {
            return Vec::new();
        }
        self.points.clear();
        self.points.extend(candidates.iter().flat_map(|c| c.values.iter().map(|v| *v as f64)));
        let mut out = vec![0.0; candidates.len() * program.rows() * program.width()];
        program.eval_batch(&self.points, candidates.len(), &mut out, &mut self.scratch);
        out
    }
}

/// The node a store belongs to: the stage it is named after, up to suffixes such as `.local`; none (past the end) when
/// no stage matches.
fn node_of<'a>(buffer: &str, stages: impl Iterator<Item = &'a str>) -> usize {
    let matches = |stage: &str| match buffer.strip_prefix(stage) {
        Some(rest) => rest.is_empty() || rest.starts_with('.'),
        None => false,
    };
    stages
        .enumerate()
        .filter(|(_, stage)| matches(stage))
        .max_by_key(|(_, stage)| stage.len())
        .map_or(usize::MAX, |(node, _)| node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_belong_to_the_longest_stage_they_are_named_after() {
        let stages = || ["conv", "conv.pad", "relu"].into_iter();
        assert_eq!(node_of("conv", stages()), 0);
        assert_eq!(node_of("conv.local", stages()), 0);
        assert_eq!(node_of("conv.pad", stages()), 1);
        assert_eq!(node_of("conv2", stages()), usize::MAX);
    }
}
