//! The network as the model of a search: shipped with talweg, or bootstrapped from the first measurements.

use std::sync::OnceLock;

use talweg_cost::{Checkpoint, Mlp, MlpModel};
use talweg_features::STORE_WIDTH;
use talweg_target::{Arch, Target};

use crate::learned::SharedModel;

/// What the network is told besides the features of stores, in the order of its last columns.
pub const CONTEXT: [&str; 4] = [
    "log2(threads)",
    "log2(vector lanes)",
    "log2(KiB of first cache level)",
    "log2(KiB of second cache level)",
];

/// Columns the network reads: the features of a store, then its context.
pub const NETWORK_WIDTH: usize = STORE_WIDTH + CONTEXT.len();

/// Samples a network without a checkpoint waits for.
const BOOTSTRAP: usize = 32;

/// The checkpoint for x86-64, trained by `talweg dataset train`; its description names the command.
static X86_64: &[u8] = include_bytes!("../../../models/x86-64.mlp");

/// The values of [`CONTEXT`].
pub fn context(target: &Target, threads: usize) -> [f32; CONTEXT.len()] {
    let kib = |bytes: u64| (bytes.max(1024) / 1024) as f32;
    [threads.max(1) as f32, target.lanes(4) as f32, kib(target.l1d), kib(target.l2)].map(f32::log2)
}

/// The checkpoint that ships with talweg for a target; none if there is none, or if it reads other features than these.
pub fn shipped(target: &Target) -> Option<&'static Checkpoint> {
    static READ: OnceLock<Option<Checkpoint>> = OnceLock::new();
    let read = || Checkpoint::from_bytes(X86_64).ok().filter(|c| c.mlp.width() == NETWORK_WIDTH);
    READ.get_or_init(read).as_ref().filter(|_| target.arch == Arch::X86_64)
}

/// The shipped network for a target and a number of threads: it reads rows of store features.
pub fn shipped_network(target: &Target, threads: usize) -> Option<Mlp> {
    shipped(target)?.mlp.in_context(&context(target, threads)).ok()
}

impl SharedModel {
    /// The network: from the shipped checkpoint where there is one for the target, otherwise from nothing.
    pub fn mlp(target: &Target, threads: usize, seed: u64) -> SharedModel {
        match shipped_network(target, threads) {
            Some(network) => SharedModel::informed(Box::new(MlpModel::from_checkpoint(network, seed))),
            None => SharedModel::mlp_from_nothing(seed),
        }
    }

    /// The network, trained on the samples of this search alone.
    pub fn mlp_from_nothing(seed: u64) -> SharedModel {
        SharedModel::new(Box::new(MlpModel::bootstrap(seed)), BOOTSTRAP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use talweg_target::Isa;

    #[test]
    fn the_shipped_checkpoint_fits_these_features() {
        for isa in [Isa::Avx512, Isa::Avx2] {
            let target = Target::generic(isa);
            let network = shipped_network(&target, 2).expect("a checkpoint for x86-64");
            assert_eq!(network.width(), STORE_WIDTH);
            assert!(!shipped(&target).expect("the same").command.is_empty());
        }
        assert!(shipped(&Target::generic(Isa::Neon)).is_none());
    }
}
