//! How well models rank the rest of a task's programs once they have seen its first ones, as in the middle of a search.
//!
//! ```text
//! cargo run --release -p talweg-dataset --example online -- DATABASE [CHECKPOINT]
//! ```
//!
//! Tasks with fewer than [`LEAST`] programs are left out. *Clear* is the share of pairs in the right order, among the faster
//! half of the rest, of those whose times differ by a twentieth or more; *lost* is what measuring the eight best-scored of
//! the rest loses against the best.

use std::error::Error;
use std::path::Path;

use talweg_cost::metrics::{clear_pair_accuracy, top_k_regret};
use talweg_cost::{
    Batch, Checkpoint, CostError, CostModel, Loss, Mlp, MlpModel, Params, Samples, TrainParams, Trees,
};
use talweg_dataset::Programs;
use talweg_db::Database;

/// Programs a task must have.
const LEAST: usize = 160;
/// Programs that a model has seen.
const SEEN: [usize; 5] = [8, 40, 72, 104, 136];

/// Programs of one task, with their speeds over the best of them.
struct Part {
    programs: Programs,
    labels: Vec<f32>,
}

impl Part {
    fn of(all: &Programs, positions: &[usize]) -> Result<Part, CostError> {
        let programs = all.at(positions.iter().copied())?;
        let labels = programs.samples().labels;
        let best = labels.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
        let labels = labels.iter().map(|label| label / best).collect();
        Ok(Part { programs, labels })
    }

    fn batch(&self) -> Batch<'_> {
        self.programs.samples().programs
    }

    fn samples(&self) -> Samples<'_> {
        Samples { programs: self.batch(), labels: &self.labels, tasks: &[] }
    }

    fn scores(&self, trees: &Trees, base: Option<&[f32]>) -> Result<Vec<f32>, CostError> {
        let Batch { features, offsets } = self.batch();
        trees.predict_programs(features, offsets, base)
    }
}

/// Scores of unseen programs by a model that has learnt the seen ones.
type Model<'a> = dyn Fn(&Part, &Part) -> Result<Vec<f32>, CostError> + 'a;

fn tuned(mlp: &Mlp, decay: f32, seen: &Part) -> Result<MlpModel, CostError> {
    let params = TrainParams { rate: 1.5e-3, decay, group: 64, ..TrainParams::default() };
    let mut model = MlpModel::from_checkpoint(mlp.clone(), 0).with_params(params);
    model.fit(&seen.samples())?;
    Ok(model)
}

/// Trees on what is left of the logarithms of speeds when a network has had its say.
fn corrected(model: &MlpModel, params: &Params, seen: &Part, unseen: &Part) -> Result<Vec<f32>, CostError> {
    let margin = model.predict(&seen.batch())?;
    let logs: Vec<f32> = seen.labels.iter().map(|l| l.max(1.0 / 64.0).ln()).collect();
    let shift = logs.iter().zip(&margin).map(|(l, m)| l - m).sum::<f32>() / logs.len().max(1) as f32;
    let margin: Vec<f32> = margin.iter().map(|m| m + shift).collect();
    let samples = Samples { labels: &logs, ..seen.samples() };
    let trees = Loss::Squares.fit(&samples, params, Some(&margin))?;
    let base: Vec<f32> = model.predict(&unseen.batch())?.iter().map(|m| m + shift).collect();
    unseen.scores(&trees, Some(&base))
}

/// Trees that learn to rank what a network has scored.
fn rank_on(model: &MlpModel, params: &Params, seen: &Part, unseen: &Part) -> Result<Vec<f32>, CostError> {
    let trees = Loss::PairwiseRank.fit(&seen.samples(), params, Some(&model.predict(&seen.batch())?))?;
    unseen.scores(&trees, Some(&model.predict(&unseen.batch())?))
}

