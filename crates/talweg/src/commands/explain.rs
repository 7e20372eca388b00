//! `talweg explain`: why a task is scheduled as it is.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use talweg::explain::{Difference, Explanation, Loser, Origin, Question, StepChanges, find};
use talweg::roofline::{Bound, Machine};
use talweg_ir::Dag;
use talweg_ops::Spec;
use talweg_target::Target;

use super::colour::Paint;
use super::model::{Bindings, CompileArguments};
use super::tune::is_model;
use super::{Failure, check_threads, print};

/// Differences of a loser that are shown; the others are counted.
const SHOWN: usize = 6;
/// Columns of a line that shows both sides of a change.
const WIDTH: usize = 116;

/// Arguments of `talweg explain`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  talweg explain matmul:m=512,n=512,k=512
  talweg explain matmul:m=512,n=512,k=512 --threads 1 --full
  talweg explain resnet50.onnx 3
  talweg explain resnet50.onnx /layer1/layer1.0/conv1/Conv --db resnet50.db --json")]
pub struct Arguments {
    /// A model (`model.onnx`), with a task of it; or an operator, for example `matmul:m=512,n=512,k=512`.
    #[arg(value_name = "MODEL|SPEC")]
    subject: String,
    /// The task of a model: a node's name, or a number or name as `talweg check` prints it.
    #[arg(value_name = "NODE|TASK")]
    task: Option<String>,
    #[command(flatten)]
    bindings: Bindings,
    #[command(flatten)]
    compile: CompileArguments,
    /// Show the whole loop nest before and after every step.
    #[arg(long)]
    full: bool,
    /// How many losers to show, by time and by knobs.
    #[arg(long, default_value_t = 5, value_name = "N")]
    losers: usize,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// What is explained.
struct Subject {
    /// The model, for tasks of one.
    model: Option<String>,
    /// The SPEC, or the number and name of the task.
    title: String,
    /// The nodes that the task computes in its first use.
    nodes: Vec<String>,
    /// How many steps use it.
    uses: usize,
    dag: Dag,
    /// What would tune it.
    remedy: String,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let target = Target::host();
    let (subject, threads) = subject(arguments, &target)?;
    let db = arguments.compile.database()?;
    let machine = Machine::measure(threads);
    let question = Question {
        dag: &subject.dag,
        target: &target,
        threads,
        db: db.as_ref(),
        machine: &machine,
        losers: arguments.losers,
    };
    let answer = question.answer().map_err(Failure::work)?;
    if arguments.json {
        return print(&format!("{}\n", object(arguments, &subject, threads, &answer)?));
    }
    print(&readable(arguments, &subject, threads, &answer))
}

fn subject(arguments: &Arguments, target: &Target) -> Result<(Subject, usize), Failure> {
    let text = &arguments.subject;
    if !is_model(text) {
        if let Some(task) = &arguments.task {
            return Err(Failure::input(format!(
                "`{task}` names a task of a model, and `{text}` is an operator"
            )));
        }
        let spec = Spec::parse(text).map_err(Failure::input)?;
        let dag = spec.build().map_err(Failure::input)?;
        let threads = arguments.compile.threads.unwrap_or(1);
        check_threads(threads)?;
        let remedy = format!("talweg tune {spec} --threads {threads}");
        let title = spec.to_string();
        return Ok((Subject { model: None, title, nodes: Vec::new(), uses: 1, dag, remedy }, threads));
    }
    let threads = arguments.compile.threads()?;
    let mut network = arguments.bindings.clone().of(PathBuf::from(text)).network()?;
    arguments.compile.winners(&mut network, target)?;
    let Some(wanted) = &arguments.task else {
        let count = network.program.tasks.len();
        return Err(Failure::input(format!(
            "name a node of {text} or one of its tasks, 0 to {}; `talweg check {text}` lists them",
            count.saturating_sub(1)
        )));
    };
    let at = find::find(&network, wanted).map_err(|e| Failure::input(format!("{text}: {e}")))?;
    let task = &network.program.tasks[at];
    let subject = Subject {
        model: Some(network.program.graph.name.clone()),
        title: format!("{at} {}", task.dag.name),
        nodes: network.nodes_of(at).to_vec(),
        uses: task.uses,
        dag: task.dag.clone(),
        remedy: format!("talweg tune {text} --threads {threads}"),
    };
    Ok((subject, threads))
}

fn object(
    arguments: &Arguments,
    subject: &Subject,
    threads: usize,
    answer: &Explanation,
) -> Result<serde_json::Value, Failure> {
    let mut object = serde_json::to_value(answer).map_err(Failure::work)?;
    object["model"] = json!(subject.model);
    object["task"] = json!(subject.title);
    object["nodes"] = json!(subject.nodes);
    object["uses"] = json!(subject.uses);
    object["threads"] = json!(threads);
    if arguments.full {
        object["nests"] =
            answer.steps.iter().map(|s| json!({ "before": s.before, "after": s.after })).collect();
    }
    Ok(object)
}

fn readable(arguments: &Arguments, subject: &Subject, threads: usize, answer: &Explanation) -> String {
    let paint = Paint::stdout();
    let mut out = String::new();
    match &subject.model {
        Some(model) => {
            let uses = if subject.uses == 1 { "once".into() } else { format!("{} times", subject.uses) };
            let title = paint.bold(&format!("task {}", subject.title));
            let _ = writeln!(out, "{title} of {model}, used {uses}");
            let _ = writeln!(out, "  nodes       {}", subject.nodes.join(" + "));
        }
        None => {
            let _ = writeln!(out, "{}", paint.bold(&subject.title));
        }
    }
    let threads = if threads == 1 { "one thread".into() } else { format!("{threads} threads") };
    match &answer.origin {
        Origin::Winner { record, strategy, default_seconds, gain, error } => {
            let _ = writeln!(
                out,
                "  schedule    winner of tuning: record {record} of {}, by {strategy}, {threads}\n  \
                 proof       {} against the default ({} against {} in turns), error {error:.1e}",
                arguments.compile.db.display(),
                paint.good(&format!("{gain:.2}x")),
                time(default_seconds / gain),
                time(*default_seconds),
            );
        }
        Origin::Default => {
            let _ = writeln!(
                out,
                "  schedule    {}: {} has no winner of this task with {threads} on this machine\n  \
                 to tune     {}",
                paint.warn("the analytic default"),
                arguments.compile.db.display(),
                subject.remedy
            );
        }
    }
    out += &roofline(answer, paint);
    out += &stores(answer, paint);
    let _ = writeln!(out, "\n{}", paint.bold("steps"));
    for (at, step) in answer.steps.iter().enumerate() {
        out += &step_text(at + 1, step, arguments.full, paint);
    }
    out += &losers(answer, arguments.losers, paint);
    out
}

/// Seconds in the unit that suits them.
fn time(seconds: f64) -> String {
    let us = seconds * 1e6;
    if us >= 1000.0 { format!("{:.3} ms", us / 1000.0) } else { format!("{us:.2} us") }
}

fn bytes(count: f64) -> String {
    match count {
        c if c >= 1e6 => format!("{:.2} MiB", c / f64::from(1 << 20)),
        c => format!("{:.1} KiB", c / 1024.0),
    }
}

fn roofline(answer: &Explanation, paint: Paint) -> String {
    let r = &answer.roofline;
    let mut out = format!("\n{}\n", paint.bold("roofline"));
    let _ = writeln!(
        out,
        "  arithmetic  {:.3} MFLOP at {:.1} GFLOP/s: {}",
        r.flops / 1e6,
        r.peak / 1e9,
        time(r.flops / r.peak)
    );
    let _ = writeln!(
        out,
        "  bytes       {} at {:.1} GB/s of {}: {}",
        bytes(r.bytes),
        r.bandwidth / 1e9,
        r.level,
        time(r.bytes / r.bandwidth)
    );
    let bound = match r.bound {
        Bound::Arithmetic => "arithmetic",
        Bound::Bandwidth => "bandwidth",
    };
    let _ = writeln!(
        out,
        "  intensity   {:.1} FLOP/byte, the machine balances {:.1}: bound by {bound}",
        r.intensity, r.balance
    );
    match answer.measured {
        Some(measured) => {
            let share = r.seconds / measured;
            let text = format!("{:.0} % of the roofline", share * 100.0);
            let shown = if share >= 0.7 { paint.good(&text) } else { paint.warn(&text) };
            let _ = writeln!(
                out,
                "  measured    {}, {:.1} GFLOP/s, {shown}",
                time(measured),
                r.flops / measured / 1e9
            );
        }
        None => out += "  measured    not yet\n",
    }
    if let Some(p) = &answer.prediction {
        let against =
            |ratio: Option<f64>| ratio.map_or(String::new(), |r| format!(" ({r:.2} of the measured time)"));
        let _ = match p.seconds {
            Some(seconds) => writeln!(
                out,
                "  predicted   {}{} by the shipped network, scaled by {} samples of the task; it ranks {} of them higher",
                time(seconds),
                against(p.ratio),
                p.samples,
                p.better
            ),
            None => writeln!(
                out,
                "  predicted   score {:.2} by the shipped network; a time needs samples of the task for its scale",
                p.score
            ),
        };
        if let Some(l) = &p.learned {
            let _ = writeln!(
                out,
                "              {}{} by trees that learnt from the {} others",
                time(l.seconds),
                against(l.ratio),
                l.samples
            );
        }
    }
    out
}

fn stores(answer: &Explanation, paint: Paint) -> String {
    let head = ["MFLOP", "KiB", "FLOP/byte", "lanes", "unrolled", "parallel"];
    let mut out = format!("\n{}\n  ", paint.bold("stores, by their features"));
    head.iter().for_each(|h| out += &format!("{h:>10}"));
    out += "  store\n";
    for s in &answer.stores {
        let _ = writeln!(
            out,
            "  {:>10.3}{:>10.1}{:>10.1}{:>10}{:>10}{:>10}  {}",
            s.operations / 1e6,
            s.unique_bytes / 1024.0,
            s.intensity,
            s.lanes,
            s.unrolled,
            s.parallel,
            s.store
        );
    }
    out
}

fn step_text(number: usize, step: &StepChanges, full: bool, paint: Paint) -> String {
    let mut out =
        format!("{number:>3}. {}  {}\n", paint.bold(&step.step), paint.faint(&format!("# {}", step.meaning)));
    if full {
        for (name, nest) in [("before", &step.before), ("after", &step.after)] {
            let _ = writeln!(out, "     {name}:");
            nest.lines().for_each(|line| out += &format!("       {line}\n"));
        }
        return out;
    }
    for change in &step.changes {
        let (before, after) = match (&change.before, &change.after) {
            (Some(before), Some(after)) => what_differs(before, after),
            (before, after) => {
                (before.clone().unwrap_or("new".into()), after.clone().unwrap_or("gone".into()))
            }
        };
        let line = format!("     {}: {before} -> {after}\n", change.what);
        if line.len() <= WIDTH {
            out += &line;
        } else {
            let _ = writeln!(out, "     {}: {before}\n       -> {after}", change.what);
        }
    }
    out
}

/// Two lists of loops without what they begin and end with alike; `..` stands for that.
fn what_differs(before: &str, after: &str) -> (String, String) {
    let (a, b): (Vec<&str>, Vec<&str>) = (before.split(", ").collect(), after.split(", ").collect());
    let least = a.len().min(b.len());
    let begin = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let end =
        a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count().min(least - begin.min(least));
    let part = |all: &[&str]| {
        let middle = all[begin..all.len() - end].iter().copied();
        let dots = |count: usize| (count > 0).then_some("..");
        dots(begin).into_iter().chain(middle).chain(dots(end)).collect::<Vec<_>>().join(", ")
    };
    (part(&a), part(&b))
}

fn losers(answer: &Explanation, count: usize, paint: Paint) -> String {
    let losers = &answer.losers;
    let mut out = format!("\n{}\n", paint.bold("nearest losers"));
    if losers.measured == 0 {
        out += "  none: no other schedule of this task was measured with so many threads on this machine\n";
        return out;
    }
    let failed =
        if losers.failed == 0 { String::new() } else { format!(", {} records failed", losers.failed) };
    let _ =
        writeln!(out, "  {} other schedules were measured{failed}; the {count} nearest:", losers.measured);
    for (title, list) in [("by time", &losers.by_time), ("by knobs, of the same sketch", &losers.by_knobs)] {
        if list.is_empty() {
            continue;
        }
        let _ = writeln!(out, "  {title}");
        list.iter().for_each(|l| out += &loser_text(l));
    }
    let shown = losers.by_time.iter().chain(&losers.by_knobs);
    if shown.filter_map(|l| l.ratio).any(|ratio| ratio < 1.0) {
        out += "  those that look faster were so in one measurement; a winner is proven in turns with the default\n";
    }
    out
}

fn loser_text(loser: &Loser) -> String {
    let slower = loser.ratio.map_or("        ".to_string(), |r| format!("{:>+6.1} %", (r - 1.0) * 100.0));
    let mut parts: Vec<String> = loser.differs.iter().take(SHOWN).map(difference).collect();
    if loser.differs.len() > SHOWN {
        parts.push(format!("and {} more", loser.differs.len() - SHOWN));
    }
    format!("    {slower}  {:>11}  record {:<6} {}\n", time(loser.seconds), loser.record, parts.join(", "))
}

fn difference(difference: &Difference) -> String {
    match difference {
        Difference::Knob { knob, winner, loser } => format!("{knob} {winner} -> {loser}"),
        Difference::Sketch { winner, loser } => {
            let name = |n: &Option<String>| n.clone().unwrap_or("no sketch".into());
            format!("sketch `{}` -> `{}`", name(winner), name(loser))
        }
        Difference::Step { step, added: true } => format!("with `{step}`"),
        Difference::Step { step, added: false } => format!("without `{step}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_that_stay_are_left_out() {
        let differs = |a, b| what_differs(a, b);
        let pair = |a: &str, b: &str| (a.to_string(), b.to_string());
        assert_eq!(
            differs("i:4, j:8, k:2", "i:4, j.0:2, j.1:4, k:2"),
            pair(".., j:8, ..", ".., j.0:2, j.1:4, ..")
        );
        assert_eq!(differs("i:4, j:8", "j:8, i:4"), pair("i:4, j:8", "j:8, i:4"));
        assert_eq!(differs("i:4, i:4", "i:4"), pair(".., i:4", ".."));
        assert_eq!(differs("i:4", "parallel i:4"), pair("i:4", "parallel i:4"));
    }
}
