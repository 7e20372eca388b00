//! `talweg doctor`: what this machine can do, and what would disturb measuring.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use talweg_measure::Distances;
use talweg_runtime::ThreadPool;
use talweg_target::{Target, disturbances, measure_bandwidth, measure_peak};

use super::colour::Paint;
use super::{DEFAULT_DB, Failure, advice, print};

/// Arguments of `talweg doctor`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  talweg doctor
  talweg doctor --python python3 --json")]
pub struct Arguments {
    /// The Python whose packages are looked at.
    #[arg(long, default_value = "python3", value_name = "PROGRAM")]
    python: String,
    /// The tuning database.
    #[arg(long, default_value = DEFAULT_DB, value_name = "FILE")]
    db: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// How long the distance between cores is watched.
const WATCHED: Duration = Duration::from_millis(300);
/// The pause between two probes of it.
const PAUSE: Duration = Duration::from_millis(1);

/// The shortest and the longest time that a cache line takes from core to core, in nanoseconds: equal when there is one.
fn core_distances(cores: usize) -> Option<(f64, f64)> {
    let pool = ThreadPool::new(cores).ok()?;
    let (begin, mut seen, mut counts) = (Instant::now(), Distances::default(), Vec::new());
    while begin.elapsed() < WATCHED {
        if let Some(seconds) = pool.distance() {
            let at = seen.number(seconds);
            counts.resize(counts.len().max(at + 1), 0);
            counts[at] += 1;
        }
        std::thread::sleep(PAUSE);
    }
    let all: usize = counts.iter().sum();
    // What was seen once in a while is an interruption.
    let usual = counts.iter().enumerate().filter(|(_, count)| **count * 20 > all);
    let found: Vec<f64> = usual.filter_map(|(at, _)| seen.seconds(at)).map(|s| s * 1e9).collect();
    let extreme = |of: fn(f64, f64) -> f64| found.iter().copied().reduce(of);
    extreme(f64::min).zip(extreme(f64::max))
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let target = Target::host();
    let problems = disturbances();
    let cores = target.cores.max(1) as usize;
    let one = measure_peak(1);
    let all = if cores > 1 { measure_peak(cores) } else { one };
    let levels = measure_bandwidth();
    let distances = core_distances(cores);
    let advice = advice::collect(&target, &problems, &arguments.python, &arguments.db);
    if arguments.json {
        let object = json!({
            "target": target,
            "fingerprint": target.fingerprint(),
            "peak_gflops": { "1": one, (cores.to_string()): all },
            "core_distance_ns": distances.map(|(low, high)| [low, high]),
            "bandwidth": levels.iter().map(|l| json!({
                "level": l.level, "bytes": l.bytes, "read_gbs": l.read_gbs, "write_gbs": l.write_gbs, "copy_gbs": l.copy_gbs,
            })).collect::<Vec<_>>(),
            "disturbances": problems.iter().map(|d| json!({ "what": d.what, "remedy": d.remedy })).collect::<Vec<_>>(),
            "advice": advice.iter().map(|a| json!({ "what": a.what, "remedy": a.remedy })).collect::<Vec<_>>(),
        });
        return print(&format!("{object}\n"));
    }
    let mut out = String::new();
    let paint = Paint::stdout();
    let kib = |b: u64| if b >= 1 << 20 { format!("{} MiB", b >> 20) } else { format!("{} KiB", b >> 10) };
    let _ = writeln!(out, "CPU        {} ({} cores)", target.cpu, target.cores);
    let _ = writeln!(
        out,
        "vectors    {}: {} bits, {} registers, {} f32 lanes",
        target.isa.name(),
        target.vector_bits,
        target.vector_registers,
        target.lanes(4)
    );
    let _ = writeln!(out, "caches     L1 {}, L2 {}, L3 {}", kib(target.l1d), kib(target.l2), kib(target.l3));
    let _ = writeln!(out, "features   {}", target.llvm_features);
    let _ = writeln!(out, "peak       {one:.1} GFLOP/s on one thread, {all:.1} on {cores}");
    let _ = writeln!(
        out,
        "bandwidth  {:<6}  {:<9} {:>7}  {:>9}  {:>7}   (GB/s, one thread)",
        "level", "set", "read", "write", "copy"
    );
    for l in &levels {
        let _ = writeln!(
            out,
            "           {:<6}  {:<9} {:>7.1}  {:>9.1}  {:>7.1}",
            l.level,
            kib(l.bytes),
            l.read_gbs,
            l.write_gbs,
            l.copy_gbs
        );
    }
    match distances {
        Some((low, high)) if low < high => {
            let _ = writeln!(
                out,
                "distance   {low:.0} to {high:.0} ns from core to core: it changes while programs run, and times with it"
            );
        }
        Some((low, _)) => {
            let _ = writeln!(out, "distance   {low:.0} ns from core to core");
        }
        None => {}
    }
    if problems.is_empty() {
        let _ = writeln!(out, "measuring  {}", paint.good("nothing found that would disturb it"));
    }
    for p in &problems {
        let _ = writeln!(out, "{}   {}\n           -> {}", paint.warn("disturbs"), p.what, p.remedy);
    }
    for a in &advice {
        let _ = writeln!(out, "{}     {}\n           -> {}", paint.warn("advice"), a.what, a.remedy);
    }
    print(&out)
}
