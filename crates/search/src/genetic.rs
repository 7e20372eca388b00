//! A genetic algorithm on measured speeds, without a model.

use std::sync::Arc;

use crate::rounds::{Planner, Rounds};
use crate::{Candidate, Domain, Sample};

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
    params: GeneticParams,
    rounds: Rounds,
    /// Those of the generation being bred.
    parents: Vec<Sample>,
}

impl Genetic {
    /// A search of a domain.
    pub fn new(domain: Arc<dyn Domain>, params: GeneticParams, seed: u64) -> Genetic {
        Genetic { params, rounds: Rounds::new(domain, seed), parents: Vec::new() }
    }

    /// A child of two parents.
    fn child(&mut self, speeds: &[f64]) -> Option<Candidate> {
        let a = &self.parents[self.rounds.rng.weighted(speeds)].candidate;
        let b = &self.parents[self.rounds.rng.weighted(speeds)].candidate;
        let mut child = self.rounds.domain.crossover(a, b, &mut self.rounds.rng).unwrap_or_else(|| a.clone());
        // One chance a knob, as if each were drawn anew on its own.
        for _ in 0..child.values.len() {
            if self.rounds.rng.chance(self.params.mutation) {
                child = self.rounds.domain.reroll(&child, &mut self.rounds.rng)?;
            }
        }
        Some(child)
    }
}

impl Planner for Genetic {
    fn name(&self) -> &str {
        "genetic"
    }

    fn rounds(&mut self) -> &mut Rounds {
        &mut self.rounds
    }

    /// The next generation, of the one measured last and the elite: random until something has been measured.
    fn plan(&mut self) {
        let samples = self.rounds.history.samples();
        let recent = &samples[samples.len().saturating_sub(self.params.population)..];
        let elite = self.rounds.history.best(self.params.elite).into_iter().filter(|e| !recent.contains(e));
        self.parents = recent.iter().chain(elite).cloned().collect();
        let speeds: Vec<f64> = self.parents.iter().map(|s| s.outcome.speed()).collect();
        let size = self.params.population.max(1);
        if speeds.iter().any(|s| *s > 0.0) {
            for _ in 0..size {
                let is_planned = (0..self.params.attempts).any(|_| match self.child(&speeds) {
                    Some(child) => self.rounds.plan(child),
                    None => false,
                });
                if !is_planned {
                    self.rounds.fill(self.rounds.planned() + 1);
                }
            }
            return;
        }
        self.rounds.fill(size);
    }
}
