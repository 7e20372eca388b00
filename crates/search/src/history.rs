//! What a strategy has proposed and been told, and fresh random candidates.

use std::collections::HashSet;

use crate::{Candidate, Domain, Rng, Sample};

/// Draws per wanted candidate before a domain is taken for nearly exhausted.
const DRAWS: usize = 32;
/// Domains up to this size are listed to find the candidates random draws miss.
const LISTED: f64 = 200_000.0;

/// The memory of a strategy.
#[derive(Clone, Debug, Default)]
pub struct History {
    seen: HashSet<Candidate>,
    samples: Vec<Sample>,
}

impl History {
    /// Marks a candidate as proposed; false when it already was.
    pub fn propose(&mut self, candidate: &Candidate) -> bool {
        self.seen.insert(candidate.clone())
    }

    /// Whether a candidate has been proposed or told.
    pub fn knows(&self, candidate: &Candidate) -> bool {
        self.seen.contains(candidate)
    }

    /// Records samples.
    pub fn tell(&mut self, samples: &[Sample]) {
        self.seen.extend(samples.iter().map(|s| s.candidate.clone()));
        self.samples.extend_from_slice(samples);
    }

    /// All samples, in the order they were told.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// The fastest `n` samples, fastest first; of equally fast ones the earlier first.
    pub fn best(&self, n: usize) -> Vec<&Sample> {
        let mut ok: Vec<&Sample> = self.samples.iter().filter(|s| s.outcome.seconds().is_some()).collect();
        ok.sort_by(|a, b| b.outcome.speed().total_cmp(&a.outcome.speed()));
        ok.truncate(n);
        ok
    }

    /// Proposes up to `n` random candidates nobody has seen; fewer only when the domain has no more, as far as
    /// drawing and, in small domains, listing can tell.
    pub fn draw(&mut self, domain: &dyn Domain, n: usize, rng: &mut Rng) -> Vec<Candidate> {
        let mut out = Vec::with_capacity(n);
        let mut misses = 0;
        while out.len() < n && misses < DRAWS * (n + 8) {
            let Some(candidate) = domain.sample(rng) else { return out };
            if self.propose(&candidate) {
                out.push(candidate);
            } else {
                misses += 1;
            }
        }
        if out.len() < n && domain.size() <= LISTED {
            let mut rest = Vec::new();
            let mut at = domain.next(None);
            while let Some(candidate) = at {
                at = domain.next(Some(&candidate));
                if !self.knows(&candidate) {
                    rest.push(candidate);
                }
            }
            rng.shuffle(&mut rest);
            rest.truncate(n - out.len());
            rest.iter().for_each(|c| {
                self.propose(c);
            });
            out.extend(rest);
        }
        out
    }
}
