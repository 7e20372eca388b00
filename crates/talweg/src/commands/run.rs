//! `talweg run`: a model on given inputs.

use std::path::PathBuf;

use clap::Args;

use super::model::{CompileArguments, ModelArguments, inputs, parse_file, write_arrays};
use super::{Failure, print};

/// Arguments of `talweg run`.
#[derive(Args)]
#[command(after_help = "Example: talweg run model.talweg --input x=image.npy --output out.npz")]
pub struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    compile: CompileArguments,
    /// An input's values; once for each. Inputs that are not given are small random numbers, and the command says so.
    #[arg(long = "input", value_name = "NAME=FILE.npy", value_parser = parse_file)]
    inputs: Vec<(String, PathBuf)>,
    /// Where to write the outputs: .npz for all, .npy if there is only one.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut session = arguments.model.session(&arguments.compile)?;
    let inputs = inputs(&session, &arguments.inputs)?;
    let outputs = session.run(&inputs).map_err(Failure::input)?;
    let manifest = session.model().manifest().clone();
    let named: Vec<(String, talweg_tensor::Tensor)> =
        manifest.outputs.iter().map(|port| port.name.clone()).zip(outputs).collect();
    let mut text = String::new();
    for port in &manifest.inputs {
        if !arguments.inputs.iter().any(|(name, _)| *name == port.name) {
            text += &format!("{}: random numbers; give --input {}=FILE.npy\n", port.name, port.name);
        }
    }
    for (name, tensor) in &named {
        text += &format!("{name}: {}\n", summary(tensor));
    }
    if let Some(path) = &arguments.output {
        write_arrays(path, &named)?;
    }
    print(&text)
}

fn summary(tensor: &talweg_tensor::Tensor) -> String {
    let values = tensor.to_f64();
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for &value in &values {
        (low, high) = (low.min(value), high.max(value));
    }
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    format!("{} from {low:.6} to {high:.6}, mean {mean:.6}", tensor.ty())
}
