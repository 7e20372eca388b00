//! `talweg run`: a model on given inputs.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use talweg_runtime::model::Port;

use super::model::{CompileArguments, ModelArguments, inputs, parse_file, write_arrays};
use super::{Failure, check_output, print};

/// Arguments of `talweg run`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  talweg run model.talweg --input x=image.npy --output out.npz
  talweg run model.onnx --dim batch=1 --json")]
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
    /// Print one JSON object about the outputs.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(path) = &arguments.output {
        let given = arguments.inputs.iter().map(|(_, file)| file);
        check_output(path, arguments.model.files().chain(given).chain([&arguments.compile.db]))?;
    }
    let mut session = arguments.model.session(&arguments.compile)?;
    let inputs = inputs(&session, &arguments.inputs)?;
    let outputs = session.run(&inputs).map_err(Failure::input)?;
    let manifest = session.model().manifest().clone();
    let named: Vec<(String, talweg_tensor::Tensor)> =
        manifest.outputs.iter().map(|port| port.name.clone()).zip(outputs).collect();
    if let Some(path) = &arguments.output {
        write_arrays(path, &named)?;
    }
    let is_given = |port: &Port| arguments.inputs.iter().any(|(name, _)| *name == port.name);
    if arguments.json {
        let inputs: Vec<_> =
            manifest.inputs.iter().map(|p| json!({ "name": p.name, "random": !is_given(p) })).collect();
        let outputs: Vec<_> = named
            .iter()
            .map(|(name, tensor)| {
                let (low, high, mean) = summary(tensor);
                json!({ "name": name, "type": tensor.ty().to_string(), "min": low, "max": high, "mean": mean })
            })
            .collect();
        let object = json!({ "model": manifest.model, "inputs": inputs, "outputs": outputs, "file": arguments.output });
        return print(&format!("{object}\n"));
    }
    let mut text = String::new();
    for port in &manifest.inputs {
        if !is_given(port) {
            text += &format!("{}: random numbers; give --input {}=FILE.npy\n", port.name, port.name);
        }
    }
    for (name, tensor) in &named {
        let (low, high, mean) = summary(tensor);
        text += &format!("{name}: {} from {low:.6} to {high:.6}, mean {mean:.6}\n", tensor.ty());
    }
    print(&text)
}

/// The smallest and the largest element, and the mean.
fn summary(tensor: &talweg_tensor::Tensor) -> (f64, f64, f64) {
    let values = tensor.to_f64();
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for &value in &values {
        (low, high) = (low.min(value), high.max(value));
    }
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    (low, high, mean)
}
