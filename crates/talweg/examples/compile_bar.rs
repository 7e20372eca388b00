//! Compiles the ten kernels of the compile-time bar over and over and prints each one's times.
//!
//! `cargo run --release -p talweg --example compile_bar -- [REPEATS]` (default 20), from the repository's root. Under
//! `valgrind --tool=callgrind` with few repeats it counts instructions, which no neighbour disturbs.

use std::error::Error;

use talweg::{Operator, ScheduleSource};
use talweg_ops::Spec;
use talweg_target::Target;

const KERNELS: [(&str, &str); 5] = [
    ("matmul:m=1024,n=1024,k=1024", "matmul_1024"),
    ("conv2d:n=1,h=56,w=56,c=64,f=64,k=3,s=1,p=1", "conv2d_64x56x56"),
    ("conv2d:n=1,h=28,w=28,c=128,f=128,k=3,s=1,p=1", "conv2d_128x28x28"),
    ("conv2d:n=1,h=14,w=14,c=256,f=256,k=3,s=1,p=1", "conv2d_256x14x14"),
    ("conv2d:n=1,h=7,w=7,c=512,f=512,k=3,s=1,p=1", "conv2d_512x7x7"),
];

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() -> Result<(), Box<dyn Error>> {
    let repeats = std::env::args().nth(1).map_or(Ok(20), |a| a.parse())?.max(1);
    let target = Target::host();
    let mut nests = Vec::new();
    for (spec, kept) in KERNELS {
        for (label, source) in [
            ("default", ScheduleSource::Default),
            ("kept", ScheduleSource::parse(&format!("schedules/{kept}.sched"))),
        ] {
            let operator = Operator::new(Spec::parse(spec)?, &source, &target)?;
            nests.push((format!("{kept} {label}"), operator.nest, Vec::new()));
        }
    }
    for _ in 0..repeats {
        for (_, nest, times) in &mut nests {
            let compiled = talweg_codegen::compile(nest, &target, &talweg_codegen::Options::default())?;
            times.push(compiled.compile_seconds * 1e3);
        }
    }
    let mut medians = Vec::new();
    for (name, _, times) in &mut nests {
        let middle = median(times);
        println!("{name:<26} median {middle:6.2} ms, fastest {:6.2} ms", times[0]);
        medians.push(middle);
    }
    println!("median of the medians {:.2} ms", median(&mut medians));
    Ok(())
}
