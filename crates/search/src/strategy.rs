//! The interface of all strategies: ask for candidates, tell what they measured.

use crate::{Candidate, Sample};

/// A search. Deterministic: the same seed and the same answers give the same questions.
///
/// No candidate is proposed twice, nor one that has been told about; telling the samples of an earlier run
/// therefore resumes it.
pub trait Strategy {
    /// The name, as on the command line.
    fn name(&self) -> &str;

    /// Up to `n` new legal candidates; fewer when the space has no more of them or the strategy wants to hear about these
    /// first, none when the space is exhausted.
    fn ask(&mut self, n: usize) -> Vec<Candidate>;

    /// Does ahead what the next [`Strategy::ask`] would do first, with what is known now: nothing that is asked changes.
    fn prepare(&mut self) {}

    /// Reports measurements, asked for or not.
    fn tell(&mut self, samples: &[Sample]);

    /// What the search expects of candidates, larger for faster ones; `None` when it has no model, or an untrained one.
    fn predict(&mut self, candidates: &[Candidate]) -> Option<Vec<f32>> {
        let _ = candidates;
        None
    }
}
