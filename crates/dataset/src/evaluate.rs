//! How well a model ranks programs of operators it has not seen, family by family.

use std::collections::BTreeSet;

use talweg_cost::metrics::{clear_pair_accuracy, pair_accuracy, top_k_regret};
use talweg_cost::{CostError, Loss, Mlp, Params, Samples};
use talweg_search::network::NETWORK_WIDTH;

use crate::error::DatasetError;
use crate::programs::Programs;

/// Times that differ by less than this ratio are not clearly different.
const CLEAR: f32 = 1.1;

/// How a model ranks some programs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quality {
    /// Pairs in the right order; chance is 0.5.
    pub pairs: f64,
    /// Pairs in the right order, of those whose times differ by a tenth or more.
    pub clear_pairs: f64,
    /// What measuring only the best-scored program of each task loses.
    pub top_1: f64,
    /// What measuring only the five best-scored of each loses.
    pub top_5: f64,
}

/// One line of the report.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The family, or `all`.
    pub name: String,
    /// Programs.
    pub programs: usize,
    /// Tasks: operators on targets with threads.
    pub tasks: usize,
    /// The network.
    pub network: Quality,
    /// Boosted trees trained on the same programs, pairs only.
    pub trees: Quality,
    /// Scores without meaning.
    pub random: Quality,
}

fn quality(samples: &Samples<'_>, scores: &[f32]) -> Result<Option<Quality>, CostError> {
    let Samples { labels, tasks, .. } = *samples;
    let pairs = pair_accuracy(labels, scores, tasks)?;
    let top = |k| top_k_regret(labels, scores, tasks, k);
    let clear = clear_pair_accuracy(labels, scores, tasks, CLEAR)?;
    Ok(match (pairs, clear, top(1)?, top(5)?) {
        (Some(pairs), Some(clear_pairs), Some(top_1), Some(top_5)) => {
            Some(Quality { pairs, clear_pairs, top_1, top_5 })
        }
        _ => None,
    })
}

/// Judges a network on the operators held out, one in `each`, beside trees that learn from the others.
pub fn evaluate(programs: &Programs, mlp: &Mlp, each: u64, trees: &Params) -> Result<Vec<Row>, DatasetError> {
    if mlp.width() != NETWORK_WIDTH {
        return Err(DatasetError::OtherFeatures { expected: NETWORK_WIDTH, found: mlp.width() });
    }
    let kept: BTreeSet<u64> = programs.held_out(each).into_iter().collect();
    let seen = programs.only(&|info| !kept.contains(&info.operator))?;
    let unseen = programs.only(&|info| kept.contains(&info.operator))?;
    if unseen.is_empty() {
        return Err(DatasetError::Empty { path: "held out operators".into(), skipped: programs.len() });
    }
    let trees = match seen.is_empty() {
        true => None,
        false => Some(Loss::PairwiseRank.fit(&seen.samples(), trees, None)?),
    };
    let families: BTreeSet<String> = programs.infos().iter().map(|i| i.family.clone()).collect();
    let mut rows = Vec::new();
    for name in families.into_iter().chain(["all".to_string()]) {
        let part = unseen.only(&|info| name == "all" || info.family == name)?;
        let samples = part.samples();
        let batch = samples.programs;
        let by_network = quality(&samples, &mlp.predict(&batch)?)?;
        let by_trees = match &trees {
            Some(trees) => quality(&samples, &trees.predict_programs(batch.features, batch.offsets, None)?)?,
            None => None,
        };
        let mut stream = talweg_cost::random::Stream::new(1, 1);
        let random: Vec<f32> = samples.labels.iter().map(|_| stream.unit()).collect();
        let tasks: BTreeSet<u32> = samples.tasks.iter().copied().collect();
        if let (Some(network), Some(random)) = (by_network, quality(&samples, &random)?) {
            let trees = by_trees.unwrap_or(random);
            rows.push(Row { name, programs: part.len(), tasks: tasks.len(), network, trees, random });
        }
    }
    Ok(rows)
}

/// A program's speed, as measured and as the network has it, over the best of its task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// As measured.
    pub measured: f64,
    /// As predicted: scores say how programs of a task compare, so their mean is that of the measured logarithms.
    pub predicted: f64,
}

/// What a network predicts for the programs of the operators held out, one in `each`; failures are left out.
pub fn predictions(programs: &Programs, mlp: &Mlp, each: u64) -> Result<Vec<Prediction>, DatasetError> {
    let kept: BTreeSet<u64> = programs.held_out(each).into_iter().collect();
    let unseen = programs.only(&|info| kept.contains(&info.operator))?;
    let samples = unseen.samples();
    let scores = mlp.predict(&samples.programs)?;
    let tasks: BTreeSet<u32> = samples.tasks.iter().copied().collect();
    let mut out = Vec::new();
    for task in tasks {
        let of_task = (0..scores.len()).filter(|p| samples.tasks[*p] == task && samples.labels[*p] > 0.0);
        let pairs: Vec<(f64, f64)> =
            of_task.map(|p| (f64::from(samples.labels[p]).ln(), f64::from(scores[p]))).collect();
        let count = pairs.len().max(1) as f64;
        let shift = pairs.iter().map(|(measured, score)| measured - score).sum::<f64>() / count;
        out.extend(pairs.iter().map(|(measured, score)| Prediction {
            measured: measured.exp(),
            predicted: (score + shift).exp(),
        }));
    }
    Ok(out)
}

/// The report as a table in Markdown.
pub fn table(rows: &[Row]) -> String {
    let mut out = String::from(
        "| family | tasks | programs | pairs: network | trees | random | clear pairs: network | trees | random | top-1 regret: network | trees | random | top-5 regret: network | trees | random |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let by = |part: fn(&Quality) -> f64| {
            [&row.network, &row.trees, &row.random].map(|q| format!("{:.3}", part(q))).join(" | ")
        };
        out += &format!(
            "| {} | {} | {} | {} | {} | {} | {} |\n",
            row.name,
            row.tasks,
            row.programs,
            by(|q| q.pairs),
            by(|q| q.clear_pairs),
            by(|q| q.top_1),
            by(|q| q.top_5)
        );
    }
    out
}
