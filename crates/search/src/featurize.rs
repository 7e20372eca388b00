//! The feature rows of a space's candidates, compiled once for each sketch.

use talweg_cost::{Batch, CostError, Matrix};
use talweg_expr::Symbol;
use talweg_features::{FeatureError, FeatureProgram, FeatureScratch, Machine, per_store};
use talweg_space::{Candidate, Sketch, Space};

use crate::parallel;

/// Candidates evaluated together: few enough for their rows to stay in the second cache level.
const CHUNK: usize = 64;
/// Chunks below which another thread is not worth its start.
const CHUNKS_PER_THREAD: usize = 3;

/// What the rows of a candidate describe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Features {
    /// Ansor's 164 features and talweg's own, one row a store.
    Stores,
    /// AutoTVM's context features, one row a loop.
    Loops,
    /// AutoTVM's relation features, one row a buffer.
    Buffers,
}

/// What a model says of a batch: one number for each program.
pub type Predict<'a> = dyn Fn(&Batch<'_>) -> Result<Vec<f32>, CostError> + Sync + 'a;

/// Takes the rows that each of some candidates has, and all their rows.
type Work<'a> = dyn Fn(usize, &Matrix) -> Result<Vec<f32>, CostError> + Sync + 'a;

/// A few candidates of one sketch, by their positions.
struct Chunk {
    sketch: usize,
    positions: Vec<usize>,
}

/// The compiled features of one sketch.
struct SketchFeatures {
    program: FeatureProgram,
    /// The node of each row, for [`Features::Stores`].
    nodes: Vec<usize>,
    /// Nodes of the sketch.
    count: usize,
}

