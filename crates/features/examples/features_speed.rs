//! How many candidates per second the features of a conv2d sketch are evaluated for, on one core.

use std::time::Instant;

use talweg_expr::Symbol;
use talweg_features::{FeatureProgram, FeatureScratch};
use talweg_ops::Spec;
use talweg_schedule::testing::Random;
use talweg_schedule::{Schedule, Trace};
use talweg_target::Target;

const KNOBS: [&str; 8] = ["oh1", "oh2", "ow1", "ow2", "f1", "f2", "f3", "c1"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dag = Spec::parse("conv2d:n=1,h=56,w=56,c=64,f=64,k=3,s=1,p=1")?.build()?;
    let trace = Trace::parse(include_str!("conv2d.sketch"))?;
    let nest = Schedule::replay(dag, &trace)?.lower()?;
    let knobs: Vec<Symbol> = KNOBS.iter().map(Symbol::knob).collect();
    let started = Instant::now();
    let programs = [
        ("stores", FeatureProgram::new(&nest, &knobs, &Target::host())?),
        ("loops", FeatureProgram::of_context(&nest, &knobs)?),
        ("buffers", FeatureProgram::of_relations(&nest, &knobs)?),
    ];
    println!("compiled in {:.1} ms", started.elapsed().as_secs_f64() * 1e3);

    let n = 2048;
    let mut random = Random::new(1);
    let candidates: Vec<f64> = (0..n * KNOBS.len()).map(|_| (1 + random.below(32)) as f64).collect();
    let mut scratch = FeatureScratch::new();
    for (what, program) in &programs {
        let mut out = vec![0.0; n * program.rows() * program.width()];
        let mut best = f64::INFINITY;
        for _ in 0..20 {
            let started = Instant::now();
            program.eval_batch(&candidates, n, &mut out, &mut scratch);
            best = best.min(started.elapsed().as_secs_f64());
        }
        println!(
            "{what}: {} x {}, {} vary, {} steps: {:.0} candidates/s",
            program.rows(),
            program.width(),
            program.varying(),
            program.steps(),
            n as f64 / best
        );
    }
    Ok(())
}
