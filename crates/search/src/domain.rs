//! What a strategy searches: points it can draw, vary, cross and list.

use crate::{Candidate, Rng};

/// A set of legal candidates. Implemented for [`talweg_space::Space`] and by the synthetic spaces of
/// [`crate::testing`].
///
/// Every candidate a method returns is legal. All of them are pure: the random stream is the only source of variety.
pub trait Domain: Send + Sync {
    /// A random candidate; `None` when the domain is empty.
    fn sample(&self, rng: &mut Rng) -> Option<Candidate>;

    /// A neighbour of a candidate by a small structural change (Ansor: move a factor between two tile levels).
    fn mutate(&self, candidate: &Candidate, rng: &mut Rng) -> Option<Candidate>;

    /// The candidate with one knob drawn anew (AutoTVM's move).
    fn reroll(&self, candidate: &Candidate, rng: &mut Rng) -> Option<Candidate>;

    /// A child that takes each knob from one of its parents; candidates of different sketches have none.
    fn crossover(&self, a: &Candidate, b: &Candidate, rng: &mut Rng) -> Option<Candidate>;

    /// A child that takes the knobs of each node from the parent whose node has the higher score. Scores are one
    /// number a node, as [`crate::Scorer::score_nodes`] gives them.
    fn crossover_by_node(
        &self,
        a: (&Candidate, &[f32]),
        b: (&Candidate, &[f32]),
        rng: &mut Rng,
    ) -> Option<Candidate>;

    /// Whether a candidate is in the domain.
    fn contains(&self, candidate: &Candidate) -> bool;

    /// The candidate after the given one in a fixed order, the first one after `None`; `None` after the last.
    fn next(&self, after: Option<&Candidate>) -> Option<Candidate>;

    /// About how many candidates there are.
    fn size(&self) -> f64;
}
