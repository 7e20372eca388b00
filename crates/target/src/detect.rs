//! Finding out what this machine is, from the processor and from Linux's `/proc` and `/sys`.

use crate::description::{Arch, Isa, Target, feature_text};
use std::collections::BTreeSet;
use std::path::Path;

/// The family of this machine, if it is a supported one.
pub fn arch() -> Option<Arch> {
    match std::env::consts::ARCH {
        "x86_64" => Some(Arch::X86_64),
        "aarch64" => Some(Arch::Aarch64),
        _ => None,
    }
}

/// Whether this machine has the feature with that LLVM name; false for names this crate does not know.
pub fn has_feature(name: &str) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        match name {
            "avx" => is_x86_feature_detected!("avx"),
            "avx2" => is_x86_feature_detected!("avx2"),
            "fma" => is_x86_feature_detected!("fma"),
            "f16c" => is_x86_feature_detected!("f16c"),
            "bmi" => is_x86_feature_detected!("bmi1"),
            "bmi2" => is_x86_feature_detected!("bmi2"),
            "lzcnt" => is_x86_feature_detected!("lzcnt"),
            "popcnt" => is_x86_feature_detected!("popcnt"),
            "movbe" => is_x86_feature_detected!("movbe"),
            "avx512f" => is_x86_feature_detected!("avx512f"),
            "avx512bw" => is_x86_feature_detected!("avx512bw"),
            "avx512cd" => is_x86_feature_detected!("avx512cd"),
            "avx512dq" => is_x86_feature_detected!("avx512dq"),
            "avx512vl" => is_x86_feature_detected!("avx512vl"),
            "avx512vnni" => is_x86_feature_detected!("avx512vnni"),
            "avx512bf16" => is_x86_feature_detected!("avx512bf16"),
            "avx512fp16" => is_x86_feature_detected!("avx512fp16"),
            "avxvnni" => is_x86_feature_detected!("avxvnni"),
            _ => false,
        }
    }
    #[cfg(target_arch = "aarch64")]
    {
        match name {
            "neon" => std::arch::is_aarch64_feature_detected!("neon"),
            "dotprod" => std::arch::is_aarch64_feature_detected!("dotprod"),
            "fullfp16" => std::arch::is_aarch64_feature_detected!("fp16"),
            "bf16" => std::arch::is_aarch64_feature_detected!("bf16"),
            "i8mm" => std::arch::is_aarch64_feature_detected!("i8mm"),
            _ => false,
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let _ = name;
        false
    }
}

/// The description of this machine; see [`Target::host`].
pub fn host() -> Target {
    let has_all = |isa: Isa| isa.required_features().iter().all(|feature| has_feature(feature));
    let isa = match arch() {
        Some(Arch::Aarch64) => Isa::Neon,
        _ if has_all(Isa::Avx512) => Isa::Avx512,
        _ => Isa::Avx2,
    };
    let mut target = Target::generic(isa);
    let optional: Vec<&str> =
        isa.optional_features().iter().copied().filter(|feature| has_feature(feature)).collect();
    target.llvm_features = feature_text(isa, &optional);
    target.cpu = read("/proc/cpuinfo")
        .and_then(|text| cpu_model(&text))
        .unwrap_or_else(|| format!("unknown {}", target.arch.name()));
    target.cores = physical_cores()
        .or_else(|| std::thread::available_parallelism().ok().map(|n| n.get()))
        .and_then(|cores| u32::try_from(cores).ok())
        .unwrap_or(1);
    let caches = caches(Path::new("/sys/devices/system/cpu/cpu0/cache"));
    let size = |level: u32| caches.iter().find(|cache| cache.level == level).map(|cache| cache.bytes);
    if !caches.is_empty() {
        target.l1d = size(1).unwrap_or(target.l1d);
        target.l2 = size(2).unwrap_or(target.l2);
        target.l3 = size(3).unwrap_or(0);
        target.line = caches.iter().find_map(|cache| cache.line).unwrap_or(target.line);
    }
    target
}

