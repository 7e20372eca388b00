//! The features of stores, Ansor's and talweg's own: one vector for every store statement.

use crate::demand::{self, Machine};
use crate::region::Regions;
use crate::site::Site;
use crate::{allocation, buffers, compute, intensity, outer};
use talweg_expr::Expr;
use talweg_ir::{Nest, Reducer, TensorId};

/// The features of one store.
#[derive(Clone, Debug)]
pub struct StoreFeatures {
    /// What is stored to.
    pub buffer: TensorId,
    /// How it combines with what is there. The store that starts a reduction is one of its own, with `None`.
    pub update: Option<Reducer>,
    /// [`crate::STORE_WIDTH`] formulas over the knobs, in the order of [`crate::feature_names`].
    pub values: Vec<Expr>,
}

/// The features of every store of a nest in program order, knobs open or not.
///
/// See the crate for what tails, conditions and address arithmetic count as.
pub fn per_store<'a>(nest: &Nest, machine: impl Into<Machine<'a>>) -> Vec<StoreFeatures> {
    let machine = machine.into();
    let target = machine.target;
    let sites = Site::all(nest);
    let regions: Vec<Regions> = sites.iter().map(Regions::of).collect();
    let demands = demand::features(&sites, &regions, machine);
    sites
        .iter()
        .enumerate()
        .map(|(at, site)| {
            let mut values = compute::features(site);
            values.extend(buffers::features(&sites, &regions, at, target));
            values.extend(intensity::features(site, &regions[at]));
            values.extend(allocation::features(site));
            values.extend(outer::features(site, target));
            values.extend(demands[at].iter().cloned());
            StoreFeatures { buffer: site.buffer, update: site.update, values }
        })
        .collect()
}
