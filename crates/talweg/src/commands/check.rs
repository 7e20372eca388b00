//! `talweg check`: what a model is made of, and what it could take; nothing is compiled.

use std::fmt::Write;

use clap::Args;
use talweg::network::Network;
use talweg::roofline::{Machine, Roofline};
use talweg_graph::{Step, Work};
use talweg_target::Target;

use super::model::{CompileArguments, ModelArguments, algorithms};
use super::{Failure, print};

/// Arguments of `talweg check`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  talweg check model.onnx
  talweg check model.onnx --dim batch=1 --threads 1 --json
  talweg check model.onnx --shape x=1,3,224,224 --steps")]
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
    let winners = arguments.compile.winners(&mut network, &target)?;
    if arguments.steps {
        let lines = steps(&network);
        if arguments.json {
            let object = serde_json::json!({ "model": network.program.graph.name, "steps": lines });
            return print(&format!("{object}\n"));
        }
        return print(&lines.iter().map(|line| format!("{line}\n")).collect::<String>());
    }
    let machine = Machine::measure(threads);
    let program = &network.program;
    let plain = program.steps.iter().filter(|step| matches!(step.work, Work::Plain(_))).count();
    let mut rows = Vec::new();
    let (mut bound, mut flops) = (0.0, 0.0);
    for task in &program.tasks {
        let roofline = Roofline::of(&task.dag, &machine);
        bound += roofline.seconds * task.uses as f64;
        flops += roofline.flops * task.uses as f64;
        rows.push((task, roofline, winners.choice(task).name()));
    }
    if arguments.json {
        let tasks: Vec<serde_json::Value> = rows
            .iter()
            .enumerate()
            .map(|(at, (task, roofline, schedule))| {
                serde_json::json!({
                    "task": at, "name": task.dag.name, "nodes": network.nodes_of(at), "uses": task.uses,
                    "flops": roofline.flops, "bytes": roofline.bytes, "roofline_us": roofline.seconds * 1e6,
                    "schedule": schedule, "text": task.text,
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
        "\n{:>4}  {:>4}  {:>10}  {:>9}  {:>12}  {:<8}  {:<18}  first node",
        "task", "uses", "MFLOP", "MiB", "roofline us", "schedule", "computes"
    );
    for (at, (task, roofline, schedule)) in rows.into_iter().enumerate() {
        let _ = writeln!(
            text,
            "{at:>4}  {:>4}  {:>10.2}  {:>9.3}  {:>12.1}  {:<8}  {:<18}  {}",
            task.uses,
            roofline.flops / 1e6,
            roofline.bytes / f64::from(1 << 20),
            roofline.seconds * 1e6,
            schedule,
            task.dag.name,
            network.nodes_of(at).first().map_or("", String::as_str)
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
        machine.peak / 1e9,
        bound * 1e3,
        10 * program.tasks.len(),
        arguments.model.model.display(),
        10 * program.tasks.len(),
    );
    text += &algorithms(&network).unwrap_or_default();
    print(&text)
}

/// Every step, one a line.
fn steps(network: &Network) -> Vec<String> {
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
        format!("{} = {what}({})", outputs.join(", "), inputs.join(", "))
    };
    program.steps.iter().map(line).collect()
}
