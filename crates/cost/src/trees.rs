//! Gradient boosting: a sum of trees, each fitted to what the ones before it left over.

use serde::{Deserialize, Serialize};

use crate::bins::Binned;
use crate::error::CostError;
use crate::grow::{Buffers, Settings, grow};
use crate::histogram::Gradient;
use crate::matrix::{Matrix, count_programs, sum_programs};
use crate::objective::Objective;
use crate::params::Params;
use crate::predict::Flat;
use crate::random::Stream;
use crate::split::Rules;
use crate::tree::Tree;

/// Columns a tree node can name.
const MAX_COLS: usize = 1 << 16;

/// Keys of the random streams that are not per round.
const HOLDOUT_KEY: u64 = u64::MAX;
/// Separates the column stream of a round from its row stream.
const COLUMN_KEY: u64 = 1 << 32;

/// A fitted model. The prediction of a row is the sum of its trees, starting from 0; that of a program is its
/// margin, if one is given, plus the sum of its rows.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Trees {
    cols: usize,
    trees: Vec<Tree>,
    flat: Flat,
}

/// The stored form.
#[derive(Serialize, Deserialize)]
#[serde(rename = "Trees")]
struct Stored {
    cols: usize,
    trees: Vec<Tree>,
}

impl TryFrom<Stored> for Trees {
    type Error = CostError;

    fn try_from(stored: Stored) -> Result<Trees, CostError> {
        Trees::from_trees(stored.cols, stored.trees)
    }
}

impl From<Trees> for Stored {
    fn from(trees: Trees) -> Stored {
        Stored { cols: trees.cols, trees: trees.trees }
    }
}

impl PartialEq for Trees {
    fn eq(&self, other: &Trees) -> bool {
        self.cols == other.cols && self.trees == other.trees
    }
}

/// Refuses arrays that do not describe the same programs, and values no loss is defined for.
fn check_input(
    data: &Matrix,
    offsets: &[usize],
    labels: &[f32],
    margin: Option<&[f32]>,
    objective: &dyn Objective,
) -> Result<(), CostError> {
    if data.rows() == 0 || data.cols() == 0 {
        return Err(CostError::Empty { what: if data.rows() == 0 { "rows" } else { "feature columns" } });
    }
    if data.cols() > MAX_COLS {
        return Err(CostError::TooManyColumns { cols: data.cols(), limit: MAX_COLS });
    }
    let programs = count_programs(offsets, data.rows())?;
    for (what, values) in [("labels", Some(labels)), ("base margin", margin)] {
        let Some(values) = values else { continue };
        if values.len() != programs {
            return Err(CostError::Shape { what, expected: programs, found: values.len() });
        }
        if let Some(index) = values.iter().position(|x| !x.is_finite()) {
            let remedy = "use finite numbers; a failure trains as 0";
            let value = values[index];
            return Err(CostError::Value { what, index, value, objective: objective.name(), remedy });
        }
    }
    objective.check(labels)
}

/// Splits programs into those to train on and those that judge early stopping.
fn hold_out(programs: usize, params: &Params) -> (Vec<u32>, Vec<u32>) {
    let all = 0..programs as u32;
    let count = (programs as f32 * params.holdout) as usize;
    if params.early_stopping == 0 || count == 0 || count == programs {
        return (all.clone().collect(), all.collect());
    }
    let held = Stream::new(params.seed, HOLDOUT_KEY).choose(programs, count);
    (all.filter(|program| held.binary_search(program).is_err()).collect(), held)
}

/// The share of `n` things that a fraction stands for, at least one.
fn share(n: usize, fraction: f32) -> usize {
    ((n as f64 * f64::from(fraction)).round() as usize).clamp(1.min(n), n)
}

impl Trees {
    /// A model of given trees over `cols` columns, refusing trees that could not be walked safely.
    pub fn from_trees(cols: usize, trees: Vec<Tree>) -> Result<Trees, CostError> {
        let flat = Flat::new(&trees, cols)?;
        Ok(Trees { cols, trees, flat })
    }

