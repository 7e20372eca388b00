//! The description of a machine: plain data, complete enough to schedule and generate code without being on it.

use crate::detect;
use serde::{Deserialize, Serialize};

/// Processor family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arch {
    /// 64-bit x86.
    #[serde(rename = "x86-64")]
    X86_64,
    /// 64-bit Arm.
    Aarch64,
}

/// Vector instruction set that kernels are written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Isa {
    /// 512-bit vectors, 32 registers, masks.
    Avx512,
    /// 256-bit vectors with fused multiply-add, 16 registers.
    Avx2,
    /// 128-bit vectors, 32 registers.
    Neon,
}

/// Why a target is unknown, or cannot be used here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// No target has that name.
    #[error("unknown target `{name}`; use host, avx512, avx2 or neon")]
    UnknownName {
        /// The name that was given.
        name: String,
    },
    /// Code for the target is for another processor family.
    #[error("code for {wanted} cannot run on this {here} machine; choose the target `host`")]
    OtherArch {
        /// The target's family.
        wanted: &'static str,
        /// This machine's family.
        here: &'static str,
    },
    /// This machine lacks an instruction set extension.
    #[error(
        "this machine lacks the CPU feature `{feature}` that target {isa} needs; choose the target `host`"
    )]
    MissingFeature {
        /// The missing feature, by its LLVM name.
        feature: String,
        /// The target's instruction set.
        isa: &'static str,
    },
    /// A thread could not be pinned.
    #[error("cannot pin the thread to core {core}: {reason}; choose a core from the affinity mask")]
    Pin {
        /// The core that was asked for.
        core: usize,
        /// What the system said.
        reason: String,
    },
}

impl Arch {
    /// The name used in messages and keys.
    pub fn name(self) -> &'static str {
        match self {
            Arch::X86_64 => "x86-64",
            Arch::Aarch64 => "aarch64",
        }
    }
}

impl Isa {
    /// The name used in messages, keys and [`Target::named`].
    pub fn name(self) -> &'static str {
        match self {
            Isa::Avx512 => "avx512",
            Isa::Avx2 => "avx2",
            Isa::Neon => "neon",
        }
    }

    /// The family that has this instruction set.
    pub fn arch(self) -> Arch {
        match self {
            Isa::Avx512 | Isa::Avx2 => Arch::X86_64,
            Isa::Neon => Arch::Aarch64,
        }
    }

    /// Bits of one vector register.
    pub fn vector_bits(self) -> u32 {
        match self {
            Isa::Avx512 => 512,
            Isa::Avx2 => 256,
            Isa::Neon => 128,
        }
    }

    /// The number of vector registers.
    pub fn vector_registers(self) -> u32 {
        match self {
            Isa::Avx512 | Isa::Neon => 32,
            Isa::Avx2 => 16,
        }
    }

    /// The LLVM features every target with this instruction set has.
    pub fn required_features(self) -> &'static [&'static str] {
        match self {
            Isa::Avx512 => &[
                "avx", "avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "popcnt", "movbe", "avx512f",
                "avx512bw", "avx512cd", "avx512dq", "avx512vl",
            ],
            Isa::Avx2 => &["avx", "avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "popcnt", "movbe"],
            Isa::Neon => &["neon"],
        }
    }

    /// The LLVM features used where a machine has them: dot products and half-width floats.
    pub fn optional_features(self) -> &'static [&'static str] {
        match self {
            Isa::Avx512 => &["avx512vnni", "avx512bf16", "avx512fp16", "avxvnni"],
            Isa::Avx2 => &["avxvnni"],
            Isa::Neon => &["dotprod", "fullfp16", "bf16", "i8mm"],
        }
    }
}

/// A machine, as far as schedules and generated code depend on it.
///
/// Cache sizes are in bytes and per core, except the last level, which is what one core can use of it when
/// alone. On machines with unequal cores, the first core speaks for all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Processor family.
    pub arch: Arch,
    /// Vector instruction set.
    pub isa: Isa,
    /// The processor's model name, or the name of a generic target.
    pub cpu: String,
    /// LLVM's `target-cpu`.
    pub llvm_cpu: String,
    /// LLVM's `target-features`: comma-separated, each with `+` or `-`.
    pub llvm_features: String,
    /// Bits of one vector register.
    pub vector_bits: u32,
    /// The number of vector registers.
    pub vector_registers: u32,
    /// Vector fused multiply-adds that can start per cycle. Not detectable: two, as on all current server cores.
    pub fma_ports: u32,
    /// Cycles from the start of a fused multiply-add to its result.
    pub fma_latency: u32,
    /// Physical cores.
    pub cores: u32,
    /// First-level data cache.
    pub l1d: u64,
    /// Second-level cache.
    pub l2: u64,
    /// Last-level cache; zero if there is none.
    pub l3: u64,
    /// Bytes of a cache line.
    pub line: u32,
}

impl Target {
    /// The machine this process runs on.
    ///
    /// Where the system does not tell something, the generic value of [`Target::named`] stands in. An x86-64
    /// machine without AVX2 is described as AVX2, and [`Target::can_run_here`] then names what it lacks.
    pub fn host() -> Target {
        detect::host()
    }

    /// A target by name: `host`, or a generic machine of an instruction set to cross-compile for.
    pub fn named(name: &str) -> Result<Target, TargetError> {
        match name {
            "host" => Ok(Target::host()),
            "avx512" => Ok(Target::generic(Isa::Avx512)),
            "avx2" => Ok(Target::generic(Isa::Avx2)),
            "neon" => Ok(Target::generic(Isa::Neon)),
            _ => Err(TargetError::UnknownName { name: name.to_string() }),
        }
    }