impl SketchFeatures {
    fn new(sketch: &Sketch, machine: Machine<'_>, kind: Features) -> Result<SketchFeatures, FeatureError> {
        let knobs: Vec<Symbol> = sketch.knobs.iter().map(|k| k.symbol.clone()).collect();
        let (nest, mut nodes) = (&sketch.nest, Vec::new());
        let program = match kind {
            Features::Stores => {
                let stores = per_store(nest, machine);
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
}

impl SpaceFeatures {
    /// Compiles the formulas of every sketch.
    pub fn new<'a>(
        space: &Space,
        machine: impl Into<Machine<'a>>,
        kind: Features,
    ) -> Result<SpaceFeatures, FeatureError> {
        let machine = machine.into();
        let compile = |sketch: &Sketch| SketchFeatures::new(sketch, machine, kind);
        let sketches: Result<Vec<SketchFeatures>, FeatureError> =
            parallel::map(&space.sketches, parallel::cores(), &compile).into_iter().collect();
        Ok(SpaceFeatures { sketches: sketches? })
    }

    /// Columns of every row.
    pub fn width(&self) -> usize {
        self.sketches.first().map_or(0, |s| s.program.width())
    }

    /// The rows of some candidates, in order; candidates of unknown sketches or with a wrong number of knobs have none.
    pub fn rows(&self, candidates: &[Candidate]) -> Result<(Matrix, Vec<usize>), CostError> {
        let (mut data, mut offsets) = (Vec::new(), vec![0]);
        let (width, mut scratch) = (self.width().max(1), FeatureScratch::new());
        for candidate in candidates {
            data.extend_from_slice(&self.eval(candidate.sketch, &[candidate], &mut scratch));
            offsets.push(data.len() / width);
        }
        Ok((Matrix::new(data.len() / width, width, data)?, offsets))
    }

    /// Scores candidates by a function of batches, all candidates of a batch having the same sketch. What cannot be
    /// described scores minus infinity.
    pub fn score(&self, candidates: &[Candidate], predict: &Predict<'_>) -> Result<Vec<f32>, CostError> {
        let mut out = vec![f32::NEG_INFINITY; candidates.len()];
        let scored = self.by_chunks(candidates, &|rows, features| {
            let offsets: Vec<usize> = (0..=features.rows() / rows).map(|c| c * rows).collect();
            predict(&Batch { features, offsets: &offsets })
        })?;
        for (chunk, scores) in scored {
            chunk.positions.iter().zip(scores).for_each(|(c, score)| out[*c] = score);
        }
        Ok(out)
    }

    /// What `work` makes of the features of candidates, a few of the same sketch at a time, on all cores: it is told how many
    /// rows a candidate has. Those that cannot be described are left out.
    fn by_chunks(
        &self,
        candidates: &[Candidate],
        work: &Work<'_>,
    ) -> Result<Vec<(Chunk, Vec<f32>)>, CostError> {
        let mut chunks = Vec::new();
        for sketch in 0..self.sketches.len() {
            let mine: Vec<usize> =
                (0..candidates.len()).filter(|c| candidates[*c].sketch == sketch).collect();
            chunks.extend(mine.chunks(CHUNK).map(|part| Chunk { sketch, positions: part.to_vec() }));
        }
        // Each thread takes a run of neighbouring chunks, whose scratch it keeps.
        let threads = parallel::cores().min(chunks.len() / CHUNKS_PER_THREAD).max(1);
        let share = chunks.len().div_ceil(threads).max(1);
        let shares: Vec<&[Chunk]> = chunks.chunks(share).collect();
        let run = |share: &&[Chunk]| -> Result<Vec<Vec<f32>>, CostError> {
            let mut scratch = FeatureScratch::new();
            let one = |chunk: &Chunk| {
                let batch: Vec<&Candidate> = chunk.positions.iter().map(|c| &candidates[*c]).collect();
                let data = self.eval(chunk.sketch, &batch, &mut scratch);
                let rows = self.sketches[chunk.sketch].program.rows();
                if data.is_empty() || rows == 0 {
                    return Ok(Vec::new());
                }
                let all = rows * batch.len();
                work(rows, &Matrix::new(all, data.len() / all, data)?)
            };
            share.iter().map(one).collect()
        };
        let made: Result<Vec<Vec<Vec<f32>>>, CostError> =
            parallel::map(&shares, threads, &run).into_iter().collect();
        let made = made?.into_iter().flatten().collect::<Vec<_>>();
        Ok(chunks.into_iter().zip(made).collect())
    }

    /// Scores the nodes of each candidate: the scores of its rows, added up by node.
    pub fn score_nodes(
        &self,
        candidates: &[Candidate],
        predict: &Predict<'_>,
    ) -> Result<Vec<Vec<f32>>, CostError> {
        let mut out: Vec<Vec<f32>> = candidates
            .iter()
            .map(|c| match self.sketches.get(c.sketch).filter(|s| !s.nodes.is_empty()) {
                Some(sketch) => vec![0.0; sketch.count],
                None => Vec::new(),
            })
            .collect();
        let scored = self.by_chunks(candidates, &|_, features| {
            let each: Vec<usize> = (0..=features.rows()).collect();
            predict(&Batch { features, offsets: &each })
        })?;
        for (chunk, scores) in scored {
            let SketchFeatures { program, nodes, .. } = &self.sketches[chunk.sketch];
            for (at, scores) in chunk.positions.iter().zip(scores.chunks(program.rows().max(1))) {
                for (score, node) in scores.iter().zip(nodes) {
                    if let Some(sum) = out[*at].get_mut(*node) {
                        *sum += score;
                    }
                }
            }
        }
        Ok(out)
    }

    /// The rows of candidates of one sketch; empty when one of them is not of it.
    fn eval(&self, sketch: usize, candidates: &[&Candidate], scratch: &mut FeatureScratch) -> Vec<f32> {
        let Some(SketchFeatures { program, .. }) = self.sketches.get(sketch) else { return Vec::new() };
        let knobs = program.knobs().len();
        if candidates.iter().any(|c| c.values.len() != knobs) {
            return Vec::new();
        }
        let points: Vec<f64> = candidates.iter().flat_map(|c| c.values.iter().map(|v| *v as f64)).collect();
        let mut out = vec![0.0; candidates.len() * program.rows() * program.width()];
        program.eval_batch(&points, candidates.len(), &mut out, scratch);
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
