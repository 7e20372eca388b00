//! The two systems, as combinations of the parts of this crate; any other combination is as easily made.

use std::sync::Arc;

use talweg_cost::Trees;
use talweg_features::{FeatureError, Machine};
use talweg_space::Space;

use crate::featurize::Features;
use crate::learned::{ModelScorer, SharedModel};
use crate::space_domain::SpaceDomain;
use crate::{Annealing, AnnealingParams, Evolutionary, EvolutionaryParams};

/// What a newly covered knob value is worth in both systems. Ansor has no such term; with it, rounds teach the model more.
const DIVERSITY: f32 = 0.02;

/// Ansor: evolution on a model of trees over summed stores. Tasks that are tuned together share the model and have
/// numbers of their own.
pub fn ansor<'a>(
    space: &Arc<Space>,
    machine: impl Into<Machine<'a>>,
    model: SharedModel,
    task: u32,
    seed: u64,
) -> Result<Evolutionary, FeatureError> {
    let scorer = ModelScorer::new(space, machine, Features::Stores, model, task)?;
    let domain = Arc::new(SpaceDomain::new(space.clone()));
    let params = EvolutionaryParams { diversity: DIVERSITY, ..EvolutionaryParams::default() };
    Ok(Evolutionary::new(domain, Box::new(scorer), params, seed).named("ansor"))
}

/// AutoTVM: annealing on a model that ranks, with diversity, and with transfer when a global model is given (see
/// [`crate::TrainingSet::fit_global`]), which must have been fitted on features of the same kind.
///
/// On the simulated device a model of [`Features::Stores`] orders more candidates of unknown operators rightly than one
/// of AutoTVM's own [`Features::Buffers`] or [`Features::Loops`].
pub fn autotvm<'a>(
    space: &Arc<Space>,
    machine: impl Into<Machine<'a>>,
    features: Features,
    global: Option<Trees>,
    seed: u64,
) -> Result<Annealing, FeatureError> {
    let scorer = ModelScorer::new(space, machine, features, SharedModel::autotvm(global, seed), 0)?;
    let domain = Arc::new(SpaceDomain::new(space.clone()));
    let params = AnnealingParams { diversity: DIVERSITY, ..AnnealingParams::default() };
    Ok(Annealing::new(domain, Box::new(scorer), params, seed).named("autotvm"))
}