    /// A common machine with that instruction set: required features only, modest caches, four cores.
    pub fn generic(isa: Isa) -> Target {
        let (llvm_cpu, l1d, l2, l3) = match isa {
            Isa::Avx512 => ("x86-64-v4", 32 << 10, 1 << 20, 16 << 20),
            Isa::Avx2 => ("x86-64-v3", 32 << 10, 256 << 10, 8 << 20),
            Isa::Neon => ("generic", 64 << 10, 1 << 20, 16 << 20),
        };
        Target {
            arch: isa.arch(),
            isa,
            cpu: format!("generic {}", isa.name()),
            llvm_cpu: llvm_cpu.to_string(),
            llvm_features: feature_text(isa, &[]),
            vector_bits: isa.vector_bits(),
            vector_registers: isa.vector_registers(),
            fma_ports: 2,
            fma_latency: 4,
            cores: 4,
            l1d,
            l2,
            l3,
            line: 64,
        }
    }

    /// How many elements of `bytes` bytes fit in a vector register; at least one.
    pub fn lanes(&self, bytes: u32) -> u32 {
        (self.vector_bits / 8).checked_div(bytes).unwrap_or(1).max(1)
    }

    /// Whether code for this target runs on this machine, or which feature is missing.
    pub fn can_run_here(&self) -> Result<(), TargetError> {
        let here = detect::arch();
        if here != Some(self.arch) {
            let here = here.map_or(std::env::consts::ARCH, Arch::name);
            return Err(TargetError::OtherArch { wanted: self.arch.name(), here });
        }
        let wanted = self.llvm_features.split(',').filter_map(|feature| feature.trim().strip_prefix('+'));
        for feature in self.isa.required_features().iter().copied().chain(wanted) {
            if !detect::has_feature(feature) {
                return Err(TargetError::MissingFeature { feature: feature.into(), isa: self.isa.name() });
            }
        }
        Ok(())
    }

    /// The LLVM target triple.
    pub fn llvm_triple(&self) -> &'static str {
        match self.arch {
            Arch::X86_64 => "x86_64-unknown-linux-gnu",
            Arch::Aarch64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// Canonical text for database keys: equal for machines on which the same measurements hold.
    ///
    /// The form is `arch;isa;cpu;cores=N;l1d=N;l2=N;l3=N`, the model name with single spaces and no semicolons.
    pub fn fingerprint(&self) -> String {
        let cpu = self.cpu.replace(';', " ").split_whitespace().collect::<Vec<_>>().join(" ");
        let (arch, isa) = (self.arch.name(), self.isa.name());
        let Target { cores, l1d, l2, l3, .. } = self;
        format!("{arch};{isa};{cpu};cores={cores};l1d={l1d};l2={l2};l3={l3}")
    }
}

/// The LLVM feature list of an instruction set with some optional features.
pub(crate) fn feature_text(isa: Isa, optional: &[&str]) -> String {
    let all = isa.required_features().iter().chain(optional);
    let mut features: Vec<String> = all.map(|feature| format!("+{feature}")).collect();
    if isa == Isa::Avx512 {
        features.push("-prefer-256-bit".to_string());
    }
    features.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_targets_are_consistent() {
        for (name, lanes) in [("avx512", 16), ("avx2", 8), ("neon", 4)] {
            let target = Target::named(name).unwrap();
            assert_eq!(target.isa.name(), name);
            assert_eq!(target.lanes(4), lanes);
            assert_eq!(target.lanes(1), 4 * lanes);
            assert!(target.l1d < target.l2 && target.l2 < target.l3);
            assert_eq!(target.arch, target.isa.arch());
        }
        assert_eq!(Target::named("avx2").unwrap().lanes(0), 1);
        assert_eq!(Target::named("avx2").unwrap().lanes(1024), 1);
        let error = Target::named("pdp11").unwrap_err().to_string();
        assert!(error.contains("pdp11") && error.contains("avx512"), "{error}");
    }

    #[test]
    fn avx512_asks_for_whole_vectors() {
        let features = Target::generic(Isa::Avx512).llvm_features;
        assert!(features.split(',').any(|feature| feature == "+avx512vl"));
        assert!(features.split(',').any(|feature| feature == "-prefer-256-bit"));
        assert!(!features.contains("vnni"));
        assert!(!Target::generic(Isa::Avx2).llvm_features.contains("512"));
    }

    #[test]
    fn a_foreign_target_or_feature_cannot_run_here() {
        let foreign = if cfg!(target_arch = "aarch64") { Isa::Avx2 } else { Isa::Neon };
        let error = Target::generic(foreign).can_run_here().unwrap_err();
        assert!(matches!(error, TargetError::OtherArch { .. }));
        let mut target = Target::host();
        target.llvm_features.push_str(",+teleport");
        let error = target.can_run_here().unwrap_err().to_string();
        assert!(error.contains("lacks the CPU feature `"), "{error}");
    }

    #[test]
    fn fingerprints_are_canonical_and_stable() {
        let mut target = Target::generic(Isa::Avx2);
        target.cpu = "Some  (R) CPU;  3 GHz ".to_string();
        assert_eq!(
            target.fingerprint(),
            "x86-64;avx2;Some (R) CPU 3 GHz;cores=4;l1d=32768;l2=262144;l3=8388608"
        );
        assert_eq!(Target::host().fingerprint(), Target::host().fingerprint());
    }

    #[test]
    fn targets_survive_json() {
        for target in [Target::host(), Target::generic(Isa::Neon)] {
            let text = serde_json::to_string(&target).unwrap();
            assert_eq!(serde_json::from_str::<Target>(&text).unwrap(), target);
        }
        let text = serde_json::to_string(&Target::generic(Isa::Avx512)).unwrap();
        assert!(text.contains(r#""arch":"x86-64""#) && text.contains(r#""isa":"avx512""#), "{text}");
    }
}
