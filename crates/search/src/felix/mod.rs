//! Gradient descent over schedules (Felix): knobs as real variables, features as smooth formulas of them, a model whose
//! scores have derivatives.
//!
//! A round takes seeds in every sketch (random ones that score well, and the fastest measured), lets all of them follow
//! the gradient of their scores at a width that narrows, rounds what they meet to legal candidates, scores these exactly,
//! and measures the best, beside variations of the fastest measured so far.
//!
//! The first rounds are short and do not descend: the best-scored of random candidates can be measured before formulas
//! are made, which takes longer than measuring them, and what a few samples teach is worth more than a longer round.
//!
//! | module | holds |
//! |---|---|
//! | [`scorer`] | what descent needs of a model, and models that tasks share |
//! | [`descent`] | the descent itself |
//! | [`hidden`] | a small model that is fitted in one go |
//! | `network` | the network as a model |
//! | `blend` | the network beside trees of the samples of a search |

mod blend;
pub mod descent;
pub mod hidden;
mod network;
pub mod scorer;

use std::collections::HashSet;
use std::sync::Arc;

use talweg_features::{FeatureError, Machine, SmoothOptions, SmoothProgram};
use talweg_space::{Relaxation, Sketch, Space};
use talweg_target::Target;

use crate::felix::descent::{DescentParams, Group, descend};
use crate::felix::scorer::SharedScorer;
use crate::pool::Pool;
use crate::rounds::{Planner, Rounds};
use crate::space_domain::SpaceDomain;
use crate::{Candidate, Features, Rng, SpaceFeatures, diversity, parallel};

/// Parameters of [`Felix`].
#[derive(Clone, Debug, PartialEq)]
pub struct FelixParams {
    /// Candidates of one round.
    pub round: usize,
    /// Candidates of the first round, which does without formulas; with 0 it is a round like the others.
    pub opening: usize,
    /// Whether rounds after the opening are as long as what has been measured of the task, until they are whole.
    pub grows: bool,
    /// Samples of the task from which on rounds descend.
    pub descends_from: usize,
    /// Points that descend in each sketch; multiples of 64 use whole blocks of the tape.
    pub seeds: usize,
    /// Random candidates drawn for each seed that is not a measured one; the best scores are kept.
    pub draws: usize,
    /// The share of a sketch's seeds that start near its fastest measured candidates.
    pub measured: f64,
    /// Steps of a descent, at most.
    pub steps: usize,
    /// Gradients of one round, about: with many sketches there are fewer steps. With 0 there is no descent.
    pub gradients: usize,
    /// The share of a round that varies the fastest measured candidates: what the model is wrong about, measuring knows.
    pub local: f64,
    /// The share of a round that is random.
    pub epsilon: f64,
    /// What a newly covered knob value is worth when a round is chosen, in units of the score range of the pool.
    pub diversity: f32,
    /// How often the best rounded candidates are replaced by better neighbours, one knob one step away.
    pub polish: usize,
    /// The descent.
    pub descent: DescentParams,
    /// The formulas.
    pub formulas: SmoothOptions,
}

impl Default for FelixParams {
    fn default() -> FelixParams {
        FelixParams {
            round: 32,
            opening: 8,
            grows: true,
            descends_from: 40,
            seeds: 64,
            draws: 8,
            measured: 0.5,
            steps: 48,
            gradients: 10_000,
            local: 0.25,
            epsilon: 0.05,
            diversity: 0.02,
            polish: 3,
            descent: DescentParams::default(),
            // What rewriting takes is more than what shorter formulas save within minutes.
            formulas: SmoothOptions { rewrites: false },
        }
    }
}

impl FelixParams {
    /// The same for one of so many tasks that are tuned together: with many, their openings are shorter, so that none waits
    /// long for its first, and the rounds after them do not grow: the model they share has learnt from all openings by then,
    /// and many short rounds would be many fits of it.
    pub fn among(&self, tasks: usize) -> FelixParams {
        let opening = (OPENINGS / tasks.max(1)).clamp(SHORTEST_OPENING, self.opening.max(SHORTEST_OPENING));
        FelixParams { opening: opening.min(self.opening), grows: self.grows && tasks <= 1, ..self.clone() }
    }
}

/// Candidates of all openings together, about, and those of one at least.
const OPENINGS: usize = 64;
const SHORTEST_OPENING: usize = 3;
/// Fastest measured candidates that are varied, and variations of each.
const VARIED: usize = 6;
const VARIATIONS: usize = 24;
/// Candidates that are polished.
const POLISHED: usize = 48;
/// How far from a measured candidate a seed starts, in logarithms.
const SHAKE: f64 = 0.2;
/// Steps of a descent, at least.
const MIN_STEPS: usize = 12;

