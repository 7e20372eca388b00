//! Prints what this machine is and what it measures: `cargo run --release --example machine`.

fn main() {
    let target = talweg_target::Target::host();
    println!("{target:#?}\n{}", target.fingerprint());
    println!("peak: {:.1} GFLOP/s on one thread", talweg_target::measure_peak(1));
    println!(
        "peak: {:.1} GFLOP/s on {} threads",
        talweg_target::measure_peak(target.cores as usize),
        target.cores
    );
    println!("quick probe: {:.1} GFLOP/s", talweg_target::core_probe());
    for level in talweg_target::measure_bandwidth() {
        println!(
            "{:>4} {:>10} bytes: read {:.1}, write {:.1}, copy {:.1} GB/s",
            level.level, level.bytes, level.read_gbs, level.write_gbs, level.copy_gbs
        );
    }
    for found in talweg_target::disturbances() {
        println!("- {}: {}", found.what, found.remedy);
    }
}
