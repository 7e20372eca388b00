//! The command line, for the `talweg` program and for whatever else wants to be it.

use std::ffi::OsString;

use clap::{Parser, Subcommand};

use crate::commands;

/// Finds the fastest program for a network or a tensor operator on this machine.
#[derive(Parser)]
#[command(name = "talweg", version, arg_required_else_help = true)]
struct Cli {
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
    /// Look into the tuning database, exchange and prune it.
    Db(commands::db::Arguments),
    /// Measure programs of many operators, train the shipped cost model on them, judge it.
    Dataset(commands::dataset::Arguments),
    /// Serve a measuring process; started by talweg itself.
    #[command(hide = true)]
    Worker,
}

/// Runs a command line, the program's name first, and returns what the process should exit with: 0, 1 when good input could not
/// be worked on, 2 for bad input.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let parsed = match Cli::try_parse_from(arguments) {
        Ok(parsed) => parsed,
        Err(error) => {
            // A reader that went away is no error.
            let _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(2);
        }
    };
    let result = match parsed.command {
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
        Command::Db(arguments) => commands::db::run(&arguments),
        Command::Dataset(arguments) => commands::dataset::run(&arguments),
        Command::Worker => talweg_measure::worker_main(),
    };
    match result {
        Ok(()) => 0,
        Err(failure) => {
            eprintln!("error: {failure}");
            failure.exit_code()
        }
    }
}
