//! What the emitter has to know about the instruction set.

use talweg_target::{Isa as Family, Target};

/// The instruction set of a target, as far as emission depends on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Isa {
    pub triple: String,
    pub cpu: String,
    pub features: String,
    /// Bytes of a vector register.
    pub vector_bytes: usize,
    /// Number of vector registers.
    pub registers: usize,
    /// Masked loads and stores exist for elements of at least this many bytes; a large number when there are none.
    pub narrowest_masked: usize,
    /// Whether gathers and scatters beat loads and stores lane by lane.
    pub gather: bool,
    /// Whether one instruction multiplies sixteen f32 by powers of two.
    pub scale_by_power: bool,
}

impl Isa {
    /// What emission needs of a target.
    pub fn of(target: &Target) -> Isa {
        let (narrowest_masked, gather) = match target.isa {
            Family::Avx512 => (1, true),
            Family::Avx2 => (4, false),
            Family::Neon => (usize::MAX, false),
        };
        Isa {
            triple: target.llvm_triple().to_string(),
            cpu: target.llvm_cpu.clone(),
            features: target.llvm_features.clone(),
            vector_bytes: (target.vector_bits / 8).max(16) as usize,
            registers: target.vector_registers.max(8) as usize,
            narrowest_masked,
            gather,
            scale_by_power: target.isa == Family::Avx512,
        }
    }
}
