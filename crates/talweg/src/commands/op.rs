//! `talweg op`: build, check and time one operator.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use talweg::{Bench, BenchOptions, Operator, OperatorError, Report, ScheduleSource};
use talweg_ops::Spec;
use talweg_target::Target;

use super::{DEFAULT_DB, Failure, check_memory, check_threads, db, operator_help, print, turns};

const EXAMPLES: &str = "\
Examples:
  talweg op matmul:m=512,n=512,k=512,epilogue=bias+relu
  talweg op softmax:rows=1536,n=128 --threads 2 --json
  talweg op matmul:m=512,n=512,k=512 --emit loops
  talweg op matmul:m=512,n=512,k=512 --schedule best --db talweg.db
";

/// Arguments of `talweg op`.
#[derive(Args)]
#[command(after_help = operator_help::short(EXAMPLES), after_long_help = operator_help::long(EXAMPLES))]
pub struct Arguments {
    /// The operator and its sizes, for example `matmul:m=1024,n=1024,k=1024`.
    spec: String,
    /// `default` for the analytic default, `best` for the stored winner of tuning, or a file with one step a line.
    #[arg(long, value_name = "default|best|FILE", default_value = "default")]
    schedule: String,
    /// The tuning database, for `--schedule best`.
    #[arg(long, default_value = DEFAULT_DB, value_name = "FILE")]
    db: PathBuf,
    /// Threads of the operator's parallel loops.
    #[arg(long, default_value_t = 1, value_name = "N")]
    threads: usize,
    /// Print a stage of the compilation and stop.
    #[arg(long, value_enum, value_name = "STAGE")]
    emit: Option<Emit>,
    /// The machine to compile for: host, avx512, avx2 or neon. One that this machine cannot run needs `--emit`.
    #[arg(long, default_value = "host", value_name = "NAME")]
    target: String,
    /// Time for taking samples.
    #[arg(long, default_value_t = 0.6, value_name = "SECONDS")]
    budget: f64,
    /// Further time to wait for moments in which nobody else uses the core; 0 takes every sample as it comes.
    #[arg(long, default_value_t = 2.0, value_name = "SECONDS")]
    patience: f64,
    /// Empty the caches before each run.
    #[arg(long)]
    cold: bool,
    /// Print one JSON object.
    #[arg(long, conflicts_with = "emit")]
    json: bool,
    /// Stay after the report: for every line read, a number of seconds, take samples for so long and print their median
    /// in microseconds. Lets another program alternate with the operator.
    #[arg(long, conflicts_with = "emit")]
    turns: bool,
}

/// Where to stop and print.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Emit {
    /// The tensor expression.
    Te,
    /// The schedule's steps.
    Schedule,
    /// The loop nest that is compiled.
    Loops,
    /// The LLVM code.
    Llvm,
    /// The assembly code.
    Asm,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    check_threads(arguments.threads)?;
    if !(0.001..=3600.0).contains(&arguments.budget) {
        return Err(Failure::input(format!(
            "--budget {} is not possible; give a number of seconds from 0.001 to 3600",
            arguments.budget
        )));
    }
    if !(0.0..=3600.0).contains(&arguments.patience) {
        return Err(Failure::input(format!(
            "--patience {} is not possible; give a number of seconds from 0 to 3600",
            arguments.patience
        )));
    }
    let target = Target::named(&arguments.target).map_err(|e| Failure::input(format!("--target: {e}")))?;
    if arguments.emit.is_none() {
        target.can_run_here().map_err(|e| {
            Failure::input(format!("--target {}: {e}, or add `--emit asm` to see its code", arguments.target))
        })?;
    }
    let spec = Spec::parse(&arguments.spec).map_err(Failure::input)?;
    let source = match arguments.schedule.as_str() {
        "best" => {
            let text = db::stored_winner(&arguments.db, &spec, arguments.threads)?.record.trace;
            ScheduleSource::Text { name: "best".into(), text }
        }
        other => ScheduleSource::parse(other),
    };
    let operator = Operator::new(spec, &source, &target).map_err(|e| {
        if matches!(e, OperatorError::Illegal(_)) { Failure::work(e) } else { Failure::input(e) }
    })?;
    if let Some(emit) = arguments.emit {
        return print(&emitted(&operator, &target, emit)?);
    }
    check_memory(&operator.dag).map_err(Failure::input)?;
    let options = BenchOptions {
        threads: arguments.threads,
        cold_caches: arguments.cold,
        budget: Duration::from_secs_f64(arguments.budget),
        patience: Duration::from_secs_f64(arguments.patience),
    };
    let bench = Bench::new(&operator, &target, &options).map_err(Failure::work)?;
    let report = bench.report().map_err(Failure::work)?;
    if arguments.json {
        print(&format!("{}\n", serde_json::to_string(&report).map_err(Failure::work)?))?;
    } else {
        print(&readable(&report, &arguments.schedule))?;
    }
    match arguments.turns {
        true => turns::serve(|length| bench.turn(length).map_err(Failure::work)),
        false => Ok(()),
    }
}

fn emitted(operator: &Operator, target: &Target, emit: Emit) -> Result<String, Failure> {
    let options = talweg_codegen::Options::default();
    Ok(match emit {
        Emit::Te => operator.dag.to_string(),
        Emit::Schedule => operator.trace.to_string(),
        Emit::Loops => operator.nest.to_string(),
        Emit::Llvm => talweg_codegen::emit_llvm(&operator.nest, target, &options).map_err(Failure::work)?,
        Emit::Asm => talweg_codegen::emit_asm(&operator.nest, target, &options).map_err(Failure::work)?,
    })
}

fn readable(r: &Report, schedule: &str) -> String {
    let threads = if r.threads == 1 { "1 thread".to_string() } else { format!("{} threads", r.threads) };
    let time = if r.median_us >= 1000.0 {
        format!("{:.3} ms", r.median_us / 1000.0)
    } else {
        format!("{:.2} us", r.median_us)
    };
    let samples = if r.samples == 1 { "one sample".to_string() } else { format!("{} samples", r.samples) };
    let mut out = format!("{}  ({threads}, schedule: {schedule})\n", r.spec);
    let _ = writeln!(out, "  time     {time}  (median of {samples}, spread {:.1} %)", r.spread * 100.0);
    if r.disturbed {
        out.push_str(
            "           others used the core meanwhile; a longer --patience waits for calm moments\n",
        );
    }
    let _ = writeln!(
        out,
        "  speed    {:.1} GFLOP/s, {:.1} % of the {:.1} GFLOP/s measured here; {:.1} GB/s",
        r.gflops,
        r.peak_fraction * 100.0,
        r.peak_gflops,
        r.gbytes_per_second
    );
    let _ = writeln!(
        out,
        "  check    largest relative error {:.1e} against the reference interpreter (accepted: {:.1e})",
        r.max_rel_error, r.tolerance
    );
    let _ = writeln!(out, "  compile  {:.1} ms, object of {} bytes", r.compile_ms, r.object_bytes);
    out
}
