//! Which processor features are here, by LLVM's names.

/// The family this code runs on, as artefacts name it.
pub const ARCH: &str = if cfg!(target_arch = "x86_64") {
    "x86-64"
} else if cfg!(target_arch = "aarch64") {
    "aarch64"
} else {
    "unknown"
};

/// Whether this processor has a feature; unknown names count as absent.
#[cfg(target_arch = "x86_64")]
pub fn has(feature: &str) -> bool {
    macro_rules! table {
        ($($name:literal => $rust:tt),* $(,)?) => {
            match feature {
                $($name => std::arch::is_x86_feature_detected!($rust),)*
                _ => false,
            }
        };
    }
    table! {
        "avx" => "avx", "avx2" => "avx2", "fma" => "fma", "f16c" => "f16c", "bmi" => "bmi1", "bmi2" => "bmi2",
        "lzcnt" => "lzcnt", "popcnt" => "popcnt", "movbe" => "movbe", "avx512f" => "avx512f",
        "avx512bw" => "avx512bw", "avx512cd" => "avx512cd", "avx512dq" => "avx512dq",
        "avx512vl" => "avx512vl", "avx512vnni" => "avx512vnni", "avx512bf16" => "avx512bf16",
        "avx512fp16" => "avx512fp16", "avxvnni" => "avxvnni",
    }
}

/// Whether this processor has a feature; unknown names count as absent.
#[cfg(target_arch = "aarch64")]
pub fn has(feature: &str) -> bool {
    match feature {
        "neon" => std::arch::is_aarch64_feature_detected!("neon"),
        "dotprod" => std::arch::is_aarch64_feature_detected!("dotprod"),
        "fullfp16" => std::arch::is_aarch64_feature_detected!("fp16"),
        "bf16" => std::arch::is_aarch64_feature_detected!("bf16"),
        "i8mm" => std::arch::is_aarch64_feature_detected!("i8mm"),
        _ => false,
    }
}

/// Whether this processor has a feature; unknown names count as absent.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub fn has(_feature: &str) -> bool {
    false
}

#[cfg(test)]
mod tests {
    #[test]
    fn unknown_features_are_absent() {
        assert!(!super::has("no-such-feature"));
    }
}
