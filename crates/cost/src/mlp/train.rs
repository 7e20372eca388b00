//! Training: batches of groups of programs, several threads, the same result for a seed whatever their number.

use std::sync::Mutex;
use std::sync::PoisonError;

use super::adam::Adam;
use super::inputs::Inputs;
use super::loss::MlpLoss;
use super::network::Mlp;
use super::pass::Pass;
use crate::error::CostError;
use crate::matrix::Matrix;
use crate::model::{Batch, Samples};
use crate::random::Stream;

/// Parts of a batch whose gradients are added up apart, so that the order of additions is always the same.
const SHARDS: usize = 4;
/// Steps, as a share of all, in which the rate rises to its full height.
const WARM_UP: f32 = 0.03;
/// What is left of the rate at the end.
const LAST: f32 = 0.02;

/// How to train.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainParams {
    /// What for.
    pub loss: MlpLoss,
    /// Numbers between layers, of a new network: a multiple of 32.
    pub hidden: usize,
    /// How often all programs are seen.
    pub epochs: usize,
    /// Steps at most; 0 for no limit.
    pub max_steps: usize,
    /// The full rate of Adam.
    pub rate: f32,
    /// How strongly parameters are pulled towards zero, or towards those of the network that training started from.
    pub decay: f32,
    /// The longest gradient.
    pub clip: f32,
    /// Programs of one task that are compared with one another.
    pub group: usize,
    /// Groups of a batch.
    pub groups: usize,
    /// Names the start and the order of programs.
    pub seed: u64,
}

impl Default for TrainParams {
    fn default() -> TrainParams {
        TrainParams {
            loss: MlpLoss::Both,
            hidden: 128,
            epochs: 60,
            max_steps: 0,
            rate: 2e-3,
            decay: 1e-3,
            clip: 1.0,
            group: 32,
            groups: 8,
            seed: 0,
        }
    }
}

impl TrainParams {
    /// Whether training can be done with these.
    pub fn check(&self) -> Result<(), CostError> {
        let positive = |name, value: f64| match value > 0.0 && value.is_finite() {
            true => Ok(()),
            false => Err(CostError::Param { name, value, range: "a positive number" }),
        };
        positive("epochs", self.epochs as f64)?;
        positive("rate", self.rate.into())?;
        positive("clip", self.clip.into())?;
        positive("groups", self.groups as f64)?;
        match self.group >= 2 {
            true => Ok(()),
            false => Err(CostError::Param { name: "group", value: self.group as f64, range: "two or more" }),
        }
    }
}

/// What training came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trained {
    /// Steps taken.
    pub steps: usize,
    /// Rows that passed the network.
    pub rows: usize,
    /// The mean loss of the last epoch.
    pub loss: f64,
}

/// One of the parts of a batch: its groups, and the sum of their gradients.
struct Shard {
    groups: Vec<usize>,
    gradient: Vec<f32>,
    loss: f64,
    pass: Pass,
    scores: Vec<f32>,
    by_score: Vec<f32>,
}

impl Mlp {
    /// A new network trained on samples.
    pub fn train(samples: &Samples<'_>, params: &TrainParams) -> Result<(Mlp, Trained), CostError> {
        let inputs = Inputs::of(samples.programs.features)?;
        let mut mlp = Mlp::new(inputs, params.hidden, params.seed)?;
        let trained = mlp.learn(samples, params, None)?;
        Ok((mlp, trained))
    }