    /// Fits `params.rounds` trees to programs, which are consecutive rows of `data` cut at `offsets`, one label
    /// each. `base_margin` (one per program) is added to every score while fitting and must be given again when
    /// predicting. `warm_start` continues a model: its trees come first in the result, and the outcome is
    /// the one a single longer fit on the same data would have had.
    ///
    /// An objective differentiates by the program's score. Each row of a program gets that gradient, and the
    /// hessian times the number of rows: an upper bound of the curvature when all of them move together, so that
    /// programs of many rows do not overshoot.
    pub fn fit(
        data: &Matrix,
        offsets: &[usize],
        labels: &[f32],
        objective: &dyn Objective,
        params: &Params,
        base_margin: Option<&[f32]>,
        warm_start: Option<&Trees>,
    ) -> Result<Trees, CostError> {
        params.check()?;
        check_input(data, offsets, labels, base_margin, objective)?;
        let mut trees = Vec::new();
        let mut rows = vec![0.0; data.rows()];
        if let Some(warm) = warm_start {
            warm.check_cols(data)?;
            trees.clone_from(&warm.trees);
            warm.flat.add_to(data, &mut rows);
        }
        let mut fit = Fit::new(data, offsets, labels, objective, params, base_margin, rows);
        let mut best = (fit.judge(), trees.len());
        for _ in 0..params.rounds {
            let tree = fit.round(trees.len() as u64);
            trees.push(tree);
            if params.early_stopping > 0 {
                let loss = fit.judge();
                if loss < best.0 {
                    best = (loss, trees.len());
                } else if trees.len() - best.1 >= params.early_stopping {
                    break;
                }
            }
        }
        if params.early_stopping > 0 {
            trees.truncate(best.1);
        }
        Trees::from_trees(data.cols(), trees)
    }

    fn check_cols(&self, data: &Matrix) -> Result<(), CostError> {
        if data.cols() != self.cols {
            return Err(CostError::Columns { model: self.cols, data: data.cols() });
        }
        Ok(())
    }

    /// The prediction of every row. NaN features go left at every split, as if they were minus infinity.
    pub fn predict_rows(&self, data: &Matrix) -> Result<Vec<f32>, CostError> {
        self.check_cols(data)?;
        let mut out = vec![0.0; data.rows()];
        self.flat.add_to(data, &mut out);
        Ok(out)
    }

    /// The score of every program: its margin, if given, plus the sum of its rows.
    pub fn predict_programs(
        &self,
        data: &Matrix,
        offsets: &[usize],
        base_margin: Option<&[f32]>,
    ) -> Result<Vec<f32>, CostError> {
        let programs = count_programs(offsets, data.rows())?;
        if let Some(found) = base_margin.map(<[f32]>::len).filter(|&found| found != programs) {
            return Err(CostError::Shape { what: "base margin", expected: programs, found });
        }
        Ok(sum_programs(&self.predict_rows(data)?, offsets, base_margin))
    }

    /// The total gain of each column's splits: which features the model relies on.
    pub fn importance(&self) -> Vec<f64> {
        let mut total = vec![0.0; self.cols];
        for tree in &self.trees {
            for node in (0..tree.len()).filter(|&node| tree.left[node] != 0) {
                total[tree.feature[node] as usize] += f64::from(tree.gain[node]);
            }
        }
        total
    }

    /// The trees, in the order they were fitted.
    pub fn trees(&self) -> &[Tree] {
        &self.trees
    }

    /// Columns the model expects.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The model as JSON text; reading it back gives the same predictions to the bit.
    pub fn to_json(&self) -> Result<String, CostError> {
        serde_json::to_string(self).map_err(|error| CostError::Text { text: error.to_string() })
    }

    /// Reads a model from JSON text and checks it.
    pub fn from_json(text: &str) -> Result<Trees, CostError> {
        serde_json::from_str(text).map_err(|error| CostError::Text { text: error.to_string() })
    }
}

