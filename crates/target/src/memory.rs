//! How much memory this process may still take.
//!
//! The parsers take text, so that every case can be tested without the machine that shows it.

use std::path::{Path, PathBuf};

use crate::detect::read;

/// Bytes that this process can have without swapping: of the machine, or of its control group (a container's limit) if that
/// has less. `None` where the system does not say.
pub fn available_memory() -> Option<f64> {
    let machine = read("/proc/meminfo").and_then(|text| of_machine(&text));
    machine.into_iter().chain(limits()).reduce(f64::min)
}

/// What the machine has, from `/proc/meminfo`.
pub fn of_machine(meminfo: &str) -> Option<f64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0)
}

/// What a control group may still take: its limit without what it uses (`memory.max` and `memory.current`; in version 1
/// `memory.limit_in_bytes` and `memory.usage_in_bytes`). Files that were read and may be forgotten count as used there; `stat`,
/// its `memory.stat`, says how much they are. `None` without a limit.
pub fn of_group(limit: &str, used: &str, stat: &str) -> Option<f64> {
    let (limit, used): (f64, f64) = (limit.trim().parse().ok()?, used.trim().parse().ok()?);
    let files = ["total_inactive_file ", "inactive_file "];
    let files = files.iter().find_map(|name| stat.lines().find_map(|line| line.strip_prefix(name)));
    let files: f64 = files.and_then(|bytes| bytes.trim().parse().ok()).unwrap_or(0.0);
    Some((limit - (used - files).max(0.0)).max(0.0))
}

/// The folders of the control group a process is in and of those that one belongs to, each of which may have a limit. `own` is
/// `/proc/self/cgroup`; `controller` is `memory` for the groups of version 1, and empty for those of version 2.
pub fn groups(own: &str, controller: &str) -> Vec<PathBuf> {
    let path = own.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        controllers.split(',').any(|name| name == controller).then_some(path)
    });
    let mut folder = Path::new("/sys/fs/cgroup").join(controller);
    let mut found = vec![folder.clone()];
    for name in path.unwrap_or_default().split('/').filter(|name| !name.is_empty()) {
        folder.push(name);
        found.push(folder.clone());
    }
    found
}

/// What every control group with a limit leaves.
fn limits() -> Vec<f64> {
    let own = read("/proc/self/cgroup").unwrap_or_default();
    let left = |folder: &Path, limit: &str, used: &str| {
        let stat = read(folder.join("memory.stat")).unwrap_or_default();
        of_group(&read(folder.join(limit))?, &read(folder.join(used))?, &stat)
    };
    let versions =
        [("", "memory.max", "memory.current"), ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes")];
    let of = |(controller, limit, used): (&str, &str, &str)| -> Vec<f64> {
        groups(&own, controller).iter().filter_map(|folder| left(folder, limit, used)).collect()
    };
    versions.into_iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_say_what_is_available() {
        let text = "MemTotal:       16000000 kB\nMemAvailable:    2048 kB\nSwapFree: 1 kB\n";
        assert_eq!(of_machine(text), Some(2048.0 * 1024.0));
        assert_eq!(of_machine("MemTotal: 16 kB\n"), None);
        assert_eq!(of_machine(""), None);
    }

    #[test]
    fn limits_of_both_cgroup_versions() {
        assert_eq!(of_group("1000\n", "700\n", ""), Some(300.0));
        assert_eq!(of_group("max\n", "700\n", ""), None);
        assert_eq!(of_group("1000\n", "1200\n", ""), Some(0.0));
        // What was read from files can be forgotten.
        assert_eq!(of_group("1000\n", "700\n", "anon 1\ninactive_file 250\nactive_file 2\n"), Some(550.0));
        let first = "inactive_file 10\ntotal_inactive_file 250\n";
        assert_eq!(of_group("1000\n", "700\n", first), Some(550.0));
        // Version 1 has no word for no limit.
        assert!(of_group("9223372036854771712\n", "700\n", "").is_some_and(|left| left > 1e18));
    }

    #[test]
    fn groups_are_within_groups() {
        let paths = |own: &str, controller: &str| -> Vec<String> {
            groups(own, controller).iter().map(|folder| folder.display().to_string()).collect()
        };
        let root = "/sys/fs/cgroup/";
        assert_eq!(paths("0::/\n", ""), [root]);
        let own = "4:cpu,memory:/docker/7\n0::/a.slice/b.scope\n";
        assert_eq!(paths(own, ""), [root.into(), format!("{root}a.slice"), format!("{root}a.slice/b.scope")]);
        assert_eq!(
            paths(own, "memory"),
            [format!("{root}memory"), format!("{root}memory/docker"), format!("{root}memory/docker/7")]
        );
    }

    #[test]
    fn this_machine_has_some() {
        assert!(available_memory().is_none_or(|bytes| bytes.is_finite() && bytes >= 0.0));
    }
}
