//! Runs ONNX's backend node tests through the importer and the reference meaning of the operators.
//!
//! `node_tests DIR [--only TEXT] [--list]`: every folder of DIR holds `model.onnx` and `test_data_set_0/input_*.pb` and
//! `output_*.pb`. Inputs that determine shapes become constants: none at first, then integers, then all. Tolerances are
//! those of ONNX's own runner.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Parser;
use talweg_graph::{Graph, ValueId};
use talweg_onnx::{ImportError, ImportOptions, import, read_tensor};
use talweg_tensor::{ElementType, Tensor, evaluate};

/// Two units in the last place of a `bf16`.
const BF16_RTOL: f64 = 0.015_625;

#[derive(Parser)]
struct Arguments {
    /// The folder of the tests.
    dir: PathBuf,
    /// Only tests whose name contains this text.
    #[arg(long, default_value = "")]
    only: String,
    /// Name every test that is not passed.
    #[arg(long)]
    list: bool,
    /// Relative tolerance.
    #[arg(long, default_value_t = 1e-3)]
    rtol: f64,
    /// Absolute tolerance.
    #[arg(long, default_value_t = 1e-7)]
    atol: f64,
}

enum Outcome {
    /// Passed: with all inputs given at run time, with integers as constants, or with everything folded.
    Passed(usize),
    Failed(String),
    Unsupported(String),
    Ineligible,
}

/// The tensors `input_0.pb`, `input_1.pb`, ... of a test.
fn tensors(folder: &Path, kind: &str) -> Result<Vec<Option<Tensor>>, String> {
    let mut tensors = Vec::new();
    loop {
        let path = folder.join("test_data_set_0").join(format!("{kind}_{}.pb", tensors.len()));
        if !path.exists() {
            return Ok(tensors);
        }
        let bytes = std::fs::read(&path).map_err(|error| error.to_string())?;
        tensors.push(Some(read_tensor(bytes).map_err(|error| error.to_string())?));
    }
}

fn run(graph: &Graph, given: &BTreeMap<String, Tensor>) -> Result<Vec<Tensor>, String> {
    let mut values: Vec<Option<Tensor>> = graph.values.iter().map(|value| value.constant.clone()).collect();
    for &input in &graph.inputs {
        let name = &graph.value(input).name;
        let tensor = given.get(name).ok_or(format!("there is no data for input {name}"))?;
        values[input.index()] = Some(tensor.clone());
    }
    for node in &graph.nodes {
        let inputs: Vec<Option<&Tensor>> =
            node.inputs.iter().map(|i| i.and_then(|i| values[i.index()].as_ref())).collect();
        let results = evaluate(&node.op, &inputs).map_err(|error| format!("evaluation: {error}"))?;
        for (&output, result) in node.outputs.iter().zip(results) {
            if graph.ty(output) != result.ty() {
                return Err(format!("{} inferred, {} evaluated", graph.ty(output), result.ty()));
            }
            values[output.index()] = Some(result);
        }
    }
    let take = |id: &ValueId| values[id.index()].clone().ok_or("an output was not computed".to_string());
    graph.outputs.iter().map(take).collect()
}

fn compare(have: &Tensor, want: &Tensor, arguments: &Arguments) -> Result<(), String> {
    if have.ty() != want.ty() {
        return Err(format!("type {} instead of {}", have.ty(), want.ty()));
    }
    let rtol =
        if want.element() == ElementType::BF16 { arguments.rtol.max(BF16_RTOL) } else { arguments.rtol };
    let (have, want) = (have.to_f64(), want.to_f64());
    for (i, (&a, &b)) in have.iter().zip(&want).enumerate() {
        let close = (a - b).abs() <= arguments.atol + rtol * b.abs();
        if !(close || a == b || a.is_nan() && b.is_nan()) {
            return Err(format!("element {i} is {a} instead of {b}"));
        }
    }
    Ok(())
}