/// Descends each round from random and the best measured candidates.
pub struct Felix {
    name: String,
    space: Arc<Space>,
    target: Target,
    /// Threads of the candidates' parallel loops.
    threads: usize,
    rounds: Rounds,
    /// Made when they are first needed; none for a sketch whose formulas cannot be smoothed, which takes part without
    /// descending.
    programs: Vec<Option<SmoothProgram>>,
    features: SpaceFeatures,
    scorer: SharedScorer,
    task: u32,
    params: FelixParams,
}

impl Felix {
    /// A search of a space by any differentiable model. Tasks that share a model have numbers of their own.
    pub fn new<'a>(
        space: &Arc<Space>,
        machine: impl Into<Machine<'a>>,
        scorer: SharedScorer,
        task: u32,
        params: FelixParams,
        seed: u64,
    ) -> Result<Felix, FeatureError> {
        let machine = machine.into();
        Ok(Felix {
            name: "felix".into(),
            space: space.clone(),
            target: machine.target.clone(),
            threads: machine.threads,
            rounds: Rounds::new(Arc::new(SpaceDomain::new(space.clone())), seed),
            programs: Vec::new(),
            features: SpaceFeatures::new(space, machine, Features::Stores)?,
            scorer,
            task,
            params,
        })
    }

    /// The smooth formulas of every sketch that has them.
    pub fn programs(&mut self) -> &[Option<SmoothProgram>] {
        if self.programs.is_empty() {
            let (machine, options) = (Machine::new(&self.target, self.threads), self.params.formulas);
            let compile = |s: &Sketch| smooth_program(s, machine, options).ok();
            self.programs = parallel::map(&self.space.sketches, self.params.descent.threads, &compile);
        }
        &self.programs
    }

    /// Measures so many candidates a round.
    pub fn with_round(mut self, round: usize) -> Felix {
        self.params.round = round;
        self
    }

    /// Scores candidates exactly and keeps the best unseen ones; false when none is among the best so far.
    fn offer(&mut self, candidates: &[Candidate], pool: &mut Pool) -> bool {
        let scores = self.scorer.score(&self.features, candidates);
        let mut changed = false;
        for (candidate, score) in candidates.iter().zip(&scores) {
            if score.is_finite() && pool.wants(*score) && !self.rounds.history.knows(candidate) {
                changed |= pool.offer(candidate, *score);
            }
        }
        changed
    }

    /// The best of random candidates of all sketches, and the rounded ones that descents from there meet.
    fn descend(&mut self, steps: usize) -> Vec<Candidate> {
        let space = self.space.clone();
        let relaxations: Vec<Relaxation<'_>> = space.sketches.iter().map(Relaxation::new).collect();
        let near: Vec<Vec<Vec<f64>>> =
            relaxations.iter().enumerate().map(|(sketch, r)| self.near_measured(sketch, r)).collect();
        let count = self.params.seeds.max(1);
        let draws = |near: &Vec<Vec<f64>>| (count - near.len()) * self.params.draws.max(1);
        let wanted: Vec<(usize, usize, Rng)> =
            near.iter().enumerate().map(|(at, near)| (at, draws(near), self.rounds.rng.fork())).collect();
        let draw = |(sketch, draws, rng): &(usize, usize, Rng)| -> Vec<Candidate> {
            let mut rng = rng.clone();
            (0..*draws).map(|_| space.sample_in(*sketch, &mut rng)).collect()
        };
        let drawn = parallel::map(&wanted, self.params.descent.threads, &draw);
        let (mut seeds, mut met) = (Vec::new(), Vec::new());
        for ((mut points, drawn), relaxation) in near.into_iter().zip(drawn).zip(&relaxations) {
            let best = self.best_scored(drawn, count - points.len());
            points.extend(best.iter().map(|candidate| relaxation.point(&candidate.values)));
            seeds.push(points.concat());
            met.extend(best);
        }
        if steps > 0 {
            self.programs();
            let groups = seeds.into_iter().enumerate().filter_map(|(sketch, points)| {
                let program = self.programs[sketch].as_ref()?;
                Some(Group { sketch, relaxation: &relaxations[sketch], program, points })
            });
            let groups: Vec<Group<'_>> = groups.collect();
            let found = self.scorer.with(|scorer| descend(groups, steps, scorer, &self.params.descent));
            met.extend(found.into_iter().flatten());
        }
        let mut seen = HashSet::new();
        met.retain(|c| seen.insert(c.clone()));
        met
    }

    /// Candidates of the coming round, when so many samples of the task are known.
    fn size(&self, told: usize) -> usize {
        let FelixParams { round, opening, grows, .. } = self.params;
        let wanted = match (told, opening) {
            (0, 0) => round,
            (0, opening) => opening,
            (told, opening) if grows => told.max(opening),
            _ => round,
        };
        // Before a model knows anything, a round is what it learns from.
        let wanted = if self.scorer.is_trained() { wanted } else { round };
        wanted.clamp(1, round.max(1))
    }

    /// Steps of each descent of the coming round, when so many samples of the task are known.
    fn steps(&self, told: usize) -> usize {
        let points = self.params.seeds.max(1) * self.space.sketches.len().max(1);
        let is_early = (self.params.opening > 0 && told == 0) || told < self.params.descends_from;
        match self.params.gradients {
            gradients if is_early || gradients == 0 => 0,
            gradients => (gradients / points).clamp(MIN_STEPS, self.params.steps.max(MIN_STEPS)),
        }
    }

    /// Points near the fastest measured candidates of a sketch.
    fn near_measured(&mut self, sketch: usize, relaxation: &Relaxation<'_>) -> Vec<Vec<f64>> {
        let near = (self.params.seeds.max(1) as f64 * self.params.measured) as usize;
        let best = self.rounds.history.best(near * 4);
        let fastest = best.into_iter().filter(|s| s.candidate.sketch == sketch).take(near);
        let mut points = Vec::new();
        for sample in fastest {
            let from = relaxation.point(&sample.candidate.values);
            points.push(relaxation.shaken(&from, SHAKE, &mut self.rounds.rng));
        }
        points
    }

    /// So many candidates with the best scores.
    fn best_scored(&mut self, candidates: Vec<Candidate>, count: usize) -> Vec<Candidate> {
        let scores = self.scorer.score(&self.features, &candidates);
        let mut scored: Vec<(f32, Candidate)> = scores.into_iter().zip(candidates).collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0));
        scored.truncate(count);
        scored.into_iter().map(|(_, candidate)| candidate).collect()
    }

    /// Plans the best-scored variations of the fastest measured candidates.
    fn plan_variations(&mut self, count: usize) {
        let fastest: Vec<Candidate> =
            self.rounds.history.best(VARIED).into_iter().map(|s| s.candidate.clone()).collect();
        let mut varied = Vec::new();
        for candidate in &fastest {
            for _ in 0..VARIATIONS {
                varied.extend(self.rounds.domain.mutate(candidate, &mut self.rounds.rng));
            }
        }
        let mut pool = Pool::new(count);
        self.offer(&varied, &mut pool);
        for scored in pool.into_best() {
            self.rounds.plan(scored.candidate);
        }
    }

    /// Candidates one step of one knob away from the best.
    fn neighbours(&self, pool: &Pool) -> Vec<Candidate> {
        let mut out = Vec::new();
        let mut seen = HashSet::new();
        for scored in pool.clone().into_best().into_iter().take(POLISHED) {
            let sketch = &self.space.sketches[scored.candidate.sketch];
            for (k, knob) in sketch.knobs.iter().enumerate() {
                let Ok(at) = knob.domain.binary_search(&scored.candidate.values[k]) else { continue };
                for to in [at.checked_sub(1), Some(at + 1)].into_iter().flatten() {
                    let Some(value) = knob.domain.get(to) else { continue };
                    let mut next = scored.candidate.clone();
                    next.values[k] = *value;
                    if sketch.satisfies(&next.values) && seen.insert(next.clone()) {
                        out.push(next);
                    }
                }
            }
        }
        out
    }
}

