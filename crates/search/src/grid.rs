//! Grid search: every candidate of the domain, in its order.

use std::sync::Arc;

use crate::{Candidate, Domain, Sample, Strategy, history::History};

/// Lists the domain. The only strategy that is sure to find the best candidate, in spaces small enough.
pub struct Grid {
    domain: Arc<dyn Domain>,
    history: History,
    last: Option<Candidate>,
    is_done: bool,
}

impl Grid {
    /// A search of a domain, from its first candidate.
    pub fn new(domain: Arc<dyn Domain>) -> Grid {
        Grid { domain, history: History::default(), last: None, is_done: false }
    }
}

impl Strategy for Grid {
    fn name(&self) -> &str {
        "grid"
    }

    fn ask(&mut self, n: usize) -> Vec<Candidate> {
        let mut out = Vec::new();
        while out.len() < n && !self.is_done {
            match self.domain.next(self.last.as_ref()) {
                Some(candidate) => {
                    if self.history.propose(&candidate) {
                        out.push(candidate.clone());
                    }
                    self.last = Some(candidate);
                }
                None => self.is_done = true,
            }
        }
        out
    }

    fn tell(&mut self, samples: &[Sample]) {
        self.history.tell(samples);
    }
}
