//! Strategies and models by name, put together for a task; transfer from the records of other tasks.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use talweg_cost::{CostError, Loss, Params, Trees};
use talweg_db::{Database, Record, TargetKey, TaskKey};
use talweg_features::{FeatureError, Machine};
use talweg_ir::Dag;
use talweg_search::{
    Annealing, AnnealingParams, Evolutionary, EvolutionaryParams, Features, Felix, FelixParams, Genetic,
    GeneticParams, Grid, ModelScorer, Random, RandomScorer, Sample, Scorer, SharedModel, SharedScorer,
    SpaceDomain, SpaceFeatures, Strategy, TrainingSet,
};
use talweg_space::Space;
use talweg_target::Target;

use crate::options::TuneOptions;
use crate::records::{TASK_VERSION, sample_of};

/// Records of other tasks a global model learns from, at most.
const MAX_HISTORY: usize = 4000;

/// A search by its name on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrategyKind {
    /// Evolution on a model that all tasks share.
    Ansor,
    /// Annealing with diversity on a model that ranks, with transfer from other tasks in the database.
    AutoTvm,
    /// Gradient descent over knobs as real variables, on a differentiable model.
    Felix,
    /// Evolution on a model of the task alone.
    Evolutionary,
    /// Annealing on a model of the task alone.
    Annealing,
    /// A genetic algorithm on measured speeds, without a model.
    Genetic,
    /// Random candidates.
    Random,
    /// All candidates in order.
    Grid,
}

/// All strategies.
pub const STRATEGIES: [StrategyKind; 8] = [
    StrategyKind::Ansor,
    StrategyKind::AutoTvm,
    StrategyKind::Felix,
    StrategyKind::Evolutionary,
    StrategyKind::Annealing,
    StrategyKind::Genetic,
    StrategyKind::Random,
    StrategyKind::Grid,
];

impl StrategyKind {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            StrategyKind::Ansor => "ansor",
            StrategyKind::AutoTvm => "autotvm",
            StrategyKind::Felix => "felix",
            StrategyKind::Evolutionary => "evolutionary",
            StrategyKind::Annealing => "annealing",
            StrategyKind::Genetic => "genetic",
            StrategyKind::Random => "random",
            StrategyKind::Grid => "grid",
        }
    }

    /// Whether the search may begin near the default schedule; it would not be what it is called otherwise.
    pub fn takes_seeds(self) -> bool {
        !matches!(self, StrategyKind::Random | StrategyKind::Grid)
    }

    /// Whether the search can be guided by a model: descent needs one with a slope.
    pub fn can_use(self, model: ModelKind) -> bool {
        self != StrategyKind::Felix || matches!(model, ModelKind::Mlp | ModelKind::MlpBootstrap)
    }
}

impl fmt::Display for StrategyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no strategy or model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not known; give one of {known}")]
pub struct UnknownName {
    /// What was given.
    pub name: String,
    /// What would have been good.
    pub known: String,
}

impl FromStr for StrategyKind {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<StrategyKind, UnknownName> {
        let known = || STRATEGIES.map(StrategyKind::name).join(", ");
        let found = STRATEGIES.into_iter().find(|s| s.name() == text);
        found.ok_or_else(|| UnknownName { name: text.into(), known: known() })
    }
}

/// What guides a strategy that asks a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelKind {
    /// Ansor's: trees with weighted squared loss on sums of stores.
    Trees,
    /// AutoTVM's: trees with pairwise rank loss.
    Rank,
    /// Felix's: a network on sums of stores, from the shipped checkpoint where there is one.
    Mlp,
    /// The same network, trained on the samples of this search alone.
    MlpBootstrap,
    /// Random scores: what a model is worth, by comparison.
    Random,
}

/// All models.
pub const MODELS: [ModelKind; 5] =
    [ModelKind::Trees, ModelKind::Rank, ModelKind::Mlp, ModelKind::MlpBootstrap, ModelKind::Random];

