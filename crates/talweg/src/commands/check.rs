//! `talweg check`: what a model is made of, and what it could take; nothing is compiled.

use std::fmt::Write;

use clap::Args;
use talweg::network::Network;
use talweg_graph::{Step, Work};
use talweg_target::{LevelBandwidth, Target, measure_bandwidth, measure_peak};

use super::model::{CompileArguments, ModelArguments, algorithms, winners};
use super::{Failure, print};

/// Arguments of `talweg check`.
#[derive(Args)]
#[command(after_help = "Example: talweg check model.onnx --dim batch=1")]
pub struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    compile: CompileArguments,
    /// Print every step with its values instead of the tasks.
    #[arg(long)]
    steps: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let threads = arguments.compile.threads()?;
    let mut network = arguments.model.network()?;
    let target = Target::host();
    let winners = winners(&arguments.compile.db, &mut network, &target, threads)?;
    if arguments.steps {
        return print(&steps(&network));
    }
    let peak = measure_peak(threads) * 1e9;
    let levels = measure_bandwidth();
    let program = &network.program;
    let plain = program.steps.iter().filter(|step| matches!(step.work, Work::Plain(_))).count();
    let mut rows = Vec::new();
    let (mut bound, mut flops) = (0.0, 0.0);
    for task in &program.tasks {
        let (work, bytes) = (task.dag.arithmetic(), task.dag.moved_bytes());
        let seconds = (work / peak).max(bytes / bandwidth(&levels, bytes));
        bound += seconds * task.uses as f64;
        flops += work * task.uses as f64;
        rows.push((task, work, bytes, seconds, winners.choice(task).name()));
    }
    if arguments.json {
        let tasks: Vec<serde_json::Value> = rows
            .iter()
            .map(|(task, work, bytes, seconds, schedule)| {
                serde_json::json!({
                    "name": task.dag.name, "uses": task.uses, "flops": work, "bytes": bytes,
                    "roofline_us": seconds * 1e6, "schedule": schedule, "text": task.text,
                })
            })
            .collect();
        let report = serde_json::json!({
            "model": program.graph.name, "nodes": network.imported.nodes.len(), "steps": program.steps.len(),
            "plain_steps": plain, "threads": threads, "flops": flops, "roofline_us": bound * 1e6,
            "tuned": winners.count(program), "tasks": tasks,
        });
        return print(&format!("{report}\n"));
    }
    let graph = &network.imported;
    let mut text = format!("{}: {} nodes, all supported\n", graph.name, graph.nodes.len());
    for &id in &graph.inputs {
        let _ = writeln!(text, "input  {}: {}", graph.value(id).name, graph.ty(id));
    }
    for &id in &graph.outputs {
        let _ = writeln!(text, "output {}: {}", graph.value(id).name, graph.ty(id));
    }
    let _ = writeln!(
        text,
        "\n{:>4}  {:>10}  {:>9}  {:>12}  {:<8}  task",
        "uses", "MFLOP", "MiB", "roofline us", "schedule"
    );
    for (task, work, bytes, seconds, schedule) in rows {
        let _ = writeln!(
            text,
            "{:>4}  {:>10.2}  {:>9.3}  {:>12.1}  {:<8}  {}",
            task.uses,
            work / 1e6,
            bytes / f64::from(1 << 20),
            seconds * 1e6,
            schedule,
            task.dag.name
        );
    }
    let _ = writeln!(
        text,
        "\n{} steps, {} distinct tasks ({} tuned), {plain} steps by plain code\n\
         {:.3} GFLOP; at the roofline of {threads} threads ({:.0} GFLOP/s): {:.3} ms; by the default \
         usually 1.2 to 2 times that\ntuning: about {} s (`talweg tune {} --budget {}s`)",
        program.steps.len(),
        program.tasks.len(),
        winners.count(program),
        flops / 1e9,
        peak / 1e9,
        bound * 1e3,
        10 * program.tasks.len(),
        arguments.model.model.display(),
        10 * program.tasks.len(),
    );
    text += &algorithms(&network).unwrap_or_default();
    print(&text)
}

/// Bytes a second of the nearest cache level that holds this many bytes, or of memory.
fn bandwidth(levels: &[LevelBandwidth], bytes: f64) -> f64 {
    let holds = |level: &&LevelBandwidth| level.bytes as f64 >= bytes;
    let level = levels.iter().find(holds).or(levels.last());
    level.map_or(1e10, |level| level.read_gbs * 1e9)
}

/// Every step, one a line.
fn steps(network: &Network) -> String {
    let program = &network.program;
    let name = |id: &talweg_graph::ValueId| {
        let value = program.graph.value(*id);
        let kind = if value.constant.is_some() { "const " } else { "" };
        format!("{kind}{}: {}", value.name, value.ty)
    };
    let line = |step: &Step| {
        let what = match &step.work {
            Work::Kernel(task) => format!("kernel {task} {}", program.tasks[*task].dag.name),
            Work::Plain(op) => format!("plain {}", op.name()),
            Work::View => "view".to_string(),
        };
        let outputs: Vec<String> = step.outputs.iter().map(name).collect();
        let inputs: Vec<String> = step.inputs.iter().flatten().map(name).collect();
        format!("{} = {what}({})\n", outputs.join(", "), inputs.join(", "))
    };
    program.steps.iter().map(line).collect()
}
