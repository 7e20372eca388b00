//! A genetic algorithm on measured speeds, without a model.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::{Candidate, Domain, Rng, Sample, Strategy, history::History};

/// Parameters of [`Genetic`].
#[derive(Clone, Debug, PartialEq)]
pub struct GeneticParams {
    /// Candidates of one generation.
    pub population: usize,
    /// The best measured candidates that are always among the parents.
    pub elite: usize,
    /// Probability that a child has a knob drawn anew.
    pub mutation: f64,
    /// Attempts at a child nobody has seen before a random candidate takes its place.
    pub attempts: usize,
}

impl Default for GeneticParams {
    fn default() -> GeneticParams {
        GeneticParams { population: 100, elite: 3, mutation: 0.1, attempts: 16 }
    }
}

/// Generations of measured candidates: parents are drawn in proportion to their speed, children take each knob
/// from one of them.
pub struct Genetic {
    domain: Arc<dyn Domain>,
    params: GeneticParams,
    history: History,
    rng: Rng,
    /// Bred or drawn, and not yet asked for.
    queue: VecDeque<Candidate>,
    /// Those of the generation being bred.
    parents: Vec<Sample>,
}

impl Genetic {
    /// A search of a domain.
    pub fn new(domain: Arc<dyn Domain>, params: GeneticParams, seed: u64) -> Genetic {
        let (history, rng) = (History::default(), Rng::new(seed));
        Genetic { domain, params, history, rng, queue: VecDeque::new(), parents: Vec::new() }
    }

    /// The next generation, of the one measured last and the elite: random until something has been measured.
    fn breed(&mut self) {
        let samples = self.history.samples();
        let recent = &samples[samples.len().saturating_sub(self.params.population)..];
        let elite = self.history.best(self.params.elite).into_iter().filter(|e| !recent.contains(e));
        self.parents = recent.iter().chain(elite).cloned().collect();
        let speeds: Vec<f64> = self.parents.iter().map(|s| s.outcome.speed()).collect();
        let size = self.params.population.max(1);
        if speeds.iter().all(|s| *s <= 0.0) {
            self.queue.extend(self.history.draw(&*self.domain, size, &mut self.rng));
            return;
        }
        for _ in 0..size {
            match (0..self.params.attempts).find_map(|_| self.child(&speeds)) {
                Some(child) => self.queue.push_back(child),
                None => self.queue.extend(self.history.draw(&*self.domain, 1, &mut self.rng)),
            }
        }
    }

    /// A child nobody has seen, marked as proposed.
    fn child(&mut self, speeds: &[f64]) -> Option<Candidate> {
        let a = &self.parents[self.rng.weighted(speeds)].candidate;
        let b = &self.parents[self.rng.weighted(speeds)].candidate;
        let mut child = self.domain.crossover(a, b, &mut self.rng).unwrap_or_else(|| a.clone());
        // One chance a knob, as if each were drawn anew on its own.
        for _ in 0..child.values.len() {
            if self.rng.chance(self.params.mutation) {
                child = self.domain.reroll(&child, &mut self.rng)?;
            }
        }
        self.history.propose(&child).then_some(child)
    }
}

impl Strategy for Genetic {
    fn name(&self) -> &str {
        "genetic"
    }

    fn ask(&mut self, n: usize) -> Vec<Candidate> {
        let mut out = Vec::new();
        while out.len() < n {
            if self.queue.is_empty() {
                self.breed();
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
    }
}
