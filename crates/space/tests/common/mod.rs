//! Running a nest on random inputs and comparing it with the tensor expression.

use talweg_ir::{Array, Dag, Nest, Role, Source, TensorId, compare, eval_dag, run_nest, verify_nest};

/// How many random cases; more with TALWEG_CASES.
#[allow(dead_code)]
pub fn cases(default: u64) -> u64 {
    std::env::var("TALWEG_CASES").ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

fn extents(shape: &[talweg_expr::Expr]) -> Vec<usize> {
    shape.iter().map(|e| e.as_int().expect("concrete") as usize).collect()
}

/// Inputs of a DAG and what it computes from them.
pub struct Reference<'a> {
    dag: &'a Dag,
    given: Vec<(TensorId, Array)>,
    expected: Vec<(TensorId, Array)>,
}

impl<'a> Reference<'a> {
    pub fn new(dag: &'a Dag) -> Reference<'a> {
        let given: Vec<(TensorId, Array)> = dag
            .ids()
            .filter(|id| !matches!(dag.tensor(*id).source, Source::Compute(_)))
            .map(|id| {
                let t = dag.tensor(id);
                (id, Array::random(t.dtype, &extents(&t.shape), u64::from(id.0) + 1))
            })
            .collect();
        let expected = eval_dag(dag, &given).expect("the reference runs");
        Reference { dag, given, expected }
    }

    /// Verifies the nest, runs it and compares every output; integers exactly, floats within rounding.
    pub fn check(&self, label: &str, nest: &Nest) {
        if let Err(violations) = verify_nest(nest) {
            let all: Vec<String> = violations.iter().map(ToString::to_string).collect();
            panic!("{label}\n{nest}\n{}", all.join("\n"));
        }
        let mut args: Vec<(TensorId, Array)> = Vec::new();
        for id in nest.arguments() {
            let b = nest.buffer(id);
            match b.role {
                Role::Input | Role::Const => {
                    let from = self.dag.find(&b.name).expect("arguments keep their names");
                    let (_, array) = self.given.iter().find(|(t, _)| *t == from).expect("given");
                    args.push((id, array.clone()));
                }
                Role::Output => args.push((id, Array::zeros(b.dtype, &extents(&b.shape)))),
                _ => {}
            }
        }
        run_nest(nest, &mut args).unwrap_or_else(|e| panic!("{label}\n{nest}\n{e}"));
        for (id, want) in &self.expected {
            let name = &self.dag.tensor(*id).name;
            let (_, got) =
                args.iter().find(|(b, _)| nest.buffer(*b).name == *name).expect("outputs are arguments");
            let diff = compare(want, got);
            assert!(diff.within(2e-5), "{label}\n{nest}\n`{name}`: {diff}");
        }
    }
}
