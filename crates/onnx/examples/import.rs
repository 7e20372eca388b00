//! Imports a model and prints its graph: `import FILE [--shape x=1,3,224,224] [--dim batch=1]`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use talweg_onnx::{ImportOptions, import};

#[derive(Parser)]
struct Arguments {
    /// The ONNX file.
    file: PathBuf,
    /// The shape of an input.
    #[arg(long, value_name = "NAME=E,E,...")]
    shape: Vec<String>,
    /// The extent of a named dimension.
    #[arg(long, value_name = "NAME=E")]
    dim: Vec<String>,
    /// Print only how many nodes there are.
    #[arg(long)]
    count: bool,
}

fn options(arguments: &Arguments) -> Result<ImportOptions, String> {
    let mut options = ImportOptions::default();
    for text in &arguments.shape {
        let (name, extents) = text.split_once('=').ok_or(format!("`{text}` is not NAME=E,E,..."))?;
        let extents: Result<Vec<usize>, _> = extents.split(',').map(str::parse).collect();
        let extents = extents.map_err(|error| format!("`{text}`: {error}"))?;
        options.shapes.insert(name.into(), extents);
    }
    for text in &arguments.dim {
        let (name, extent) = text.split_once('=').ok_or(format!("`{text}` is not NAME=E"))?;
        options.dims.insert(name.into(), extent.parse().map_err(|error| format!("`{text}`: {error}"))?);
    }
    Ok(options)
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let graph = options(&arguments)
        .and_then(|options| import(&arguments.file, &options).map_err(|error| error.to_string()));
    match graph {
        Ok(graph) if arguments.count => println!("{} nodes", graph.nodes.len()),
        Ok(graph) => print!("{graph}"),
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
