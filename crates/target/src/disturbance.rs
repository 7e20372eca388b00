//! What on this machine would spoil a measurement, each with what to do about it.
//!
//! The parsers take text, so that every case can be tested without the machine that shows it.

use crate::affinity::allowed_cores;
use crate::detect::{online_cpus, read};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How long steal time and CPU use are watched.
const WINDOW: Duration = Duration::from_millis(150);

/// One thing that makes timings worse or less repeatable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disturbance {
    /// What was found.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

fn disturbance(what: impl Into<String>, remedy: impl Into<String>) -> Option<Disturbance> {
    Some(Disturbance { what: what.into(), remedy: remedy.into() })
}

/// Looks at the machine for about 150 ms and lists what would disturb measuring; empty if nothing was found.
pub fn disturbances() -> Vec<Disturbance> {
    let before = read("/proc/stat");
    std::thread::sleep(WINDOW);
    let after = read("/proc/stat");
    let online = online_cpus().unwrap_or_default();
    let file = |path: &str| read(path).unwrap_or_default();
    let cpufreq = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    let checks = [
        before.zip(after).and_then(|(before, after)| cpu_use(&before, &after)),
        load(&file("/proc/loadavg")),
        governor(&file(cpufreq)),
        turbo(
            read("/sys/devices/system/cpu/intel_pstate/no_turbo").as_deref(),
            read("/sys/devices/system/cpu/cpufreq/boost").as_deref(),
        ),
        smt(&file("/sys/devices/system/cpu/smt/active")),
        quota(cgroup_quota(), online.len()),
        huge_pages(&file("/sys/kernel/mm/transparent_hugepage/enabled")),
        virtual_machine(&file("/proc/cpuinfo")),
        affinity(&allowed_cores(), &online),
    ];
    checks.into_iter().flatten().collect()
}

/// Time counters of the first line of `/proc/stat`, in clock ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuTimes {
    /// Neither idle nor stolen.
    pub busy: u64,
    /// Idle, also while waiting for disks.
    pub idle: u64,
    /// Taken by other virtual machines.
    pub steal: u64,
}

