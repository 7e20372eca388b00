//! `talweg verify`: a compiled model against the reference meaning of its operators, or against ONNX Runtime.

use std::process::Command;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use talweg::network::Network;
use talweg_graph::{Work, reference};
use talweg_runtime::model::{Model, Session, SessionOptions};
use talweg_target::Target;
use talweg_tensor::{Tensor, npy};

use super::colour::Paint;
use super::model::{CompileArguments, ModelArguments, jobs, write_arrays};
use super::{Failure, print};

/// Arguments of `talweg verify`.
#[derive(Args)]
#[command(after_help = "\
Outputs that differ make the exit code 3.

Examples:
  talweg verify model.onnx
  talweg verify model.onnx --intermediates --json
  talweg verify model.onnx --against onnxruntime --python python3 --tolerance 1e-3")]
pub struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    compile: CompileArguments,
    /// What to compare with.
    #[arg(long, value_enum, default_value_t = Against::Reference)]
    against: Against,
    /// The Python that has onnxruntime, for `--against onnxruntime`.
    #[arg(long, default_value = "python3", value_name = "PROGRAM")]
    python: String,
    /// Compare every intermediate tensor too (with the reference).
    #[arg(long)]
    intermediates: bool,
    /// The largest difference accepted, relative to the largest magnitude of the output.
    #[arg(long, default_value_t = 1e-4, value_name = "X")]
    tolerance: f64,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// What to compare with.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Against {
    /// The reference interpreter of talweg.
    Reference,
    /// ONNX Runtime, by the Python package.
    Onnxruntime,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.intermediates && arguments.against == Against::Onnxruntime {
        return Err(Failure::input("--intermediates compares with the reference; leave --against out"));
    }
    if !(0.0..=f64::MAX).contains(&arguments.tolerance) {
        return Err(Failure::input(format!(
            "--tolerance {}: give a number that is not negative, for example 1e-4",
            arguments.tolerance
        )));
    }
    let threads = arguments.compile.threads()?;
    let mut network = arguments.model.network()?;
    let target = Target::host();
    let winners = arguments.compile.winners(&mut network, &target)?;
    if arguments.intermediates {
        expose_intermediates(&mut network);
    }
    let artefact = network.compile(&target, &winners, jobs()).map_err(Failure::work)?;
    let bytes = artefact.to_bytes().map_err(Failure::work)?;
    let model = Arc::new(Model::from_bytes(&bytes).map_err(Failure::work)?);
    let mut session = Session::new(model, &SessionOptions { threads, pin: false }).map_err(Failure::work)?;
    let inputs = network.random_inputs();
    let outputs = session.run(&inputs).map_err(Failure::work)?;
    let expected = match arguments.against {
        Against::Reference if arguments.intermediates => {
            let values = reference::run_program(&network.program, &inputs).map_err(Failure::work)?;
            reference::outputs(&network.program.graph, &values).map_err(Failure::work)?
        }
        Against::Reference => {
            let values = reference::run_graph(&network.imported, &inputs).map_err(Failure::work)?;
            reference::outputs(&network.imported, &values).map_err(Failure::work)?
        }
        Against::Onnxruntime => onnxruntime(&arguments.python, &arguments.model, &network, &inputs)?,
    };
    let names = network.program.graph.outputs.iter().map(|id| network.program.graph.value(*id).name.clone());
    let mut rows = Vec::new();
    for ((name, got), want) in names.zip(&outputs).zip(&expected) {
        rows.push((name, got.ty().to_string(), reference::difference(want, got)));
    }
    let worst = rows.iter().map(|row| row.2).fold(0.0, f64::max);
    // A difference that is not a number is not within the tolerance.
    let right = worst <= arguments.tolerance;
    if arguments.json {
        let outputs: Vec<serde_json::Value> = rows
            .iter()
            .map(|(name, ty, error)| serde_json::json!({"name": name, "type": ty, "max_rel_error": error}))
            .collect();
        let report = serde_json::json!({"right": right, "max_rel_error": worst, "outputs": outputs});
        print(&format!("{report}\n"))?;
    } else {
        let mut text = String::new();
        let paint = Paint::stdout();
        for (name, ty, error) in &rows {
            let mark = if *error <= arguments.tolerance { paint.good("ok   ") } else { paint.bad("WRONG") };
            text += &format!("{mark}  {error:.2e}  {name}: {ty}\n");
        }
        print(&format!("{text}largest difference {worst:.2e}, accepted {:.0e}\n", arguments.tolerance))?;
    }
    if right {
        Ok(())
    } else {
        Err(Failure::Differs("the outputs differ; please report it with the model".into()))
    }
}

/// Makes everything that a step writes an output.
fn expose_intermediates(network: &mut Network) {
    let program = &mut network.program;
    for step in &program.steps {
        if !matches!(step.work, Work::View) {
            program.graph.outputs.extend(&step.outputs);
        }
    }
}

/// The outputs of ONNX Runtime, by its Python package.
fn onnxruntime(
    python: &str,
    model: &ModelArguments,
    network: &Network,
    inputs: &[Tensor],
) -> Result<Vec<Tensor>, Failure> {
    const SCRIPT: &str = "\
import sys, numpy, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1], providers=['CPUExecutionProvider'])
given = numpy.load(sys.argv[2])
names = [i.name for i in session.get_inputs()]
outputs = session.run(None, {name: given[name] for name in names})
numpy.savez(sys.argv[3], **{o.name: v for o, v in zip(session.get_outputs(), outputs)})
";
    let folder = tempfile::tempdir().map_err(Failure::work)?;
    let (given, got) = (folder.path().join("inputs.npz"), folder.path().join("outputs.npz"));
    let graph = &network.imported;
    let names = graph.inputs.iter().map(|id| graph.value(*id).name.clone());
    let named: Vec<(String, Tensor)> = names.zip(inputs.iter().cloned()).chain(model.fixed()?).collect();
    write_arrays(&given, &named)?;
    let mut command = Command::new(python);
    command.arg("-c").arg(SCRIPT).arg(&model.model).arg(&given).arg(&got);
    let output = command
        .output()
        .map_err(|e| Failure::input(format!("cannot start `{python}`: {e}; name a Python with --python")))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let last = text.lines().last().unwrap_or("no message");
        let remedy = if text.contains("ModuleNotFoundError") {
            "; install it with `pip install onnxruntime numpy`"
        } else {
            ""
        };
        return Err(Failure::work(format!("ONNX Runtime: {last}{remedy}")));
    }
    let outputs = npy::read_npz(std::fs::File::open(&got).map_err(Failure::work)?).map_err(Failure::work)?;
    let find = |id: &talweg_graph::ValueId| {
        let name = &graph.value(*id).name;
        let found = outputs.iter().find(|(n, _)| n == name).map(|(_, tensor)| tensor.clone());
        found.ok_or_else(|| Failure::work(format!("ONNX Runtime gave no output `{name}`")))
    };
    graph.outputs.iter().map(find).collect()
}
