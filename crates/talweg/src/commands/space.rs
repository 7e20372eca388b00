//! `talweg space`: the sketches an operator can be scheduled by, and how many candidates they make.

use clap::Args;
use serde_json::json;
use talweg_ops::Spec;
use talweg_space::Space;
use talweg_target::Target;

use super::{Failure, operator_help, print};

const EXAMPLES: &str = "\
Examples:
  talweg space matmul:m=512,n=512,k=512
  talweg space conv2d:n=1,h=56,w=56,c=64,f=64,k=3,p=1 --target avx2 --json
";

/// Arguments of `talweg space`.
#[derive(Args)]
#[command(after_help = operator_help::short(EXAMPLES), after_long_help = operator_help::long(EXAMPLES))]
pub struct Arguments {
    /// The operator and its sizes, for example `matmul:m=1024,n=1024,k=1024`.
    spec: String,
    /// The machine: host, avx512, avx2 or neon.
    #[arg(long, default_value = "host", value_name = "NAME")]
    target: String,
    /// Print one JSON object with sizes only.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let target = Target::named(&arguments.target).map_err(|e| Failure::input(format!("--target: {e}")))?;
    let spec = Spec::parse(&arguments.spec).map_err(Failure::input)?;
    let dag = spec.build().map_err(Failure::input)?;
    let space = Space::of(&dag, &target);
    if !arguments.json {
        return print(&space.to_string());
    }
    let sketches: Vec<_> = space
        .sketches
        .iter()
        .map(|s| json!({ "name": s.name, "knobs": s.knobs.len(), "constraints": s.constraints.len(), "size": s.size() }))
        .collect();
    print(&format!("{}\n", json!({ "spec": spec.to_string(), "size": space.size(), "sketches": sketches })))
}