/// The totals over all CPUs from `/proc/stat`.
pub fn cpu_times(stat: &str) -> Option<CpuTimes> {
    let line = stat.lines().find(|line| line.starts_with("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().skip(1).map_while(|field| field.parse().ok()).collect();
    let [user, nice, system, idle, wait, irq, softirq, rest @ ..] = ticks.as_slice() else {
        return None;
    };
    let busy = [user, nice, system, irq, softirq].into_iter().fold(0u64, |sum, &t| sum.saturating_add(t));
    Some(CpuTimes { busy, idle: idle.saturating_add(*wait), steal: rest.first().copied().unwrap_or(0) })
}

/// Steal time and work of other processes between two readings of `/proc/stat`, during which we slept.
pub fn cpu_use(before: &str, after: &str) -> Option<Disturbance> {
    let (before, after) = (cpu_times(before)?, cpu_times(after)?);
    let steal = after.steal.saturating_sub(before.steal);
    let busy = after.busy.saturating_sub(before.busy);
    let total = steal + busy + after.idle.saturating_sub(before.idle);
    let percent = |part: u64| 100 * part / total.max(1);
    if percent(steal) >= 2 {
        return disturbance(
            format!("the hypervisor took {} % of the CPU time just now (steal)", percent(steal)),
            "measure at another time or on a dedicated machine",
        );
    }
    if percent(busy) >= 5 {
        return disturbance(
            format!("other processes used {} % of the CPU time just now", percent(busy)),
            "stop them (`top` shows which) or wait until they are done",
        );
    }
    None
}

/// A load average above one half, from `/proc/loadavg`.
pub fn load(loadavg: &str) -> Option<Disturbance> {
    let load: f64 = loadavg.split_whitespace().next()?.parse().ok()?;
    if load <= 0.5 {
        return None;
    }
    disturbance(
        format!("the load average of the last minute is {load:.2}"),
        "stop other work (`top` shows it) and wait a minute before measuring",
    )
}

/// A frequency governor other than `performance`, from `scaling_governor`.
pub fn governor(text: &str) -> Option<Disturbance> {
    match text.trim() {
        "" | "performance" => None,
        other => disturbance(
            format!("the CPU frequency governor is `{other}`, so the clock follows the load"),
            "select the performance governor: `cpupower frequency-set -g performance`",
        ),
    }
}

/// Turbo switched on, from Intel's `no_turbo` or the generic `boost` file.
pub fn turbo(no_turbo: Option<&str>, boost: Option<&str>) -> Option<Disturbance> {
    let on = match (no_turbo.map(str::trim), boost.map(str::trim)) {
        (Some(no_turbo), _) => no_turbo == "0",
        (None, Some(boost)) => boost == "1",
        (None, None) => false,
    };
    if !on {
        return None;
    }
    disturbance(
        "turbo frequencies are on, so the clock depends on temperature and on the other cores",
        "for repeatable timings switch turbo off (write 1 to intel_pstate/no_turbo or 0 to cpufreq/boost)",
    )
}

/// Simultaneous multithreading in use, from `smt/active`.
pub fn smt(active: &str) -> Option<Disturbance> {
    if active.trim() != "1" {
        return None;
    }
    disturbance(
        "simultaneous multithreading is on: two hardware threads share each core's arithmetic units",
        "use at most one thread per physical core, and keep the siblings idle or switch SMT off",
    )
}

/// The CPU quota of a cgroup in cores, from `cpu.max` (version 2): quota and period in microseconds.
pub fn quota_v2(cpu_max: &str) -> Option<f64> {
    let mut fields = cpu_max.split_whitespace();
    let quota: f64 = fields.next()?.parse().ok()?;
    let period: f64 = fields.next()?.parse().ok()?;
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

/// The CPU quota of a cgroup in cores, from `cpu.cfs_quota_us` and `cpu.cfs_period_us` (version 1).
pub fn quota_v1(quota: &str, period: &str) -> Option<f64> {
    let (quota, period): (f64, f64) = (quota.trim().parse().ok()?, period.trim().parse().ok()?);
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

fn cgroup_quota() -> Option<f64> {
    let own = read("/proc/self/cgroup").unwrap_or_default();
    let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or("");
    let candidates = [format!("/sys/fs/cgroup/{own}/cpu.max"), "/sys/fs/cgroup/cpu.max".to_string()];
    let v2 = candidates.iter().find_map(|path| quota_v2(&read(path)?));
    v2.or_else(|| {
        let quota = read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")?;
        quota_v1(&quota, &read("/sys/fs/cgroup/cpu/cpu.cfs_period_us")?)
    })
}

/// A cgroup quota below the number of CPUs.
pub fn quota(cores: Option<f64>, online: usize) -> Option<Disturbance> {
    let cores = cores?;
    if cores >= online as f64 {
        return None;
    }
    disturbance(
        format!("this control group may use {cores:.2} cores of {online}; beyond that it is paused"),
        "raise the container's CPU limit, or measure with fewer threads than the quota",
    )
}

/// Transparent huge pages switched off, from `transparent_hugepage/enabled`.
pub fn huge_pages(enabled: &str) -> Option<Disturbance> {
    if !enabled.contains("[never]") {
        return None;
    }
    disturbance(
        "transparent huge pages are off, so large tensors cost more TLB misses",
        "write `madvise` to /sys/kernel/mm/transparent_hugepage/enabled",
    )
}

/// The hypervisor flag in `/proc/cpuinfo`.
pub fn virtual_machine(cpuinfo: &str) -> Option<Disturbance> {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"))?;
    if !flags.split_whitespace().any(|flag| flag == "hypervisor") {
        return None;
    }
    disturbance(
        "this is a virtual machine: neighbours share its caches, memory bandwidth and clock",
        "compare only results of one run, repeat runs, or use a machine of your own",
    )
}

/// An affinity mask with fewer CPUs than are online.
pub fn affinity(allowed: &[usize], online: &[usize]) -> Option<Disturbance> {
    if allowed.is_empty() || allowed.len() >= online.len() {
        return None;
    }
    disturbance(
        format!("this process may use {} of {} CPUs (affinity mask)", allowed.len(), online.len()),
        "start it without taskset or cpuset limits, or measure with that many threads",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: &str = "cpu  1000 0 200 9000 10 0 5 40 0 0\ncpu0 1 2 3\n";

    #[test]
    fn stat_lines_parse() {
        assert_eq!(cpu_times(QUIET), Some(CpuTimes { busy: 1205, idle: 9010, steal: 40 }));
        assert_eq!(cpu_times("cpu  1 2 3"), None);
        assert_eq!(cpu_times(""), None);
    }

    #[test]
    fn steal_and_other_work_are_told_apart() {
        let steal = cpu_use(QUIET, "cpu  1000 0 200 9080 10 0 5 60 0 0\n").unwrap();
        assert!(steal.what.contains("20 %") && steal.what.contains("steal"), "{}", steal.what);
        let busy = cpu_use(QUIET, "cpu  1050 0 200 9050 10 0 5 40 0 0\n").unwrap();
        assert!(busy.what.contains("50 %") && busy.what.contains("processes"), "{}", busy.what);
        assert_eq!(cpu_use(QUIET, "cpu  1001 0 200 9100 10 0 5 40 0 0\n"), None);
        assert_eq!(cpu_use(QUIET, QUIET), None);
    }

    #[test]
    fn load_governor_turbo_and_smt() {
        assert_eq!(load("0.20 0.10 0.05 1/100 1234"), None);
        assert!(load("1.75 0.10 0.05 1/100 1234").unwrap().what.contains("1.75"));
        assert_eq!(load("garbage"), None);
        assert_eq!(governor("performance\n"), None);
        assert_eq!(governor(""), None);
        assert!(governor("powersave\n").unwrap().what.contains("`powersave`"));
        assert_eq!(turbo(None, None), None);
        assert_eq!(turbo(Some("1\n"), Some("1")), None);
        assert!(turbo(Some("0\n"), None).is_some());
        assert!(turbo(None, Some("1\n")).is_some());
        assert_eq!(smt("0\n"), None);
        assert!(smt("1\n").is_some());
    }

    #[test]
    fn quotas_of_both_cgroup_versions() {
        assert_eq!(quota_v2("150000 100000\n"), Some(1.5));
        assert_eq!(quota_v2("max 100000\n"), None);
        assert_eq!(quota_v1("-1\n", "100000\n"), None);
        assert_eq!(quota_v1("50000\n", "100000\n"), Some(0.5));
        assert!(quota(Some(1.5), 4).unwrap().what.contains("1.50 cores of 4"));
        assert_eq!(quota(Some(4.0), 4), None);
        assert_eq!(quota(None, 4), None);
    }

    #[test]
    fn pages_hypervisor_and_affinity() {
        assert_eq!(huge_pages("always [madvise] never"), None);
        assert!(huge_pages("always madvise [never]").is_some());
        assert!(virtual_machine("flags\t\t: fpu hypervisor avx\n").is_some());
        assert_eq!(virtual_machine("flags\t\t: fpu avx\n"), None);
        assert_eq!(affinity(&[0, 1], &[0, 1]), None);
        assert!(affinity(&[1], &[0, 1]).unwrap().what.contains("1 of 2"));
    }

    #[test]
    fn every_finding_on_this_machine_has_a_remedy() {
        assert!(disturbances().iter().all(|found| !found.what.is_empty() && !found.remedy.is_empty()));
    }
}