impl ModelKind {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            ModelKind::Trees => "trees",
            ModelKind::Rank => "rank",
            ModelKind::Mlp => "mlp",
            ModelKind::MlpBootstrap => "mlp-bootstrap",
            ModelKind::Random => "random",
        }
    }
}

impl FromStr for ModelKind {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<ModelKind, UnknownName> {
        let known = || MODELS.map(ModelKind::name).join(", ");
        let found = MODELS.into_iter().find(|m| m.name() == text);
        found.ok_or_else(|| UnknownName { name: text.into(), known: known() })
    }
}

/// A model that learns while a search goes on. Clones share what was learnt, so that what is measured of one task teaches
/// the others.
#[derive(Clone)]
pub enum Learner {
    /// For strategies that ask for scores.
    Model(SharedModel),
    /// For descent, which asks for slopes too.
    Followed(SharedScorer),
}

impl Learner {
    /// The model that the tasks of a run share: a network if asked for, a network beside trees if followed, Ansor's trees
    /// otherwise.
    pub fn of(options: &TuneOptions) -> Learner {
        let TuneOptions { target, threads, seed, .. } = options;
        match (options.strategy, options.model) {
            (StrategyKind::Felix, Some(ModelKind::MlpBootstrap)) => {
                Learner::Followed(SharedScorer::network_from_nothing(*seed))
            }
            (StrategyKind::Felix, Some(_)) => {
                Learner::Followed(SharedScorer::network(target, *threads, *seed))
            }
            (StrategyKind::Felix, None) => Learner::Followed(SharedScorer::blend(target, *threads, *seed)),
            (_, Some(ModelKind::Mlp)) => Learner::Model(SharedModel::mlp(target, *threads, *seed)),
            (_, Some(ModelKind::MlpBootstrap)) => Learner::Model(SharedModel::mlp_from_nothing(*seed)),
            _ => Learner::Model(SharedModel::ansor(*seed)),
        }
    }

    /// What went wrong in the last fit or prediction; the search is random while there is an error.
    pub fn error(&self) -> Option<CostError> {
        match self {
            Learner::Model(model) => model.error(),
            Learner::Followed(scorer) => scorer.error(),
        }
    }
}

/// A strategy for one task, and the model it asks, if any.
pub struct Search {
    /// The strategy.
    pub strategy: Box<dyn Strategy>,
    /// Its model.
    pub model: Option<Learner>,
    /// Whether predictions are speeds relative to the best measured one, and not just an order.
    pub predicts_speed: bool,
}

/// Everything a strategy is made of.
pub struct Ingredients<'a> {
    /// Which strategy.
    pub kind: StrategyKind,
    /// Which model; the strategy's own if not given.
    pub model: Option<ModelKind>,
    /// What is searched.
    pub space: &'a Arc<Space>,
    /// The machine, with the threads of the candidates' parallel loops.
    pub machine: Machine<'a>,
    /// The model that tasks share, as [`Learner::of`] makes it.
    pub shared: &'a Learner,
    /// Settings of descent.
    pub felix: &'a FelixParams,
    /// A model of other tasks.
    pub global: Option<Trees>,
    /// The task's number in the shared model.
    pub task: u32,
    /// Names the random stream.
    pub seed: u64,
    /// Candidates that are measured together: the search learns after each batch.
    pub batch: usize,
}

