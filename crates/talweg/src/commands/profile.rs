//! `talweg profile`: where a model's time goes.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use talweg_runtime::model::{Session, Work};
use talweg_target::measure_peak;

use super::model::{CompileArguments, ModelArguments, inputs};
use super::{Failure, check_output, print, write_file};

/// Arguments of `talweg profile`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  talweg profile resnet50.onnx --threads 2 --trace resnet50.json
  talweg profile resnet50.talweg --runs 100 --json")]
pub struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    compile: CompileArguments,
    /// Runs whose median is reported.
    #[arg(long, default_value_t = 30, value_name = "N")]
    runs: usize,
    /// Writes one run for chrome://tracing or Perfetto.
    #[arg(long, value_name = "FILE.json")]
    trace: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// One line of the table.
struct Row {
    nodes: String,
    label: String,
    schedule: String,
    seconds: f64,
    flops: f64,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(path) = &arguments.trace {
        check_output(path, arguments.model.files().chain([&arguments.compile.db]))?;
    }
    let threads = arguments.compile.threads()?;
    let mut session = arguments.model.session(&arguments.compile)?;
    for (at, input) in inputs(&session, &[])?.iter().enumerate() {
        session.input_mut(at).copy_from_slice(input.bytes());
    }
    let rows = measure(&mut session, arguments.runs.max(1))?;
    let peak = measure_peak(threads) * 1e9;
    let total: f64 = rows.iter().map(|row| row.seconds).sum();
    if let Some(path) = &arguments.trace {
        write_file(path, chrome_trace(&rows).as_bytes())?;
    }
    if arguments.json {
        let steps: Vec<serde_json::Value> = rows
            .iter()
            .map(|row| {
                serde_json::json!({
                    "nodes": row.nodes, "kernel": row.label, "schedule": row.schedule, "us": row.seconds * 1e6,
                    "share": row.seconds / total, "gflops": row.flops / row.seconds / 1e9,
                    "peak_fraction": row.flops / row.seconds / peak,
                })
            })
            .collect();
        let report = serde_json::json!({
            "model": session.model().manifest().model, "threads": threads, "total_us": total * 1e6,
            "peak_gflops": peak / 1e9, "steps": steps,
        });
        return print(&format!("{report}\n"));
    }
    print(&table(rows, total, peak, threads))
}

fn measure(session: &mut Session, runs: usize) -> Result<Vec<Row>, Failure> {
    session.execute().map_err(Failure::work)?;
    let count = session.model().manifest().steps.len();
    let mut times = vec![Vec::with_capacity(runs); count];
    for _ in 0..runs {
        for (at, time) in session.execute_profiled().map_err(Failure::work)?.iter().enumerate() {
            times[at].push(time.as_secs_f64());
        }
    }
    let manifest = session.model().manifest();
    let row = |(step, mut times): (&talweg_runtime::model::Step, Vec<f64>)| {
        times.sort_by(f64::total_cmp);
        let (label, schedule, flops) = match &step.work {
            Work::Kernel { kernel, .. } => {
                let kernel = &manifest.kernels[*kernel];
                (kernel.label.clone(), kernel.schedule.clone(), kernel.flops)
            }
            Work::Plain { op, .. } => (op.name(), "plain".to_string(), 0.0),
        };
        Row { nodes: step.nodes.join(" + "), label, schedule, seconds: times[times.len() / 2], flops }
    };
    Ok(manifest.steps.iter().zip(times).map(row).collect())
}

fn table(mut rows: Vec<Row>, total: f64, peak: f64, threads: usize) -> String {
    let mut text = format!(
        "{:>9}  {:>6}  {:>8}  {:>7}  {:<8}  {:<22}  nodes\n",
        "us", "share", "GFLOP/s", "of peak", "schedule", "kernel"
    );
    rows.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    for row in &rows {
        let _ = writeln!(
            text,
            "{:>9.1}  {:>5.1}%  {:>8.1}  {:>6.0}%  {:<8}  {:<22}  {}",
            row.seconds * 1e6,
            100.0 * row.seconds / total,
            row.flops / row.seconds / 1e9,
            100.0 * row.flops / row.seconds / peak,
            row.schedule,
            shorten(&row.label, 22),
            shorten(&row.nodes, 60),
        );
    }
    let flops: f64 = rows.iter().map(|row| row.flops).sum();
    let _ = writeln!(
        text,
        "{:>9.1} us in {} steps, {:.1} GFLOP/s, {:.0} % of the peak of {threads} threads ({:.0} GFLOP/s)",
        total * 1e6,
        rows.len(),
        flops / total / 1e9,
        100.0 * flops / total / peak,
        peak / 1e9
    );
    text
}

fn shorten(text: &str, length: usize) -> String {
    if text.chars().count() <= length {
        return text.to_string();
    }
    let kept: String = text.chars().take(length.saturating_sub(3)).collect();
    format!("{kept}...")
}

/// Complete events, one after the other, in microseconds.
fn chrome_trace(rows: &[Row]) -> String {
    let mut start = 0.0;
    let mut events = Vec::new();
    for row in rows {
        let us = row.seconds * 1e6;
        events.push(serde_json::json!({
            "name": row.label, "cat": row.schedule, "ph": "X", "ts": start, "dur": us, "pid": 1, "tid": 1,
            "args": { "nodes": row.nodes, "gflops": row.flops / row.seconds / 1e9 },
        }));
        start += us;
    }
    serde_json::json!({ "traceEvents": events, "displayTimeUnit": "ms" }).to_string()
}