fn test(folder: &Path, arguments: &Arguments) -> Outcome {
    let data = tensors(folder, "input").and_then(|inputs| Ok((inputs, tensors(folder, "output")?)));
    let (inputs, outputs) = match data {
        Ok(data) => data,
        Err(_) => return Outcome::Ineligible,
    };
    let names = match input_names(folder) {
        Ok(names) => names,
        Err(error) => return Outcome::Failed(error),
    };
    let given: BTreeMap<String, Tensor> =
        names.into_iter().zip(inputs).filter_map(|(name, tensor)| Some((name, tensor?))).collect();
    for level in 0..3 {
        let fixed: BTreeMap<String, Tensor> = given
            .iter()
            .filter(|(_, tensor)| level == 2 || level == 1 && !tensor.element().is_float())
            .map(|(name, tensor)| (name.clone(), tensor.clone()))
            .collect();
        let shapes = given
            .iter()
            .filter(|(name, _)| !fixed.contains_key(*name))
            .map(|(name, tensor)| (name.clone(), tensor.shape().to_vec()))
            .collect();
        let options = ImportOptions { shapes, fixed, ..ImportOptions::default() };
        let graph = match import(&folder.join("model.onnx"), &options) {
            Ok(graph) => graph,
            Err(ImportError::Unsupported(report)) => {
                if level < 2 && report.items.iter().any(|item| item.data_dependent) {
                    continue;
                }
                let item = &report.items[0];
                return Outcome::Unsupported(format!("{}: {}", item.op, item.reason));
            }
            Err(error) => return Outcome::Failed(format!("import: {error}")),
        };
        let results = match run(&graph, &given) {
            Ok(results) => results,
            Err(error) => return Outcome::Failed(error),
        };
        for (i, (have, want)) in results.iter().zip(&outputs).enumerate() {
            if let Some(want) = want
                && let Err(error) = compare(have, want, arguments)
            {
                return Outcome::Failed(format!("output {i}: {error}"));
            }
        }
        return Outcome::Passed(level);
    }
    Outcome::Failed("shapes depend on data although all inputs are constants".into())
}

/// The names of a model's inputs.
fn input_names(folder: &Path) -> Result<Vec<String>, String> {
    use prost::Message;
    let bytes = std::fs::read(folder.join("model.onnx")).map_err(|error| error.to_string())?;
    let model = talweg_onnx::proto::ModelProto::decode(bytes.as_slice()).map_err(|e| e.to_string())?;
    Ok(model.graph.unwrap_or_default().input.into_iter().map(|input| input.name).collect())
}

fn main() -> std::io::Result<()> {
    let arguments = Arguments::parse();
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir(&arguments.dir)?.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?;
    folders.sort();
    let mut passed = [0; 3];
    let mut failed: BTreeMap<String, String> = BTreeMap::new();
    let mut unsupported: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut ineligible = 0;
    for folder in folders {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !name.contains(&arguments.only) || !folder.join("model.onnx").exists() {
            continue;
        }
        match test(&folder, &arguments) {
            Outcome::Passed(level) => passed[level] += 1,
            Outcome::Failed(reason) => {
                failed.insert(name, reason);
            }
            Outcome::Unsupported(reason) => unsupported.entry(reason).or_default().push(name),
            Outcome::Ineligible => ineligible += 1,
        }
    }
    let left: usize = unsupported.values().map(Vec::len).sum();
    for (reason, names) in &unsupported {
        println!("unsupported {:4}  {reason}", names.len());
        if arguments.list {
            names.iter().for_each(|name| println!("                  {name}"));
        }
    }
    for (name, reason) in &failed {
        println!("failed  {name}: {reason}");
    }
    let [plain, integers, folded] = passed;
    let good = plain + integers + folded;
    println!(
        "{good} passed ({plain} as given, {integers} with constant integers, {folded} only with constant inputs), {} \
         failed, {left} unsupported of {}; {ineligible} with types of data that are not read",
        failed.len(),
        good + failed.len() + left
    );
    Ok(())
}
