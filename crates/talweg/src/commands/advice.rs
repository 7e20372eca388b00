//! The advice of `talweg doctor`: what limits talweg on this machine besides what disturbs measuring, each with a remedy.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use talweg::peers::PEERS;
use talweg_target::{Disturbance, Isa, Target, available_memory};

/// A Python that takes longer than this to look for packages is not waited for.
const PATIENCE: Duration = Duration::from_secs(20);
/// Memory below which large models cannot be tuned.
const LITTLE_MEMORY: f64 = 4.0 * (1u64 << 30) as f64;

/// One piece of advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// What was found.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

fn advice(what: impl Into<String>, remedy: impl Into<String>) -> Option<Advice> {
    Some(Advice { what: what.into(), remedy: remedy.into() })
}

/// Looks at the machine, and at the packages of a Python.
pub fn collect(target: &Target, disturbances: &[Disturbance], python: &str, db: &Path) -> Vec<Advice> {
    let checks = [
        instructions(target),
        threads(target, disturbances),
        memory(available_memory()),
        perf(&std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default()),
        database(db),
        peers(python),
        compiler(),
    ];
    checks.into_iter().flatten().collect()
}

fn instructions(target: &Target) -> Option<Advice> {
    match target.isa {
        Isa::Avx512 => None,
        Isa::Avx2 => advice(
            "this CPU has AVX2 and not AVX-512: artefacts that were compiled for AVX-512 do not run here",
            "tune on the machine that the artefact will run on, or compile with `--target avx2`",
        ),
        _ => advice(
            "this CPU is no x86-64 with AVX2: code is compiled for it and has not been run by the developers",
            "check results with `talweg verify` before relying on them",
        ),
    }
}

fn threads(target: &Target, disturbances: &[Disturbance]) -> Option<Advice> {
    let shares = disturbances.iter().any(|d| d.what.contains("multithreading"));
    if !shares || target.cores < 2 {
        return None;
    }
    let half = target.cores / 2;
    advice(
        format!("{} hardware threads are probably {half} cores with a neighbour each", target.cores),
        format!("tune and run with `--threads {half}`, or set `threads = {half}` in talweg.toml"),
    )
}

fn memory(available: Option<f64>) -> Option<Advice> {
    let available = available.filter(|bytes| *bytes < LITTLE_MEMORY)?;
    advice(
        format!("{:.1} GiB of memory are available", available / (1u64 << 30) as f64),
        "large models need about three times their tensors while they are checked; close other programs",
    )
}

fn perf(paranoid: &str) -> Option<Advice> {
    let level: i64 = paranoid.trim().parse().ok()?;
    if level < 3 {
        return None;
    }
    advice(
        format!("performance counters are closed to users (perf_event_paranoid is {level})"),
        "talweg does not need them; `perf stat` on an artefact does: write 2 to /proc/sys/kernel/perf_event_paranoid",
    )
}

fn database(db: &Path) -> Option<Advice> {
    if db.exists() {
        return None;
    }
    advice(
        format!(
            "there is no tuning database {}: every kernel is compiled by the analytic default",
            db.display()
        ),
        "run `talweg tune model.onnx --budget 5m`, or name a database with --db or `db` in talweg.toml",
    )
}

fn compiler() -> Option<Advice> {
    let found = Command::new("cc").arg("--version").stdin(Stdio::null()).output();
    if found.is_ok_and(|output| output.status.success()) {
        return None;
    }
    advice(
        "there is no C compiler `cc`: `talweg compile --emit so` cannot link shared libraries",
        "install one, on Debian `apt-get install gcc libc6-dev`; artefacts need none",
    )
}

/// Runtimes that a Python lacks.
fn peers(python: &str) -> Option<Advice> {
    let modules = ["onnxruntime", "openvino", "torch"];
    let script = format!(
        "import importlib.util as u\nprint(' '.join(m for m in {modules:?} if u.find_spec(m) is None))"
    );
    let missing = match answer(python, &script) {
        Some(text) => text,
        None => {
            return advice(
                format!("`{python}` does not start: other runtimes cannot be compared with"),
                "install Python, or name one with --python or `python` in talweg.toml",
            );
        }
    };
    lacking(python, missing.split_whitespace())
}

fn lacking<'a>(python: &str, missing: impl Iterator<Item = &'a str>) -> Option<Advice> {
    let missing: Vec<&str> = missing.collect();
    if missing.is_empty() {
        return None;
    }
    let packages: Vec<&str> =
        PEERS.iter().filter(|(peer, _)| missing.contains(peer)).map(|(_, packages)| *packages).collect();
    advice(
        format!("`{python}` has no {}", missing.join(", ")),
        format!(
            "for `talweg bench --against` and `verify --against`: `{python} -m pip install numpy {}`, or name another \
             Python with --python",
            packages.join(" ")
        ),
    )
}

/// What a Python prints; none if it cannot be started, fails, or takes too long.
fn answer(python: &str, script: &str) -> Option<String> {
    let mut child = Command::new(python)
        .args(["-c", script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let started = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => break,
            Ok(None) if started.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(10)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    }
    let output = child.wait_with_output().ok()?;
    String::from_utf8(output.stdout).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finding_has_a_remedy() {
        assert!(instructions(&Target::generic(Isa::Avx512)).is_none());
        let old = instructions(&Target::generic(Isa::Avx2)).expect("advice");
        assert!(old.what.contains("AVX2") && !old.remedy.is_empty());
        assert!(memory(Some(1024.0 * 1048576.0)).is_some_and(|a| a.what.contains("1.0 GiB")));
        assert!(memory(Some(1024.0 * 33554432.0)).is_none() && memory(None).is_none());
        assert!(perf("4\n").is_some() && perf("2\n").is_none() && perf("").is_none());
        assert!(database(Path::new("no/such.db")).is_some_and(|a| a.remedy.contains("talweg tune")));
    }

    #[test]
    fn neighbours_halve_the_threads() {
        let target = Target { cores: 8, ..Target::generic(Isa::Avx512) };
        let smt = Disturbance { what: "simultaneous multithreading is on".into(), remedy: String::new() };
        assert!(threads(&target, &[smt]).is_some_and(|a| a.remedy.contains("--threads 4")));
        assert!(threads(&target, &[]).is_none());
    }

    #[test]
    fn packages_that_are_missing_are_named_with_the_command() {
        assert!(lacking("python3", [].into_iter()).is_none());
        let found = lacking("python3", ["openvino"].into_iter()).expect("advice");
        assert!(found.remedy.contains("python3 -m pip install numpy openvino"), "{}", found.remedy);
        assert!(peers("/no/such/python").is_some_and(|a| a.what.contains("does not start")));
    }
}
