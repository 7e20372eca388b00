//! Parts of a search that come from outside of talweg: a space, a strategy, a cost model.

use std::fmt;
use std::sync::Arc;

use talweg_features::FeatureError;
use talweg_ir::Dag;
use talweg_space::Space;
use talweg_target::Target;

use crate::strategy::{Ingredients, Search};

/// What a program that uses talweg puts in the place of talweg's own parts. Whatever is `None` stays as it is.
pub trait Extension: Send + Sync {
    /// The name of the search, for records and reports.
    fn name(&self) -> &str;

    /// What is searched for a task.
    fn space(&self, dag: &Dag, target: &Target) -> Option<Space> {
        let _ = (dag, target);
        None
    }

    /// The search of a task.
    fn search(&self, ingredients: &Ingredients<'_>) -> Option<Result<Search, FeatureError>> {
        let _ = ingredients;
        None
    }

    /// Whether the first batch of a task begins with candidates near the default schedule.
    fn takes_seeds(&self) -> bool {
        false
    }
}

/// An extension that options can carry.
#[derive(Clone)]
pub struct Extended(pub Arc<dyn Extension>);

impl fmt::Debug for Extended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Extended({})", self.0.name())
    }
}
