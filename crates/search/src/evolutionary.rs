//! Evolution on predicted scores, with crossover by node (Ansor).

use std::sync::Arc;

use crate::pool::{Pool, Scored};
use crate::rounds::{Planner, Rounds};
use crate::{Candidate, Domain, Rng, Scorer, diversity};

/// Parameters of [`Evolutionary`].
#[derive(Clone, Debug, PartialEq)]
pub struct EvolutionaryParams {
    /// Candidates of one generation.
    pub population: usize,
    /// Generations of one round.
    pub generations: usize,
    /// Probability that a child is a mutated parent; the others are crossed.
    pub mutation: f64,
    /// The share of the first generation that are the best measured candidates.
    pub measured: f64,
    /// The share of a round that is random. Ansor draws a twentieth; where the model is poor, a fifth finds more.
    pub epsilon: f64,
    /// Candidates of one round.
    pub round: usize,
    /// What a newly covered knob value is worth when a round is chosen, in units of the score range of the pool; 0 is
    /// Ansor's choice, the best scores alone.
    pub diversity: f32,
    /// How many times more candidates than a round needs diversity chooses from.
    pub pool: usize,
}

impl Default for EvolutionaryParams {
    fn default() -> EvolutionaryParams {
        EvolutionaryParams {
            population: 2048,
            generations: 4,
            mutation: 0.85,
            measured: 0.2,
            epsilon: 0.2,
            round: 64,
            diversity: 0.0,
            pool: 2,
        }
    }
}

/// Evolves a population each round, from random and the best measured candidates, and measures the best ones met.
pub struct Evolutionary {
    name: String,
    scorer: Box<dyn Scorer>,
    params: EvolutionaryParams,
    rounds: Rounds,
}

impl Evolutionary {
    /// A search of a domain by any scorer.
    pub fn new(
        domain: Arc<dyn Domain>,
        scorer: Box<dyn Scorer>,
        params: EvolutionaryParams,
        seed: u64,
    ) -> Evolutionary {
        Evolutionary { name: "evolutionary".into(), scorer, params, rounds: Rounds::new(domain, seed) }
    }

    /// The same under the name of a system made of it.
    pub fn named(mut self, name: &str) -> Evolutionary {
        self.name = name.into();
        self
    }

    /// The same with rounds of another size: it learns after each.
    pub fn with_round(mut self, round: usize) -> Evolutionary {
        self.params.round = round;
        self
    }

    /// The best unseen candidates of all generations, best first.
    fn evolve(&mut self, capacity: usize) -> Vec<Scored> {
        let mut pool = Pool::new(capacity);
        let mut population = self.founders();
        for generation in 0..=self.params.generations {
            let scores = self.scorer.score(&population);
            for (candidate, score) in population.iter().zip(&scores) {
                if pool.wants(*score) && !self.rounds.history.knows(candidate) {
                    pool.offer(candidate, *score);
                }
            }
            if generation < self.params.generations {
                population = self.breed(&population, &scores);
            }
        }
        pool.into_best()
    }

    /// The first generation: the best measured and random candidates. Small domains have small populations.
    fn founders(&mut self) -> Vec<Candidate> {
        let size = (self.params.population as f64).min(2.0 * self.rounds.domain.size() + 1.0) as usize;
        let measured = (size as f64 * self.params.measured) as usize;
        let best = self.rounds.history.best(measured);
        let mut out: Vec<Candidate> = best.into_iter().map(|s| s.candidate.clone()).collect();
        while out.len() < size {
            match self.rounds.domain.sample(&mut self.rounds.rng) {
                Some(candidate) => out.push(candidate),
                None => break,
            }
        }
        out
    }

    /// The next generation: parents are drawn in proportion to their scores.
    fn breed(&mut self, population: &[Candidate], scores: &[f32]) -> Vec<Candidate> {
        let wheel = Wheel::new(scores);
        let mut children = Vec::with_capacity(population.len());
        let mut couples = Vec::new();
        for _ in 0..population.len() {
            let a = wheel.spin(&mut self.rounds.rng);
            if self.rounds.rng.chance(self.params.mutation) {
                let parent = &population[a];
                children.push(
                    self.rounds.domain.mutate(parent, &mut self.rounds.rng).unwrap_or_else(|| parent.clone()),
                );
            } else {
                couples.push((a, wheel.spin(&mut self.rounds.rng)));
            }
        }
        // Parents of crossover are scored by node, all in one batch.
        let parents: Vec<Candidate> =
            couples.iter().flat_map(|(a, b)| [population[*a].clone(), population[*b].clone()]).collect();
        let nodes = self.scorer.score_nodes(&parents);
        for (pair, nodes) in parents.chunks_exact(2).zip(nodes.chunks_exact(2)) {
            let (a, b) = ((&pair[0], nodes[0].as_slice()), (&pair[1], nodes[1].as_slice()));
            let child = if nodes[0].is_empty() {
                self.rounds.domain.crossover(a.0, b.0, &mut self.rounds.rng)
            } else {
                self.rounds.domain.crossover_by_node(a, b, &mut self.rounds.rng)
            };
            children.push(child.unwrap_or_else(|| pair[0].clone()));
        }
        children
    }
}

/// Draws positions in proportion to scores, in logarithmic time. Negative scores, which some models give, are
/// shifted up to 0.
struct Wheel {
    sums: Vec<f64>,
}

impl Wheel {
    fn new(scores: &[f32]) -> Wheel {
        let finite = |s: f32| if s.is_finite() { f64::from(s) } else { 0.0 };
        let low = scores.iter().map(|s| finite(*s)).fold(0.0, f64::min);
        let mut total = 0.0;
        let sums = scores.iter().map(|s| {
            total += finite(*s) - low + 1e-9;
            total
        });
        Wheel { sums: sums.collect() }
    }

    fn spin(&self, rng: &mut Rng) -> usize {
        let at = rng.unit() * self.sums.last().copied().unwrap_or(0.0);
        self.sums.partition_point(|sum| *sum <= at).min(self.sums.len().saturating_sub(1))
    }
}

impl Planner for Evolutionary {
    fn name(&self) -> &str {
        &self.name
    }

    fn rounds(&mut self) -> &mut Rounds {
        &mut self.rounds
    }

    /// The best of an evolution, then random candidates.
    fn plan(&mut self) {
        let news = self.rounds.news();
        if !news.is_empty() {
            self.scorer.learn(&news);
        }
        let size = self.params.round.max(1);
        if self.scorer.is_trained() {
            let random = (size as f64 * self.params.epsilon).round() as usize;
            let best = self.evolve(size * self.params.pool.max(1));
            for candidate in diversity::choose(best, size.saturating_sub(random), self.params.diversity) {
                self.rounds.plan(candidate);
            }
        }
        self.rounds.fill(size);
    }

    fn predict(&mut self, candidates: &[Candidate]) -> Option<Vec<f32>> {
        self.scorer.is_trained().then(|| self.scorer.score(candidates))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_are_drawn_in_proportion_to_scores() {
        let wheel = Wheel::new(&[0.1, 0.0, 0.3, f32::NAN]);
        let mut rng = Rng::new(5);
        let mut drawn = [0; 4];
        (0..4000).for_each(|_| drawn[wheel.spin(&mut rng)] += 1);
        assert!(drawn[1] + drawn[3] < 5 && drawn[0] > 800 && drawn[2] > 2 * drawn[0], "{drawn:?}");
        let shifted = Wheel::new(&[-1.0, -0.5]);
        assert!((0..100).all(|_| shifted.spin(&mut rng) == 1));
    }
}