    /// Goes on training. The parameters are pulled towards those of `anchor`, if given, so that what it knows of other
    /// tasks is not forgotten.
    pub fn learn(
        &mut self,
        samples: &Samples<'_>,
        params: &TrainParams,
        anchor: Option<&Mlp>,
    ) -> Result<Trained, CostError> {
        params.check()?;
        let programs = self.check(&samples.programs)?;
        let lengths = [("labels", samples.labels.len()), ("tasks", samples.tasks.len())];
        for (what, found) in lengths.into_iter().filter(|(what, n)| *n != 0 || *what == "labels") {
            if found != programs {
                return Err(CostError::Shape { what, expected: programs, found });
            }
        }
        if let Some(at) = samples.labels.iter().position(|l| !l.is_finite()) {
            return Err(CostError::Value {
                what: "labels",
                index: at,
                value: samples.labels[at],
                objective: "network",
                remedy: "pass best time / time, 0 for failures",
            });
        }
        let towards = anchor.map(|a| &a.parameters[..]).filter(|p| p.len() == self.parameters.len());
        let mut order = Order::new(samples, params);
        let per_epoch = order.batches();
        if per_epoch == 0 {
            return Err(CostError::Empty { what: "task with two programs" });
        }
        let limit = if params.max_steps == 0 { usize::MAX } else { params.max_steps };
        let steps = (per_epoch * params.epochs).min(limit);
        let mut adam = Adam::new(self.parameters.len(), params.clip);
        let mut shards: Vec<Shard> = (0..SHARDS).map(|_| Shard::new(self.parameters.len())).collect();
        let mut trained = Trained { steps: 0, rows: 0, loss: 0.0 };
        let (mut last, mut counted) = (0.0, 0);
        let mut total = vec![0.0; self.parameters.len()];
        while trained.steps < steps {
            order.shuffle();
            (last, counted) = (0.0, 0);
            for batch in order.groups.chunks(params.groups) {
                if trained.steps == steps {
                    break;
                }
                let batch: Vec<Group> = batch.iter().map(|programs| Group::new(samples, programs)).collect();
                last += self.gradient_of(&batch, params.loss, &mut shards, &mut total);
                counted += 1;
                trained.rows += batch.iter().map(|g| g.features.rows()).sum::<usize>();
                let rate = params.rate * schedule(trained.steps, steps);
                adam.step(&mut self.parameters, &total, rate, params.decay, towards);
                self.packed.refill(&self.shape, &self.parameters);
                trained.steps += 1;
            }
        }
        trained.loss = last / f64::from(counted.max(1));
        Ok(trained)
    }

    /// The mean gradient of some groups, and their mean loss.
    fn gradient_of(&self, batch: &[Group], loss: MlpLoss, shards: &mut [Shard], total: &mut [f32]) -> f64 {
        for (at, shard) in shards.iter_mut().enumerate() {
            shard.groups.clear();
            shard.groups.extend((at..batch.len()).step_by(SHARDS));
        }
        let rows: usize = batch.iter().map(|g| g.features.rows()).sum();
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let threads = if rows < 128 { 1 } else { cores.min(SHARDS) };
        {
            let queue = Mutex::new(shards.iter_mut());
            let take = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
            let run = || {
                while let Some(shard) = take() {
                    shard.run(self, batch, loss);
                }
            };
            std::thread::scope(|scope| {
                (1..threads).for_each(|_| {
                    scope.spawn(run);
                });
                run();
            });
        }
        let share = 1.0 / batch.len().max(1) as f32;
        total.fill(0.0);
        for shard in shards.iter() {
            total.iter_mut().zip(&shard.gradient).for_each(|(total, g)| *total += g * share);
        }
        shards.iter().map(|s| s.loss).sum::<f64>() / batch.len().max(1) as f64
    }
}

impl Shard {
    fn new(parameters: usize) -> Shard {
        Shard {
            groups: Vec::new(),
            gradient: vec![0.0; parameters],
            loss: 0.0,
            pass: Pass::default(),
            scores: Vec::new(),
            by_score: Vec::new(),
        }
    }

    fn run(&mut self, mlp: &Mlp, batch: &[Group], loss: MlpLoss) {
        self.gradient.fill(0.0);
        self.loss = 0.0;
        for group in self.groups.iter().map(|g| &batch[*g]) {
            let programs = group.labels.len();
            let rows = Batch { features: &group.features, offsets: &group.offsets };
            self.scores.resize(programs, 0.0);
            self.by_score.resize(programs, 0.0);
            self.pass.forward(mlp, &rows, 0..programs, &mut self.scores);
            self.loss += loss.gradient(&self.scores, &group.labels, &mut self.by_score);
            self.pass.by_parameters(mlp, &rows, &self.by_score, &mut self.gradient);
        }
    }
}

/// The share of the full rate at a step: a short rise, then half a cosine down.
fn schedule(step: usize, steps: usize) -> f32 {
    let at = (step as f32 + 0.5) / steps as f32;
    let rise = (at / WARM_UP).min(1.0);
    let fall = 0.5 * (1.0 + (at * std::f32::consts::PI).cos());
    rise * (LAST + (1.0 - LAST) * fall)
}

/// Programs of one task, their rows together.
struct Group {
    features: Matrix,
    offsets: Vec<usize>,
    labels: Vec<f32>,
}

impl Group {
    fn new(samples: &Samples<'_>, programs: &[u32]) -> Group {
        let (features, offsets) = (samples.programs.features, samples.programs.offsets);
        let mut group =
            Group { features: Matrix::with_cols(features.cols()), offsets: vec![0], labels: Vec::new() };
        for program in programs.iter().map(|p| *p as usize) {
            for row in offsets[program]..offsets[program + 1] {
                // Rows of one matrix have the width of another with as many columns.
                let _ = group.features.push_row(features.row(row));
            }
            group.offsets.push(group.features.rows());
            group.labels.push(samples.labels[program]);
        }
        group
    }
}

