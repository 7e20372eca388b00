//! Strategies that plan candidates a round at a time: what they have in common, and asking and telling on top of it.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::{Candidate, Domain, Rng, Sample, Strategy, history::History};

/// What every planning strategy keeps: what it searches, what it has proposed and been told, and the round under way.
pub struct Rounds {
    /// What is searched.
    pub domain: Arc<dyn Domain>,
    /// Proposed and told candidates.
    pub history: History,
    /// The one random stream.
    pub rng: Rng,
    /// Planned, and not yet asked for.
    queue: VecDeque<Candidate>,
    /// Samples of the history that [`Rounds::news`] has given.
    given: usize,
}

impl Rounds {
    /// Nothing planned yet.
    pub fn new(domain: Arc<dyn Domain>, seed: u64) -> Rounds {
        Rounds { domain, history: History::default(), rng: Rng::new(seed), queue: VecDeque::new(), given: 0 }
    }

    /// Plans a candidate; false when it has been proposed or told before.
    pub fn plan(&mut self, candidate: Candidate) -> bool {
        let is_new = self.history.propose(&candidate);
        if is_new {
            self.queue.push_back(candidate);
        }
        is_new
    }

    /// Plans random candidates until `size` are planned, as far as the domain has any.
    pub fn fill(&mut self, size: usize) {
        let missing = size.saturating_sub(self.queue.len());
        self.queue.extend(self.history.draw(&*self.domain, missing, &mut self.rng));
    }

    /// Candidates planned and not yet asked for.
    pub fn planned(&self) -> usize {
        self.queue.len()
    }

    /// The samples told since the last call.
    pub fn news(&mut self) -> Vec<Sample> {
        let news = self.history.samples()[self.given..].to_vec();
        self.given += news.len();
        news
    }
}

/// A strategy that plans in rounds; [`Strategy`] follows from it.
pub trait Planner {
    /// The name, as on the command line.
    fn name(&self) -> &str;

    /// What it keeps.
    fn rounds(&mut self) -> &mut Rounds;

    /// Plans the next round; nothing when the domain is exhausted.
    fn plan(&mut self);

    /// Called when samples were told: what it can learn from them at once.
    fn told(&mut self) {}

    /// What it expects of candidates, as [`Strategy::predict`] says.
    fn predict(&mut self, candidates: &[Candidate]) -> Option<Vec<f32>> {
        let _ = candidates;
        None
    }
}

impl<P: Planner> Strategy for P {
    fn name(&self) -> &str {
        Planner::name(self)
    }

    /// Never more than the round under way has left: the next one is planned when those have been told.
    fn ask(&mut self, n: usize) -> Vec<Candidate> {
        self.prepare();
        let queue = &mut self.rounds().queue;
        queue.drain(..n.min(queue.len())).collect()
    }

    fn prepare(&mut self) {
        if self.rounds().queue.is_empty() {
            self.plan();
        }
    }

    fn tell(&mut self, samples: &[Sample]) {
        self.rounds().history.tell(samples);
        self.told();
    }

    fn predict(&mut self, candidates: &[Candidate]) -> Option<Vec<f32>> {
        Planner::predict(self, candidates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Outcome;
    use crate::testing::Lattice;

    /// Plans three random candidates a round.
    struct Threes {
        rounds: Rounds,
        learnt: Vec<usize>,
    }

    impl Planner for Threes {
        fn name(&self) -> &str {
            "threes"
        }

        fn rounds(&mut self) -> &mut Rounds {
            &mut self.rounds
        }

        fn plan(&mut self) {
            self.learnt.push(self.rounds.news().len());
            self.rounds.fill(3);
        }
    }

    #[test]
    fn rounds_are_planned_when_the_last_is_used_up() {
        let mut threes = Threes { rounds: Rounds::new(Arc::new(Lattice::tiles(8)), 1), learnt: Vec::new() };
        let first = threes.ask(2);
        threes.tell(&first.iter().map(|c| Sample::new(c.clone(), Outcome::Failed)).collect::<Vec<_>>());
        assert_eq!((first.len(), threes.rounds.planned(), threes.learnt.as_slice()), (2, 1, &[0][..]));
        assert_eq!(threes.ask(5).len(), 1);
        assert_eq!(threes.ask(5).len(), 3);
        assert_eq!((threes.rounds.planned(), threes.learnt.as_slice()), (0, &[0, 2][..]));
        threes.prepare();
        threes.prepare();
        assert_eq!((threes.rounds.planned(), threes.learnt.as_slice()), (3, &[0, 2, 0][..]));
        assert_eq!(threes.ask(5).len(), 3);
        assert!(!threes.rounds.plan(first[0].clone()));
        assert_eq!(threes.rounds.planned(), 0);
    }
}