/// The text of a small system file.
pub(crate) fn read(path: impl AsRef<Path>) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// The processor's name from `/proc/cpuinfo`; on Arm, which has none, the implementer and part numbers.
pub fn cpu_model(cpuinfo: &str) -> Option<String> {
    let field = |key: &str| {
        let mut pairs = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        pairs.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim().to_string())
    };
    field("model name").filter(|name| !name.is_empty()).or_else(|| {
        let (implementer, part) = (field("CPU implementer")?, field("CPU part")?);
        Some(format!("Arm implementer {implementer} part {part}"))
    })
}

/// A list of CPU numbers as the kernel writes it: `0-3,8,10-11`.
pub fn cpu_list(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if last >= 1 << 16 {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// A cache size as the kernel writes it: `48K`, `2M` or plain bytes.
pub fn cache_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, unit) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1u64 << 10),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        b'G' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

struct Cache {
    level: u32,
    bytes: u64,
    line: Option<u32>,
}

/// The data and unified caches listed in a `/sys` cache directory.
fn caches(directory: &Path) -> Vec<Cache> {
    let mut found = Vec::new();
    for index in 0..8 {
        let file = |name: &str| read(directory.join(format!("index{index}")).join(name));
        let kind = file("type").unwrap_or_default();
        if !matches!(kind.trim(), "Data" | "Unified") {
            continue;
        }
        let level = file("level").and_then(|text| text.trim().parse().ok());
        let bytes = file("size").and_then(|text| cache_bytes(&text)).filter(|&bytes| bytes > 0);
        if let (Some(level), Some(bytes)) = (level, bytes) {
            let line = file("coherency_line_size").and_then(|text| text.trim().parse().ok());
            found.push(Cache { level, bytes, line: line.filter(|&line| line > 0) });
        }
    }
    found
}

/// The CPUs that are switched on.
pub fn online_cpus() -> Option<Vec<usize>> {
    cpu_list(&read("/sys/devices/system/cpu/online")?).filter(|cpus| !cpus.is_empty())
}

/// Online cores, SMT siblings counted once.
fn physical_cores() -> Option<usize> {
    let cores: BTreeSet<String> = online_cpus()?.into_iter().map(siblings).collect();
    Some(cores.len())
}

/// The kernel's list of CPUs that share a core with `cpu`; just the number itself if it does not say.
fn siblings(cpu: usize) -> String {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    read(path).map_or_else(|| cpu.to_string(), |text| text.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_names_are_found() {
        let intel = "processor\t: 0\nmodel\t\t: 106\nmodel name\t: Some CPU @ 2.00GHz\n";
        assert_eq!(cpu_model(intel).as_deref(), Some("Some CPU @ 2.00GHz"));
        let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n";
        assert_eq!(cpu_model(arm).as_deref(), Some("Arm implementer 0x41 part 0xd40"));
        assert_eq!(cpu_model("nothing here"), None);
    }

    #[test]
    fn kernel_lists_and_sizes_parse() {
        assert_eq!(cpu_list("0-2,7\n"), Some(vec![0, 1, 2, 7]));
        assert_eq!(cpu_list("3"), Some(vec![3]));
        assert_eq!(cpu_list("\n"), Some(vec![]));
        assert_eq!(cpu_list("a-b"), None);
        assert_eq!(cpu_list("0-99999999999"), None);
        assert_eq!(cache_bytes("48K\n"), Some(48 << 10));
        assert_eq!(cache_bytes("2M"), Some(2 << 20));
        assert_eq!(cache_bytes("512"), Some(512));
        assert_eq!(cache_bytes(""), None);
        assert_eq!(cache_bytes("manyK"), None);
    }

    #[test]
    fn the_host_makes_sense() {
        let host = Target::host();
        assert_eq!(Some(host.arch), arch());
        assert!(host.cores >= 1 && !host.cpu.is_empty());
        assert!(host.l1d >= 8 << 10 && host.l2 > host.l1d);
        assert!(host.line.is_power_of_two());
        assert_eq!(host.vector_bits, host.isa.vector_bits());
        let optional = host.isa.optional_features();
        for feature in host.llvm_features.split(',').filter_map(|f| f.strip_prefix('+')) {
            assert!(host.isa.required_features().contains(&feature) || optional.contains(&feature));
        }
        let lacking = host.isa.required_features().iter().any(|feature| !has_feature(feature));
        assert_eq!(host.can_run_here().is_err(), lacking);
    }
}
