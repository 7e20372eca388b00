//! Imports a model, rewrites it, cuts it into tasks, and prints these; fails when a task has no default schedule.
//!
//! With `--verify` the tasks are also computed by the reference interpreter and compared with the model as imported.
//!
//! `cargo run --example tasks -- model.onnx [--text] [--verify]`

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use talweg_graph::reference::{difference, outputs, run_graph, run_program};
use talweg_graph::testing::random_inputs;
use talweg_graph::{PartitionOptions, Work, optimise, partition};
use talweg_ir::verify_nest;
use talweg_onnx::{ImportOptions, import};
use talweg_schedule::concrete::concretize;
use talweg_schedule::{Schedule, analytic};
use talweg_target::Target;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let path = arguments.first().ok_or("usage: tasks MODEL.onnx [--text] [--verify]")?;
    let start = Instant::now();
    let mut graph = import(Path::new(path), &ImportOptions::default())?;
    let original = graph.clone();
    let imported = start.elapsed();
    let nodes = graph.nodes.len();
    let report = optimise(&mut graph)?;
    let optimised = start.elapsed() - imported;
    let program = partition(graph, &PartitionOptions::default())?;
    let cut = start.elapsed() - imported - optimised;
    println!(
        "{path}: {nodes} nodes, {} after rewriting, {} steps, {} tasks; imported in {imported:.1?}, rewritten in \
         {optimised:.1?}, cut in {cut:.1?}",
        program.graph.nodes.len(),
        program.steps.len(),
        program.tasks.len()
    );
    println!("rules: {:?}", report.applied);
    for step in &program.steps {
        let work = match &step.work {
            Work::Kernel(task) => format!("task {task} {}", program.tasks[*task].dag.name),
            Work::Plain(op) => format!("plain {}", op.name()),
            Work::View => "view".to_string(),
        };
        let types: Vec<String> = step.outputs.iter().map(|o| program.graph.ty(*o).to_string()).collect();
        println!("  {work} -> {} ({})", types.join(", "), step.nodes.join(" "));
    }
    let target = Target::host();
    let mut failures = 0;
    for (at, task) in program.tasks.iter().enumerate() {
        if arguments.iter().any(|a| a == "--text") {
            println!("task {at}, used {}:\n{}", task.uses, task.text);
        }
        let trace = analytic::default_trace(&task.dag, &target);
        let nest = Schedule::replay(task.dag.clone(), &trace)
            .and_then(|s| s.lower())
            .and_then(|n| concretize(&n, &|_| None));
        let wrong = match nest {
            Ok(nest) => verify_nest(&nest).err().map(|v| format!("{v:?}")),
            Err(error) => Some(error.to_string()),
        };
        if let Some(wrong) = wrong {
            failures += 1;
            println!("task {at}: no default schedule: {wrong}\n{}", task.text);
        }
    }
    if arguments.iter().any(|a| a == "--verify") {
        let inputs = random_inputs(&original, 1);
        let expected = outputs(&original, &run_graph(&original, &inputs)?)?;
        let found = outputs(&program.graph, &run_program(&program, &inputs)?)?;
        for (e, f) in expected.iter().zip(&found) {
            println!("error relative to the output's scale: {:.1e}", difference(e, f));
        }
    }
    if failures > 0 {
        return Err(format!("{failures} tasks have no default schedule").into());
    }
    Ok(())
}
