//! Random search: every candidate is drawn on its own.

use std::sync::Arc;

use crate::{Candidate, Domain, Rng, Sample, Strategy, history::History};

/// The strategy every other one has to beat.
pub struct Random {
    domain: Arc<dyn Domain>,
    history: History,
    rng: Rng,
}

impl Random {
    /// A search of a domain.
    pub fn new(domain: Arc<dyn Domain>, seed: u64) -> Random {
        Random { domain, history: History::default(), rng: Rng::new(seed) }
    }
}

impl Strategy for Random {
    fn name(&self) -> &str {
        "random"
    }

    fn ask(&mut self, n: usize) -> Vec<Candidate> {
        self.history.draw(&*self.domain, n, &mut self.rng)
    }

    fn tell(&mut self, samples: &[Sample]) {
        self.history.tell(samples);
    }
}
