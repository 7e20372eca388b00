//! `talweg doctor`: what this machine can do, and what would disturb measuring.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
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

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let target = Target::host();
    let problems = disturbances();
    let cores = target.cores.max(1) as usize;
    let one = measure_peak(1);
    let all = if cores > 1 { measure_peak(cores) } else { one };
    let levels = measure_bandwidth();
    let advice = advice::collect(&target, &problems, &arguments.python, &arguments.db);
    if arguments.json {
        let object = json!({
            "target": target,
            "fingerprint": target.fingerprint(),
            "peak_gflops": { "1": one, (cores.to_string()): all },
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