/// The programs of every task, and the order in which groups of them are seen.
struct Order {
    tasks: Vec<Vec<u32>>,
    groups: Vec<Vec<u32>>,
    size: usize,
    per_batch: usize,
    stream: Stream,
}

impl Order {
    fn new(samples: &Samples<'_>, params: &TrainParams) -> Order {
        let mut by_task: std::collections::BTreeMap<u32, Vec<u32>> = Default::default();
        for program in 0..samples.labels.len() as u32 {
            let task = samples.tasks.get(program as usize).copied().unwrap_or(0);
            by_task.entry(task).or_default().push(program);
        }
        let tasks = by_task.into_values().filter(|programs| programs.len() >= 2).collect();
        let stream = Stream::new(params.seed, 0x006f_7264_6572);
        let mut order =
            Order { tasks, groups: Vec::new(), size: params.group, per_batch: params.groups, stream };
        order.shuffle();
        order
    }

    fn batches(&self) -> usize {
        self.groups.len().div_ceil(self.per_batch)
    }

    /// Cuts every task into groups of about the same size, none of them below two programs, in a new order.
    fn shuffle(&mut self) {
        self.groups.clear();
        for task in &mut self.tasks {
            shuffle(task, &mut self.stream);
            let count = task.len().div_ceil(self.size).min(task.len() / 2);
            let size = task.len().div_ceil(count.max(1));
            self.groups.extend(task.chunks(size).filter(|g| g.len() >= 2).map(<[u32]>::to_vec));
        }
        shuffle(&mut self.groups, &mut self.stream);
    }
}