/// The mean of a network as a search refines it and of trees, by how many samples there are: what felix scores by.
fn beside(mlp: &Mlp, params: &Params, seen: &Part, unseen: &Part) -> Result<Vec<f32>, CostError> {
    let mut network = MlpModel::from_checkpoint(mlp.clone(), 0);
    network.fit(&seen.samples())?;
    let scores = network.predict(&unseen.batch())?;
    let trees = Loss::SummedSquares { floor: 0.0 }.fit(&seen.samples(), params, None)?;
    let share = seen.labels.len() as f32 / (seen.labels.len() as f32 + 48.0);
    let speeds = unseen.scores(&trees, None)?;
    Ok(scores.iter().zip(speeds).map(|(s, t)| (1.0 - share) * s + share * t.max(0.02).ln()).collect())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let database = arguments.first().ok_or("give a database")?;
    let programs = Programs::load(&Database::open_existing(Path::new(database))?)?;
    let checkpoint = match arguments.get(1) {
        Some(path) => Checkpoint::from_bytes(&std::fs::read(path)?)?,
        None => {
            talweg_search::network::shipped(&talweg_target::Target::host()).ok_or("no checkpoint")?.clone()
        }
    };
    let mlp = &checkpoint.mlp;
    let ansor = Params { max_depth: 6, ..Params::ansor() };
    let rank = Params::autotvm();
    let small = Params { max_depth: 3, eta: 0.1, rounds: 40, ..Params::default() };
    let fixed = MlpModel::from_checkpoint(mlp.clone(), 0);
    let models: Vec<(&str, Box<Model<'_>>)> = vec![
        ("network", Box::new(|_, unseen| mlp.predict(&unseen.batch()))),
        ("network beside ansor's trees", Box::new(|s, u| beside(mlp, &ansor, s, u))),
        ("network fine-tuned, pull 30", Box::new(|s, u| tuned(mlp, 30.0, s)?.predict(&u.batch()))),
        ("network fine-tuned, pull 100", Box::new(|s, u| tuned(mlp, 100.0, s)?.predict(&u.batch()))),
        ("network fine-tuned, pull 300", Box::new(|s, u| tuned(mlp, 300.0, s)?.predict(&u.batch()))),
        (
            "ansor's trees",
            Box::new(|s, u| {
                let trees = Loss::SummedSquares { floor: 0.0 }.fit(&s.samples(), &ansor, None)?;
                u.scores(&trees, None)
            }),
        ),
        (
            "rank trees",
            Box::new(|s, u| {
                let trees = Loss::PairwiseRank.fit(&s.samples(), &rank, None)?;
                u.scores(&trees, None)
            }),
        ),
        ("rank trees on the network", Box::new(|s, u| rank_on(&fixed, &rank, s, u))),
        ("small trees on the network", Box::new(|s, u| corrected(&fixed, &small, s, u))),
    ];
    println!("{:36}{}", "", SEEN.map(|seen| format!("{seen:>12} seen    ")).join(""));
    println!("{:36}{}", "model", SEEN.map(|_| format!("{:>10}{:>11}", "clear", "lost")).join(""));
    let all = programs.samples();
    let tasks = all.tasks.iter().max().map_or(0, |t| t + 1);
    for (name, model) in &models {
        let mut line = format!("{name:36}");
        for count in SEEN {
            let (mut pairs, mut lost, mut counted) = (0.0, 0.0, 0.0);
            for task in 0..tasks {
                let of_task: Vec<usize> = (0..all.labels.len()).filter(|p| all.tasks[*p] == task).collect();
                if of_task.len() < LEAST {
                    continue;
                }
                let (seen, unseen) = of_task.split_at(count);
                let (seen, unseen) = (Part::of(&programs, seen)?, Part::of(&programs, unseen)?);
                let scores = model(&seen, &unseen)?;
                let mut order: Vec<f32> = unseen.labels.clone();
                order.sort_by(f32::total_cmp);
                let middle = order[order.len() / 2];
                let fast: Vec<usize> = (0..scores.len()).filter(|p| unseen.labels[*p] >= middle).collect();
                let labels: Vec<f32> = fast.iter().map(|p| unseen.labels[*p]).collect();
                let of_fast: Vec<f32> = fast.iter().map(|p| scores[*p]).collect();
                pairs += clear_pair_accuracy(&labels, &of_fast, &[], 1.05)?.unwrap_or(0.5);
                lost += top_k_regret(&unseen.labels, &scores, &[], 8)?.unwrap_or(0.0);
                counted += 1.0;
            }
            line += &format!("{:>10.3}{:>11.4}", pairs / counted, lost / counted);
        }
        println!("{line}");
    }
    Ok(())
}
