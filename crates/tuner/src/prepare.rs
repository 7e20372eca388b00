//! What a task needs before its first batch: its space and its search, put together while the default schedule is built.

use std::sync::Arc;

use talweg_db::{Database, TargetKey, TaskKey};
use talweg_features::Machine;
use talweg_space::Space;

use crate::error::TuneError;
use crate::options::{TaskSpec, TuneOptions};
use crate::strategy::{Ingredients, Learner, Search, StrategyKind, global_model};

/// What searches are put together from.
pub(crate) struct Preparation<'a> {
    /// How to tune.
    pub options: &'a TuneOptions,
    /// All tasks of the run.
    pub specs: &'a [TaskSpec],
    /// What earlier runs know.
    pub db: &'a Database,
    /// The machine in the database.
    pub target: &'a TargetKey,
    /// The model that tasks share.
    pub shared: &'a Learner,
}

impl Preparation<'_> {
    /// The space of a task and its search. Its first candidates are planned already where nothing will be told before they
    /// are asked for: neither by an earlier run, nor by another task that teaches the same model.
    pub fn search(&self, at: usize, key: &TaskKey) -> Result<(Arc<Space>, Search), TuneError> {
        let Preparation { options, specs, db, target: machine, shared } = self;
        let (spec, target, threads) = (&specs[at], &options.target, options.threads as u32);
        let extension = options.extension.as_ref().map(|extended| &extended.0);
        let own = extension.and_then(|e| e.space(&spec.dag, target));
        let whole = own.unwrap_or_else(|| Space::of(&spec.dag, target));
        let space = Arc::new(if options.perfect_tiles { whole.perfect() } else { whole });
        let transfers = options.strategy == StrategyKind::AutoTvm && options.resume;
        let seed = options.seed.wrapping_add(at as u64);
        let global = match transfers {
            true => global_model(db, machine, threads, key, target, seed)?,
            false => None,
        };
        let ingredients = Ingredients {
            kind: options.strategy,
            model: options.model,
            space: &space,
            machine: Machine::new(target, options.threads),
            shared,
            felix: &options.felix.among(specs.len()),
            global,
            task: at as u32,
            seed,
            batch: options.batch.max(1),
        };
        let features = |source| TuneError::Features { task: spec.name.clone(), source };
        let own = extension.and_then(|e| e.search(&ingredients));
        let mut search = own.unwrap_or_else(|| ingredients.search()).map_err(features)?;
        let is_told = options.resume && !db.records(key, machine, threads)?.is_empty();
        if specs.len() == 1 && !is_told {
            search.strategy.prepare();
        }
        Ok((space, search))
    }
}