/// The state of one fit.
struct Fit<'a> {
    data: &'a Matrix,
    offsets: &'a [usize],
    labels: &'a [f32],
    objective: &'a dyn Objective,
    params: &'a Params,
    margin: Option<&'a [f32]>,
    binned: Binned,
    buffers: Buffers,
    train: Vec<u32>,
    judges: Vec<u32>,
    /// Predictions of all rows so far.
    rows: Vec<f32>,
}

impl<'a> Fit<'a> {
    fn new(
        data: &'a Matrix,
        offsets: &'a [usize],
        labels: &'a [f32],
        objective: &'a dyn Objective,
        params: &'a Params,
        margin: Option<&'a [f32]>,
        rows: Vec<f32>,
    ) -> Fit<'a> {
        let binned = Binned::new(data, params.max_bins);
        let (train, judges) = hold_out(labels.len(), params);
        let buffers = Buffers::new();
        Fit { data, offsets, labels, objective, params, margin, binned, buffers, train, judges, rows }
    }

    fn scores(&self) -> Vec<f32> {
        sum_programs(&self.rows, self.offsets, self.margin)
    }

    /// The loss that early stopping watches.
    fn judge(&self) -> f64 {
        if self.params.early_stopping == 0 {
            return 0.0;
        }
        self.objective.loss(self.labels, &self.scores(), &self.judges)
    }

    /// Programs this round's tree sees.
    fn sample(&self, round: u64) -> Vec<u32> {
        if self.params.subsample >= 1.0 {
            return self.train.clone();
        }
        let count = share(self.train.len(), self.params.subsample);
        let chosen = Stream::new(self.params.seed, round).choose(self.train.len(), count);
        chosen.into_iter().map(|index| self.train[index as usize]).collect()
    }

    /// Columns this round's tree may use: a share of those that vary.
    fn allow(&self, round: u64) -> Vec<bool> {
        let cols = self.data.cols();
        if self.params.colsample >= 1.0 {
            return vec![true; cols];
        }
        let varying: Vec<usize> = (0..cols).filter(|&col| self.binned.places[col].is_some()).collect();
        let count = share(varying.len(), self.params.colsample);
        let mut allowed = vec![false; cols];
        for index in Stream::new(self.params.seed, round + COLUMN_KEY).choose(varying.len(), count) {
            allowed[varying[index as usize]] = true;
        }
        allowed
    }

    /// Fits one tree and adds it to the predictions.
    fn round(&mut self, round: u64) -> Tree {
        let mut program_gradients: Vec<Gradient> = vec![[0.0; 2]; self.labels.len()];
        let scores = self.scores();
        self.objective.gradients(self.labels, &scores, &self.train, round, &mut program_gradients);
        let (mut rows, mut gradients) = (Vec::new(), Vec::new());
        for program in self.sample(round) {
            let (start, end) = (self.offsets[program as usize], self.offsets[program as usize + 1]);
            let [g, h] = program_gradients[program as usize];
            if h > 0.0 && g.is_finite() && h.is_finite() {
                rows.extend(start as u32..end as u32);
                gradients.resize(rows.len(), [g, h * (end - start) as f32]);
            }
        }
        let settings = Settings {
            binned: &self.binned,
            rules: Rules {
                lambda: self.params.lambda.into(),
                gamma: self.params.gamma.into(),
                min_child_weight: self.params.min_child_weight.into(),
            },
            max_depth: self.params.max_depth,
            eta: self.params.eta,
            threads: self.params.threads,
        };
        let allowed = self.allow(round);
        let mut seen = vec![false; self.rows.len()];
        let predictions = &mut self.rows;
        let assign = |row: u32, value: f32| {
            predictions[row as usize] += value;
            seen[row as usize] = true;
        };
        let tree = grow(&settings, &allowed, &mut rows, &mut gradients, &mut self.buffers, assign);
        for row in (0..self.rows.len()).filter(|&row| !seen[row]) {
            self.rows[row] += tree.predict(self.data.row(row));
        }
        tree
    }
}
