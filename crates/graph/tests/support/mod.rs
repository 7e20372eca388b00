//! Checks that rewriting and cutting keep the meaning of a graph, and that every task has a default schedule.

use talweg_graph::reference::{difference, outputs, run_graph, run_program};
use talweg_graph::testing::random_inputs;
use talweg_graph::{Graph, PartitionOptions, Program, Work, optimise, partition};
use talweg_ir::{Dag, verify_nest};
use talweg_schedule::concrete::concretize;
use talweg_schedule::{Schedule, analytic};
use talweg_target::{Isa, Target};

/// The largest relative error that reassociating and folding f32 may cause in these small graphs.
pub const TOLERANCE: f64 = 2e-5;

/// Optimises and cuts a graph, comparing the meaning at every stage; gives the program.
#[track_caller]
pub fn check(graph: &Graph) -> Program {
    graph.verify().unwrap();
    let inputs = random_inputs(graph, 7);
    let expected = outputs(graph, &run_graph(graph, &inputs).unwrap()).unwrap();
    let compare = |what: &str, found: &[talweg_tensor::Tensor], text: &str| {
        assert_eq!(expected.len(), found.len());
        for (e, f) in expected.iter().zip(found) {
            let error = difference(e, f);
            assert!(error <= TOLERANCE, "{what}: error {error}: expected {e:?}, found {f:?}\n{text}");
        }
    };
    let mut optimised = graph.clone();
    optimise(&mut optimised).unwrap();
    let found = outputs(&optimised, &run_graph(&optimised, &inputs).unwrap()).unwrap();
    compare("optimised", &found, &optimised.to_string());
    for source in [graph, &optimised] {
        for fuse in [false, true] {
            let program = partition(source.clone(), &PartitionOptions { fuse }).unwrap();
            let found = outputs(&program.graph, &run_program(&program, &inputs).unwrap()).unwrap();
            compare(&format!("program, fuse {fuse}"), &found, &program_text(&program));
            program.tasks.iter().for_each(|t| assert_default_schedule(&t.dag));
        }
    }
    partition(optimised, &PartitionOptions::default()).unwrap()
}

/// The default schedule of a task replays, lowers and verifies.
#[track_caller]
pub fn assert_default_schedule(dag: &Dag) {
    let target = Target::generic(Isa::Avx512);
    let trace = analytic::default_trace(dag, &target);
    let schedule = Schedule::replay(dag.clone(), &trace).unwrap_or_else(|e| panic!("{e}\n{dag}"));
    let nest = schedule.lower().and_then(|nest| concretize(&nest, &|_| None));
    let nest = nest.unwrap_or_else(|e| panic!("{e}\n{dag}\n{trace}"));
    if let Err(violations) = verify_nest(&nest) {
        let text: Vec<String> = violations.iter().map(ToString::to_string).collect();
        panic!("{}\n{dag}\n{trace}", text.join("\n"));
    }
}

/// One line for each step, then the tasks.
pub fn program_text(program: &Program) -> String {
    let name = |v: &talweg_graph::ValueId| program.graph.value(*v).name.clone();
    let mut out = String::new();
    for step in &program.steps {
        let work = match &step.work {
            Work::Kernel(task) => format!("kernel {task} {}", program.tasks[*task].dag.name),
            Work::Plain(op) => format!("plain {}", op.name()),
            Work::View => "view".to_string(),
        };
        let inputs: Vec<String> = step.inputs.iter().flatten().map(name).collect();
        let outputs: Vec<String> = step.outputs.iter().map(name).collect();
        out += &format!("{} = {work}({})\n", outputs.join(", "), inputs.join(", "));
    }
    for (at, task) in program.tasks.iter().enumerate() {
        out += &format!("task {at}, used {}:\n{}\n", task.uses, task.text);
    }
    out
}