fn shuffle<T>(items: &mut [T], stream: &mut Stream) {
    for i in (1..items.len()).rev() {
        items.swap(i, stream.below(i + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::pair_accuracy;

    /// Programs of two rows, whose speed is a smooth function of both; tasks differ in a column and in their speeds.
    pub(crate) fn programs(tasks: u32, each: usize, seed: u64) -> (Matrix, Vec<usize>, Vec<f32>, Vec<u32>) {
        let mut stream = Stream::new(seed, 0);
        let (mut features, mut offsets, mut labels, mut numbers) =
            (Matrix::with_cols(6), vec![0], Vec::new(), Vec::new());
        for task in 0..tasks {
            let kind = stream.unit() * 4.0;
            for _ in 0..each {
                let mut cost = 0.0;
                for _ in 0..2 {
                    let x: Vec<f32> = (0..5).map(|_| stream.unit() * 4.0).collect();
                    cost += (x[0] - 2.0).abs() + 0.5 * (x[1] - 0.4 * kind).powi(2) + 0.2 * x[2] * x[3];
                    features.push_row(&[x[0], x[1], x[2], x[3], x[4], kind]).unwrap();
                }
                offsets.push(features.rows());
                labels.push(1.0 / (0.5 + cost));
                numbers.push(task);
            }
        }
        let mut best = vec![0.0f32; tasks as usize];
        labels.iter().zip(&numbers).for_each(|(l, t)| best[*t as usize] = best[*t as usize].max(*l));
        labels.iter_mut().zip(&numbers).for_each(|(l, t)| *l /= best[*t as usize]);
        (features, offsets, labels, numbers)
    }

    fn params() -> TrainParams {
        TrainParams { hidden: 32, epochs: 40, ..TrainParams::default() }
    }

    #[test]
    fn parameter_gradients_are_finite_differences() {
        let (features, offsets, labels, tasks) = programs(1, 6, 3);
        let samples = Samples {
            programs: Batch { features: &features, offsets: &offsets },
            labels: &labels,
            tasks: &tasks,
        };
        let mut mlp = Mlp::new(Inputs::of(&features).unwrap(), 32, 1).unwrap();
        let batch = [Group::new(&samples, &[0, 1, 2, 3, 4, 5])];
        let mut shards: Vec<Shard> = (0..SHARDS).map(|_| Shard::new(mlp.shape.len)).collect();
        let mut gradient = vec![0.0; mlp.shape.len];
        mlp.gradient_of(&batch, MlpLoss::LogSpeed, &mut shards, &mut gradient);
        let shape = mlp.shape.clone();
        let mut checked = 0;
        let starts = shape.layers.iter().flat_map(|l| [l.matrix.start, l.bias.start]);
        for start in starts.chain([shape.output.start]) {
            for (at, found) in gradient.iter().enumerate().skip(start).take(8) {
                let mut moved = |by: f32| {
                    let mut scratch = vec![0.0; shape.len];
                    let before = mlp.parameters[at];
                    mlp.parameters[at] += by;
                    mlp.packed.refill(&shape, &mlp.parameters);
                    let loss = mlp.gradient_of(&batch, MlpLoss::LogSpeed, &mut shards, &mut scratch);
                    mlp.parameters[at] = before;
                    loss
                };
                let expected = (moved(2e-3) - moved(-2e-3)) / 4e-3;
                let found = f64::from(*found);
                assert!((expected - found).abs() < 2e-2 * (0.1 + found.abs()), "{at}: {expected} {found}");
                checked += usize::from(found != 0.0);
            }
        }
        assert!(checked > 40, "{checked}");
    }

    #[test]
    fn a_network_ranks_programs_of_tasks_it_has_not_seen() {
        let (features, offsets, labels, tasks) = programs(16, 32, 1);
        let samples = Samples {
            programs: Batch { features: &features, offsets: &offsets },
            labels: &labels,
            tasks: &tasks,
        };
        let (other, other_offsets, other_labels, other_tasks) = programs(6, 40, 2);
        for loss in [MlpLoss::LogSpeed, MlpLoss::Rank, MlpLoss::Both] {
            let (mlp, trained) = Mlp::train(&samples, &TrainParams { loss, ..params() }).unwrap();
            let scores = mlp.predict(&Batch { features: &other, offsets: &other_offsets }).unwrap();
            let accuracy = pair_accuracy(&other_labels, &scores, &other_tasks).unwrap().unwrap();
            assert!(accuracy > 0.85, "{loss:?}: {accuracy}");
            assert_eq!(trained.rows, 40 * features.rows());
            let (again, _) = Mlp::train(&samples, &TrainParams { loss, ..params() }).unwrap();
            assert_eq!(mlp, again);
        }
    }

    #[test]
    fn a_pull_keeps_what_was_learnt() {
        let (features, offsets, labels, tasks) = programs(12, 32, 1);
        let samples = Samples {
            programs: Batch { features: &features, offsets: &offsets },
            labels: &labels,
            tasks: &tasks,
        };
        let (start, _) = Mlp::train(&samples, &params()).unwrap();
        let (few, few_offsets, _, few_tasks) = programs(1, 24, 9);
        // What is measured now contradicts what was learnt.
        let reversed: Vec<f32> = (0..24).map(|p| few.row(2 * p)[4] / 4.0).collect();
        let news = Samples {
            programs: Batch { features: &few, offsets: &few_offsets },
            labels: &reversed,
            tasks: &few_tasks,
        };
        let accuracy = |mlp: &Mlp, samples: &Samples<'_>| {
            pair_accuracy(samples.labels, &mlp.predict(&samples.programs).unwrap(), samples.tasks)
                .unwrap()
                .unwrap()
        };
        let tune = |decay: f32| {
            let mut mlp = start.clone();
            let params = TrainParams { epochs: 60, rate: 1e-3, decay, ..params() };
            mlp.learn(&news, &params, Some(&start)).unwrap();
            mlp
        };
        let (held, free) = (tune(100.0), tune(0.0));
        assert!(accuracy(&held, &news) > accuracy(&start, &news), "it learns");
        let (kept, lost) = (accuracy(&held, &samples), accuracy(&free, &samples));
        assert!(kept > lost + 0.05 && kept > 0.75, "{kept} with the pull, {lost} without");
    }

    #[test]
    fn bad_data_is_refused() {
        let (features, offsets, labels, tasks) = programs(2, 4, 1);
        let programs = Batch { features: &features, offsets: &offsets };
        let train = |labels: &[f32], tasks: &[u32], params: &TrainParams| {
            Mlp::train(&Samples { programs, labels, tasks }, params).map(|_| ())
        };
        assert!(matches!(train(&labels[1..], &tasks, &params()), Err(CostError::Shape { .. })));
        assert!(matches!(train(&labels, &tasks[1..], &params()), Err(CostError::Shape { .. })));
        assert!(matches!(train(&[f32::NAN; 8], &tasks, &params()), Err(CostError::Value { .. })));
        let alone: Vec<u32> = (0..8).collect();
        assert!(matches!(train(&labels, &alone, &params()), Err(CostError::Empty { .. })));
        for bad in [
            TrainParams { epochs: 0, ..params() },
            TrainParams { rate: f32::NAN, ..params() },
            TrainParams { group: 1, ..params() },
            TrainParams { groups: 0, ..params() },
            TrainParams { hidden: 12, ..params() },
        ] {
            assert!(matches!(train(&labels, &tasks, &bad), Err(CostError::Param { .. })), "{bad:?}");
        }
    }
}
