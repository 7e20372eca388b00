//! The two systems, as combinations of the parts of this crate; any other combination is as easily made.

use std::sync::Arc;

use talweg_cost::Trees;
use talweg_features::FeatureError;
use talweg_space::Space;
use talweg_target::Target;

use crate::featurize::Features;
use crate::learned::{ModelScorer, SharedModel};
use crate::space_domain::SpaceDomain;
use crate::{Annealing, AnnealingParams, Evolutionary, EvolutionaryParams};

/// Ansor: evolution on a model of trees over summed stores. Tasks that are tuned together share the model and have
/// numbers of their own.
pub fn ansor(
    space: &Arc<Space>,
    target: &Target,
    model: SharedModel,
    task: u32,
    seed: u64,
) -> Result<Evolutionary, FeatureError> {
    let scorer = ModelScorer::new(space, target, Features::Stores, model, task)?;
    let domain = Arc::new(SpaceDomain::new(space.clone()));
    Ok(Evolutionary::new(domain, Box::new(scorer), EvolutionaryParams::default(), seed).named("ansor"))
}

/// AutoTVM: annealing on a model that ranks, with diversity, and with transfer when a global model is given (see
/// [`crate::TrainingSet::fit_global`]).
pub fn autotvm(
    space: &Arc<Space>,
    target: &Target,
    global: Option<Trees>,
    seed: u64,
) -> Result<Annealing, FeatureError> {
    let model = SharedModel::autotvm(global, seed);
    let scorer = ModelScorer::new(space, target, Features::Buffers, model, 0)?;
    let domain = Arc::new(SpaceDomain::new(space.clone()));
    Ok(Annealing::new(domain, Box::new(scorer), AnnealingParams::default(), seed).named("autotvm"))
}
