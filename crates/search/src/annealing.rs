//! Simulated annealing on predicted scores (AutoTVM).

use std::collections::VecDeque;
use std::sync::Arc;

use crate::pool::{Pool, Scored};
use crate::{Candidate, Domain, Rng, Sample, Scorer, Strategy, diversity, history::History};

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
    domain: Arc<dyn Domain>,
    scorer: Box<dyn Scorer>,
    params: AnnealingParams,
    history: History,
    rng: Rng,
    chains: Vec<Candidate>,
    /// Planned, and not yet asked for.
    queue: VecDeque<Candidate>,
    /// Told, and not yet learnt.
    pending: Vec<Sample>,
}

impl Annealing {
    /// A search of a domain by any scorer.
    pub fn new(
        domain: Arc<dyn Domain>,
        scorer: Box<dyn Scorer>,
        params: AnnealingParams,
        seed: u64,
    ) -> Annealing {
        Annealing {
            name: "annealing".into(),
            domain,
            scorer,
            params,
            history: History::default(),
            rng: Rng::new(seed),
            chains: Vec::new(),
            queue: VecDeque::new(),
            pending: Vec::new(),
        }
    }

    /// The same under the name of a system made of it.
    pub fn named(mut self, name: &str) -> Annealing {
        self.name = name.into();
        self
    }

    /// Fills the queue: learnt choices first, then random ones.
    fn plan(&mut self) {
        if !self.pending.is_empty() {
            self.scorer.learn(&std::mem::take(&mut self.pending));
        }
        let size = self.params.plan.max(1);
        if self.scorer.is_trained() {
            let random = (size as f64 * self.params.random).round() as usize;
            let capacity = size * self.params.pool.max(1);
            let pool = if self.scorer.is_borrowed() { self.seed(capacity) } else { self.anneal(capacity) };
            let chosen = diversity::choose(pool, size.saturating_sub(random), self.params.diversity);
            for candidate in chosen {
                if self.history.propose(&candidate) {
                    self.queue.push_back(candidate);
                }
            }
        }
        let missing = size.saturating_sub(self.queue.len());
        self.queue.extend(self.history.draw(&*self.domain, missing, &mut self.rng));
    }

    /// The best of many random candidates, best first.
    fn seed(&mut self, capacity: usize) -> Vec<Scored> {
        let mut pool = Pool::new(capacity);
        let drawn: Vec<Candidate> =
            (0..self.params.seeds).filter_map(|_| self.domain.sample(&mut self.rng)).collect();
        let scores = self.scorer.score(&drawn);
        self.offer(&mut pool, &drawn, &scores);
        pool.into_best()
    }

    /// Lets the chains walk; the best unseen candidates they met, best first.
    fn anneal(&mut self, capacity: usize) -> Vec<Scored> {
        let mut pool = Pool::new(capacity);
        let wanted = (self.params.chains as f64).min(self.domain.size().max(1.0)) as usize;
        while self.chains.len() < wanted {
            match self.domain.sample(&mut self.rng) {
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
                .map(|c| self.domain.reroll(c, &mut self.rng).unwrap_or_else(|| c.clone()))
                .collect();
            let new = self.scorer.score(&moves);
            let is_changed = self.offer(&mut pool, &moves, &new);
            for (at, candidate) in moves.into_iter().enumerate() {
                let gain = new[at] - scores[at];
                let accept = if gain >= 0.0 { 1.0 } else { (gain / temperature.max(1e-5)).exp() };
                if self.rng.chance(f64::from(accept)) {
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
            if pool.wants(*score) && !self.history.knows(candidate) {
                is_changed |= pool.offer(candidate, *score);
            }
        }
        is_changed
    }
}

impl Strategy for Annealing {
    fn name(&self) -> &str {
        &self.name
    }

    fn ask(&mut self, n: usize) -> Vec<Candidate> {
        let mut out = Vec::new();
        while out.len() < n {
            if self.queue.is_empty() {
                self.plan();
            }
            match self.queue.pop_front() {
                Some(candidate) => out.push(candidate),
                None => break,
            }
        }
        out
    }

    fn tell(&mut self, samples: &[Sample]) {
        self.history.tell(samples);
        self.pending.extend_from_slice(samples);
    }

    fn predict(&mut self, candidates: &[Candidate]) -> Option<Vec<f32>> {
        self.scorer.is_trained().then(|| self.scorer.score(candidates))
    }
}
