//! Simulated annealing on predicted scores (AutoTVM).

use std::sync::Arc;

use crate::pool::{Pool, Scored};
use crate::rounds::{Planner, Rounds};
use crate::{Candidate, Domain, Scorer, diversity};

/// Parameters of [`Annealing`].
#[derive(Clone, Debug, PartialEq)]
pub struct AnnealingParams {
    /// Chains that walk in parallel, and persist from plan to plan.
    pub chains: usize,
    /// Steps of each chain in one plan.
    pub iterations: usize,
    /// The temperature at the first step and after the last, linear between.
    pub temperature: (f32, f32),
    /// Steps without a new candidate among the best that end a plan early.
    pub patience: usize,
    /// Candidates of one plan.
    pub plan: usize,
    /// Candidates of the first plan of a scorer that knows other tasks only; later ones are as large as all before them
    /// together, up to `plan`, so that what does not carry over is found out early.
    pub first_plan: usize,
    /// The share of a plan, its end, that is random.
    pub random: f64,
    /// What a newly covered knob value is worth, in units of the score range of the pool; 0 turns diversity off.
    pub diversity: f32,
    /// How many times more candidates than a plan needs diversity chooses from.
    pub pool: usize,
    /// Random candidates among which a model of other tasks alone chooses the first plan.
    pub seeds: usize,
}

impl Default for AnnealingParams {
    fn default() -> AnnealingParams {
        AnnealingParams {
            chains: 128,
            iterations: 500,
            temperature: (1.0, 0.0),
            patience: 50,
            plan: 64,
            first_plan: 8,
            random: 0.05,
            diversity: 0.02,
            pool: 2,
            seeds: 2048,
        }
    }
}

/// Walks by redrawing one knob at a time, and measures the best candidates met.
pub struct Annealing {
    name: String,
    scorer: Box<dyn Scorer>,
    params: AnnealingParams,
    rounds: Rounds,
    chains: Vec<Candidate>,
}

impl Annealing {
    /// A search of a domain by any scorer.
    pub fn new(
        domain: Arc<dyn Domain>,
        scorer: Box<dyn Scorer>,
        params: AnnealingParams,
        seed: u64,
    ) -> Annealing {
        let rounds = Rounds::new(domain, seed);
        Annealing { name: "annealing".into(), scorer, params, rounds, chains: Vec::new() }
    }

    /// The same under the name of a system made of it.
    pub fn named(mut self, name: &str) -> Annealing {
        self.name = name.into();
        self
    }

    /// The best of many random candidates, best first.
    fn seed(&mut self, capacity: usize) -> Vec<Scored> {
        let mut pool = Pool::new(capacity);
        let drawn: Vec<Candidate> =
            (0..self.params.seeds).filter_map(|_| self.rounds.domain.sample(&mut self.rounds.rng)).collect();
        let scores = self.scorer.score(&drawn);
        self.offer(&mut pool, &drawn, &scores);
        pool.into_best()
    }

    /// Lets the chains walk; the best unseen candidates they met, best first.
    fn anneal(&mut self, capacity: usize) -> Vec<Scored> {
        let mut pool = Pool::new(capacity);
        let wanted = (self.params.chains as f64).min(self.rounds.domain.size().max(1.0)) as usize;
        while self.chains.len() < wanted {
            match self.rounds.domain.sample(&mut self.rounds.rng) {
                Some(candidate) => self.chains.push(candidate),
                None => return Vec::new(),
            }
        }
        let mut scores = self.scorer.score(&self.chains);
        self.offer(&mut pool, &self.chains, &scores);
        let (from, to) = self.params.temperature;
        let mut since_change = 0;
        for step in 0..self.params.iterations {
            let temperature = from + (to - from) * step as f32 / self.params.iterations as f32;
            let moves: Vec<Candidate> = self
                .chains
                .iter()
                .map(|c| self.rounds.domain.reroll(c, &mut self.rounds.rng).unwrap_or_else(|| c.clone()))
                .collect();
            let new = self.scorer.score(&moves);
            let is_changed = self.offer(&mut pool, &moves, &new);
            for (at, candidate) in moves.into_iter().enumerate() {
                let gain = new[at] - scores[at];
                let accept = if gain >= 0.0 { 1.0 } else { (gain / temperature.max(1e-5)).exp() };
                if self.rounds.rng.chance(f64::from(accept)) {
                    (self.chains[at], scores[at]) = (candidate, new[at]);
                }
            }
            since_change = if is_changed { 0 } else { since_change + 1 };
            if since_change >= self.params.patience {
                break;
            }
        }
        pool.into_best()
    }

    /// Offers the unseen ones to the pool; true when one got in.
    fn offer(&self, pool: &mut Pool, candidates: &[Candidate], scores: &[f32]) -> bool {
        let mut is_changed = false;
        for (candidate, score) in candidates.iter().zip(scores) {
            if pool.wants(*score) && !self.rounds.history.knows(candidate) {
                is_changed |= pool.offer(candidate, *score);
            }
        }
        is_changed
    }
}

impl Planner for Annealing {
    fn name(&self) -> &str {
        &self.name
    }

    fn rounds(&mut self) -> &mut Rounds {
        &mut self.rounds
    }

    /// Learnt choices first, then random ones.
    fn plan(&mut self) {
        let news = self.rounds.news();
        if !news.is_empty() {
            self.scorer.learn(&news);
        }
        let size = match self.scorer.is_transferred() {
            true => self.rounds.history.samples().len().max(self.params.first_plan).min(self.params.plan),
            false => self.params.plan,
        };
        let size = size.max(1);
        if self.scorer.is_trained() {
            let random = (size as f64 * self.params.random).round() as usize;
            let capacity = size * self.params.pool.max(1);
            let pool = if self.scorer.is_borrowed() { self.seed(capacity) } else { self.anneal(capacity) };
            for candidate in diversity::choose(pool, size.saturating_sub(random), self.params.diversity) {
                self.rounds.plan(candidate);
            }
        }
        self.rounds.fill(size);
    }

    fn predict(&mut self, candidates: &[Candidate]) -> Option<Vec<f32>> {
        self.scorer.is_trained().then(|| self.scorer.score(candidates))
    }
}
