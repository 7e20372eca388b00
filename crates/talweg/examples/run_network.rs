//! Compiles an ONNX file by the analytic defaults and runs it once: `run_network MODEL.onnx`.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use talweg::{ImportOptions, Model, Network, Session, SessionOptions, Target, Winners};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: run_network MODEL.onnx")?;
    let network = Network::open(Path::new(&path), &ImportOptions::default())?;
    let artefact = network.compile(&Target::host(), &Winners::default(), 2)?;
    // `artefact.write(path)` keeps it in a file for `Model::open`, which needs neither talweg's compiler nor LLVM.
    let model = Arc::new(Model::from_bytes(&artefact.to_bytes()?)?);
    let mut session = Session::new(Arc::clone(&model), &SessionOptions::default())?;
    let outputs = session.run(&network.random_inputs())?;
    for (port, output) in model.manifest().outputs.iter().zip(&outputs) {
        let values = output.to_f64();
        let (low, high) =
            values.iter().fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(*v), high.max(*v)));
        println!("{}: {:?}, from {low} to {high}", port.name, output.shape());
    }
    Ok(())
}
