//! The command line, for the `talweg` program and for whatever else wants to be it.

use std::ffi::OsString;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::commands::colour::{self, Paint, When};
use crate::commands::settings::{self, Settings};
use crate::commands::{self, Failure};

/// Finds the fastest program for a network or a tensor operator on this machine.
#[derive(Parser)]
#[command(
    name = "talweg",
    version,
    arg_required_else_help = true,
    after_help = "\
Exit codes: 0 done, 1 the work failed, 2 the input or an option is wrong, 3 results differ from the reference.

Examples:
  talweg doctor
  talweg op matmul:m=512,n=512,k=512
  talweg tune model.onnx --budget 5m -o model.talweg
  talweg bench model.talweg"
)]
struct Cli {
    /// Colours: on a terminal unless NO_COLOR is set, always or never.
    #[arg(long, global = true, value_enum, default_value_t = When::Auto, value_name = "WHEN", hide_possible_values = true)]
    color: When,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Describe this machine: CPU, features, measured peak and bandwidth, and what would disturb measuring.
    Doctor(commands::doctor::Arguments),
    /// Build, check and time one operator.
    Op(commands::op::Arguments),
    /// Search for the fastest schedule of one or several operators, and store what was measured.
    Tune(commands::tune::Arguments),
    /// Say what a model is made of: operators, tasks, their roofline and what is tuned. Nothing is compiled.
    Check(commands::check::Arguments),
    /// Compile a model into one file that runs without talweg's compiler.
    Compile(commands::compile::Arguments),
    /// Run a model on given inputs.
    Run(commands::run::Arguments),
    /// Time a model, or compare searches.
    Bench(commands::bench::Arguments),
    /// Compare a compiled model with the reference meaning of its operators, or with ONNX Runtime.
    Verify(commands::verify::Arguments),
    /// Say where a model's time goes.
    Profile(commands::profile::Arguments),
    /// Print the sketches an operator can be scheduled by, and how many candidates they make.
    Space(commands::space::Arguments),
    /// Explain why a task is scheduled as it is: its steps, the roofline, and what came close.
    Explain(commands::explain::Arguments),
    /// Look into the tuning database, exchange and prune it.
    Db(commands::db::Arguments),
    /// Measure programs of many operators, train the shipped cost model on them, judge it.
    Dataset(commands::dataset::Arguments),
    /// Print every setting with its value and where that comes from.
    Config(commands::config::Arguments),
    /// Print a script with which a shell completes verbs and options.
    Completions(commands::completions::Arguments),
    /// Write manual pages, one for each verb.
    Man(commands::man::Arguments),
    /// Serve a measuring process; started by talweg itself.
    #[command(hide = true)]
    Worker,
}

/// Runs a command line, the program's name first, and returns what the process should exit with: 0, 1 when good input could
/// not be worked on, 2 for bad input, 3 when results differ from the reference.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    match start(arguments.into_iter().collect()) {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("{} {failure}", Paint::stderr().bad("error:"));
            failure.exit_code()
        }
    }
}

/// Reads settings and arguments, and runs the verb.
fn start(arguments: Vec<OsString>) -> Result<u8, Failure> {
    // A measuring process is not told what the user prefers, and help must not fail for a bad file.
    let is_plain =
        |a: &OsString| ["worker", "help", "--help", "-h", "--version", "-V"].iter().any(|p| a == p);
    let settings = match Settings::load() {
        Err(_) if arguments.iter().any(is_plain) => Settings::default(),
        settings => settings.map_err(Failure::input)?,
    };
    let wanted = settings::color_of(&arguments).or(settings.set("color").map(str::to_string));
    let when = wanted.and_then(|text| When::from_str(&text, false).ok()).unwrap_or_default();
    colour::choose(when);
    let tool = settings.apply(Cli::command().color(when.for_clap()));
    let parsed = tool.try_get_matches_from(arguments).and_then(|matches| Cli::from_arg_matches(&matches));
    match parsed {
        Ok(cli) => perform(cli.command, &settings).map(|()| 0),
        Err(error) => {
            // A reader that went away is no error.
            let _ = error.print();
            Ok(u8::try_from(error.exit_code()).unwrap_or(2))
        }
    }
}

fn perform(command: Command, settings: &Settings) -> Result<(), Failure> {
    match command {
        Command::Doctor(arguments) => commands::doctor::run(&arguments),
        Command::Op(arguments) => commands::op::run(&arguments),
        Command::Tune(arguments) => commands::tune::run(&arguments),
        Command::Check(arguments) => commands::check::run(&arguments),
        Command::Compile(arguments) => commands::compile::run(&arguments),
        Command::Run(arguments) => commands::run::run(&arguments),
        Command::Bench(arguments) => commands::bench::run(&arguments),
        Command::Verify(arguments) => commands::verify::run(&arguments),
        Command::Profile(arguments) => commands::profile::run(&arguments),
        Command::Space(arguments) => commands::space::run(&arguments),
        Command::Explain(arguments) => commands::explain::run(&arguments),
        Command::Db(arguments) => commands::db::run(&arguments),
        Command::Dataset(arguments) => commands::dataset::run(&arguments),
        Command::Config(arguments) => commands::config::run(&arguments, settings),
        Command::Completions(arguments) => commands::completions::run(&arguments, Cli::command()),
        Command::Man(arguments) => commands::man::run(&arguments, Cli::command()),
        Command::Worker => talweg_measure::worker_main(),
    }
}