impl Ingredients<'_> {
    /// Puts the strategy together.
    pub fn search(self) -> Result<Search, FeatureError> {
        let Ingredients { kind, space, machine, task, seed, .. } = self;
        let domain = Arc::new(SpaceDomain::new(space.clone()));
        let plain = |strategy: Box<dyn Strategy>| Ok(Search { strategy, model: None, predicts_speed: false });
        let shared = match self.shared {
            Learner::Followed(scorer) => {
                let params = FelixParams { round: self.batch, ..self.felix.clone() };
                let strategy = Felix::new(space, machine, scorer.clone(), task, params, seed)?;
                let model = Some(self.shared.clone());
                return Ok(Search { strategy: Box::new(strategy), model, predicts_speed: false });
            }
            Learner::Model(model) => model,
        };
        match kind {
            StrategyKind::Genetic => {
                return plain(Box::new(Genetic::new(domain, GeneticParams::default(), seed)));
            }
            StrategyKind::Random => return plain(Box::new(Random::new(domain, seed))),
            StrategyKind::Grid => return plain(Box::new(Grid::new(domain))),
            StrategyKind::Ansor if matches!(self.model, None | Some(ModelKind::Trees)) => {
                let strategy = talweg_search::ansor(space, machine, shared.clone(), task, seed)?;
                let strategy = Box::new(strategy.with_round(self.batch));
                return Ok(Search { strategy, model: Some(self.shared.clone()), predicts_speed: true });
            }
            StrategyKind::AutoTvm if self.model.is_none() => {
                return plain(Box::new(talweg_search::autotvm(
                    space,
                    machine,
                    Features::Stores,
                    self.global,
                    seed,
                )?));
            }
            _ => {}
        }
        let evolves = matches!(kind, StrategyKind::Ansor | StrategyKind::Evolutionary);
        let kind_of_model = self.model.unwrap_or(if evolves { ModelKind::Trees } else { ModelKind::Rank });
        let model = match kind_of_model {
            ModelKind::Trees => Some(SharedModel::ansor(seed)),
            ModelKind::Rank => Some(SharedModel::autotvm(self.global, seed)),
            ModelKind::Mlp | ModelKind::MlpBootstrap => Some(shared.clone()),
            ModelKind::Random => None,
        };
        let scorer: Box<dyn Scorer> = match &model {
            Some(model) => Box::new(ModelScorer::new(space, machine, Features::Stores, model.clone(), task)?),
            None => Box::new(RandomScorer::new(seed)),
        };
        let strategy: Box<dyn Strategy> = if evolves {
            let params = EvolutionaryParams { round: self.batch, ..EvolutionaryParams::default() };
            Box::new(Evolutionary::new(domain, scorer, params, seed).named(kind.name()))
        } else {
            let params = AnnealingParams::default();
            Box::new(Annealing::new(domain, scorer, params, seed).named(kind.name()))
        };
        let predicts_speed = kind_of_model == ModelKind::Trees;
        Ok(Search { strategy, model: model.map(Learner::Model), predicts_speed })
    }
}

/// A model of the other tasks in the database, for transfer; `None` where there is too little to learn from.
pub fn global_model(
    db: &Database,
    key: &TargetKey,
    threads: u32,
    except: &TaskKey,
    target: &Target,
    seed: u64,
) -> Result<Option<Trees>, talweg_db::DbError> {
    let mut tasks: BTreeMap<TaskKey, Vec<Record>> = BTreeMap::new();
    for record in db.history(key, threads, Some(except))?.take(MAX_HISTORY) {
        let record = record?;
        if record.task.version == TASK_VERSION {
            tasks.entry(record.task.clone()).or_default().push(record);
        }
    }
    let mut set = TrainingSet::new();
    for (number, (task, records)) in (0u32..).zip(&tasks) {
        let Ok(dag) = Dag::parse(&task.text) else { continue };
        let space = Space::of(&dag, target);
        let samples: Vec<Sample> = records.iter().filter_map(|r| sample_of(&space, r)).collect();
        let machine = Machine::new(target, threads as usize);
        let Ok(features) = SpaceFeatures::new(&space, machine, Features::Stores) else { continue };
        // Records that cannot be described teach nothing; the others still do.
        let _ = set.add(&features, number, &samples);
    }
    let params = Params { seed, ..Params::autotvm() };
    Ok(set.fit_global(Loss::PairwiseRank, &params).unwrap_or(None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for kind in STRATEGIES {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        let error = "tabu".parse::<StrategyKind>().expect_err("no such strategy").to_string();
        assert!(error.contains("ansor") && error.contains("`tabu`"), "{error}");
        for model in MODELS {
            assert_eq!(model.name().parse(), Ok(model));
        }
        assert!("xgb".parse::<ModelKind>().is_err());
    }
}
