//! Compiles many different kernels in one process and prints the median time and the growth of memory.
//!
//! `cargo run --release -p talweg --example compile_speed -- [KERNELS]` (default 2000)

use std::error::Error;
use std::time::Instant;

use talweg::{Operator, ScheduleSource};
use talweg_ops::Spec;
use talweg_target::Target;

/// Resident memory of this process in MiB.
fn resident() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: f64 = text.split_whitespace().nth(1).and_then(|w| w.parse().ok()).unwrap_or(0.0);
    pages * 4096.0 / f64::from(1 << 20)
}

/// The `at`-th of a family of operators, all different.
fn spec(family: &str, at: usize) -> String {
    let (a, b) = (at % 40, at / 40);
    match family {
        "matmul" => format!("matmul:m={},n={},k={}", 64 + a, 128 + 16 * (b % 8), 96 + b),
        "matmul + gelu" => {
            format!("matmul:m={},n={},k={},epilogue=bias+gelu", 64 + a, 128 + 16 * (b % 8), 96 + b)
        }
        "conv2d" => format!("conv2d:n=1,h={},w={},c=32,f=64,k=3,s=1,p=1", 14 + a, 14 + b),
        _ => format!("conv2d:n=1,h={},w={},c=32,f=64,k=3,s=1,p=1,epilogue=bias+gelu", 14 + a, 14 + b),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let kernels: usize = std::env::args().nth(1).map_or(Ok(2000), |a| a.parse())?;
    let target = Target::host();
    let families = ["matmul", "conv2d", "matmul + gelu", "conv2d + gelu"];
    let start = Instant::now();
    let mut early = 0.0;
    for (at, family) in families.iter().enumerate() {
        let mut times = Vec::new();
        for n in 0..kernels.div_ceil(families.len()) {
            let operator = Operator::new(Spec::parse(&spec(family, n))?, &ScheduleSource::Default, &target)?;
            let compiled =
                talweg_codegen::compile(&operator.nest, &target, &talweg_codegen::Options::default())?;
            times.push(compiled.compile_seconds * 1e3);
            if at == 0 && n == 50 {
                early = resident();
            }
        }
        times.sort_by(f64::total_cmp);
        println!(
            "{family:<14} {:>5} kernels, median {:.2} ms, slowest {:.2} ms, resident {:.0} MiB",
            times.len(),
            times[times.len() / 2],
            times[times.len() - 1],
            resident()
        );
    }
    println!(
        "{kernels} kernels in {:.1} s; memory after 50 kernels {early:.0} MiB, at the end {:.0} MiB",
        start.elapsed().as_secs_f64(),
        resident()
    );
    Ok(())
}