/// The smooth formulas of a sketch.
pub fn smooth_program<'a>(
    sketch: &Sketch,
    machine: impl Into<Machine<'a>>,
    options: SmoothOptions,
) -> Result<SmoothProgram, FeatureError> {
    let relaxed = Relaxation::new(sketch);
    let (symbols, ranges, limits) = (relaxed.symbols(), relaxed.ranges(), relaxed.constraints());
    SmoothProgram::new(&sketch.nest, &symbols, &ranges, &limits, machine, options)
}

impl Planner for Felix {
    fn name(&self) -> &str {
        &self.name
    }

    fn rounds(&mut self) -> &mut Rounds {
        &mut self.rounds
    }

    /// Learns at once: other tasks that share the model may be asked before this one is again.
    fn told(&mut self) {
        let news = self.rounds.news();
        if !news.is_empty() {
            self.scorer.learn(&self.features, self.task, &news);
        }
    }

    /// Variations of the fastest, the best of a descent, then random candidates.
    fn plan(&mut self) {
        let told = self.rounds.history.samples().len();
        let size = self.size(told);
        if self.scorer.is_trained() {
            let random = (size as f64 * self.params.epsilon).round() as usize;
            self.plan_variations((size as f64 * self.params.local).round() as usize);
            let met = self.descend(self.steps(told));
            let mut pool = Pool::new(size * 4);
            self.offer(&met, &mut pool);
            for _ in 0..self.params.polish {
                let neighbours = self.neighbours(&pool);
                if !self.offer(&neighbours, &mut pool) {
                    break;
                }
            }
            let best = pool.into_best();
            let rest = size.saturating_sub(random + self.rounds.planned());
            for candidate in diversity::choose(best, rest, self.params.diversity) {
                self.rounds.plan(candidate);
            }
        }
        self.rounds.fill(size);
    }

    fn predict(&mut self, candidates: &[Candidate]) -> Option<Vec<f32>> {
        self.scorer.is_trained().then(|| self.scorer.score(&self.features, candidates))
    }
}
