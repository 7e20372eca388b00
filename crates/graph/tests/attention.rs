//! Attention in one task: what it takes in, what it leaves out, and that its default schedule computes it.

mod support;

use support::{check, program_text};
use talweg_graph::testing::Builder;
use talweg_graph::{Graph, Program, ValueId, Work};
use talweg_ir::{Array, Dag, Role, TensorId, compare, eval_dag, run_nest};
use talweg_schedule::concrete::concretize;
use talweg_schedule::{Schedule, analytic};
use talweg_target::{Isa, Target};
use talweg_tensor::Op;
use talweg_tensor::op::{Binary, SliceAxis, Unary};

/// The names of the tasks, in the order of the steps.
fn steps(program: &Program) -> Vec<&str> {
    let tasks = program.steps.iter().filter_map(|step| match &step.work {
        Work::Kernel(task) => Some(program.tasks[*task].dag.name.as_str()),
        _ => None,
    });
    tasks.collect()
}

fn extents(shape: &[talweg_expr::Expr]) -> Vec<usize> {
    shape.iter().map(|e| e.as_int().expect("a number") as usize).collect()
}

/// Lowers a task by its default schedule, runs it, and compares with the tensor expression.
#[track_caller]
fn runs_by_default(dag: &Dag, target: &Target) {
    let trace = analytic::default_trace(dag, target);
    let nest = Schedule::replay(dag.clone(), &trace).unwrap().lower().unwrap();
    let nest = concretize(&nest, &|_| None).unwrap();
    let given = |id: TensorId| {
        let tensor = dag.tensor(id);
        (id, Array::random(tensor.dtype, &extents(&tensor.shape), u64::from(id.0) + 1))
    };
    let inputs: Vec<(TensorId, Array)> =
        dag.ids().filter(|id| dag.tensor(*id).compute().is_none()).map(given).collect();
    let expected = eval_dag(dag, &inputs).unwrap();
    let mut arguments: Vec<(TensorId, Array)> = Vec::new();
    for id in nest.arguments() {
        let buffer = nest.buffer(id);
        let array = match buffer.role {
            Role::Output => Array::zeros(buffer.dtype, &extents(&buffer.shape)),
            _ => {
                let source = dag.find(&buffer.name).unwrap();
                inputs.iter().find(|(id, _)| *id == source).unwrap().1.clone()
            }
        };
        arguments.push((id, array));
    }
    run_nest(&nest, &mut arguments).unwrap_or_else(|e| panic!("{e}\n{trace}"));
    for (id, array) in &expected {
        let name = &dag.tensor(*id).name;
        let found = arguments.iter().find(|(at, _)| nest.buffer(*at).name == *name).unwrap();
        let difference = compare(array, &found.1);
        assert!(difference.within(2e-5), "{name}: {difference}\n{trace}");
    }
}

/// Checks a graph, and runs its attention by the default schedules of machines with one, few and many cores.
#[track_caller]
fn one_task(graph: &Graph) -> Program {
    let program = check(graph);
    let attention = program.tasks.iter().find(|task| task.dag.name == "attention");
    let task = attention.unwrap_or_else(|| panic!("{}", program_text(&program)));
    for (isa, cores) in [(Isa::Avx512, 2), (Isa::Avx2, 1), (Isa::Avx512, 64)] {
        let mut target = Target::generic(isa);
        target.cores = cores;
        runs_by_default(&task.dag, &target);
        // Blocks of a few queries.
        target.l1d = 512;
        runs_by_default(&task.dag, &target);
    }
    program
}

fn binary(b: &mut Builder, f: Binary, x: ValueId, y: ValueId) -> ValueId {
    b.op(Op::Binary(f), &[x, y])
}

/// Attention of given queries, keys and values, heads first.
fn attend(b: &mut Builder, q: ValueId, k: ValueId, v: ValueId, mask: Option<ValueId>) -> ValueId {
    let rank = b.graph.ty(k).shape.len();
    let mut perm: Vec<usize> = (0..rank).collect();
    perm.swap(rank - 2, rank - 1);
    let turned = b.op(Op::Transpose { perm }, &[k]);
    let scores = b.op(Op::MatMul, &[q, turned]);
    let eighth = b.scalar(0.125);
    let mut scaled = binary(b, Binary::Mul, scores, eighth);
    if let Some(mask) = mask {
        scaled = binary(b, Binary::Add, scaled, mask);
    }
    let weights = b.op(Op::Softmax { axis: rank - 1, log: false }, &[scaled]);
    b.op(Op::MatMul, &[weights, v])
}

#[test]
fn heads_of_any_size_are_one_task() {
    for (heads, queries, keys, depth, width) in
        [(3, 20, 20, 16, 16), (2, 7, 33, 5, 9), (1, 24, 24, 8, 8), (5, 3, 40, 4, 20), (2, 50, 18, 6, 20)]
    {
        let mut b = Builder::new("attention");
        let q = b.input(&[1, heads, queries, depth]);
        let (k, v) = (b.input(&[1, heads, keys, depth]), b.input(&[1, heads, keys, width]));
        let out = attend(&mut b, q, k, v, None);
        let program = one_task(&b.finish(&[out]));
        assert_eq!(steps(&program), ["attention"], "{}", program_text(&program));
    }
}

#[test]
fn masks_batches_and_what_follows_belong_to_it() {
    let mut b = Builder::new("masked");
    let shape = [2, 3, 9, 8];
    let (q, k, v) = (b.input(&shape), b.input(&shape), b.input(&shape));
    let mask = b.weights(&[1, 1, 9, 9], 5);
    let out = attend(&mut b, q, k, v, Some(mask));
    let out = b.op(Op::Transpose { perm: vec![0, 2, 1, 3] }, &[out]);
    let out = b.op(Op::Reshape { shape: vec![2, 9, 24] }, &[out]);
    let out = b.op(Op::Unary(Unary::Relu), &[out]);
    let program = one_task(&b.finish(&[out]));
    assert_eq!(steps(&program), ["attention"], "{}", program_text(&program));
}

#[test]
fn groups_of_queries_share_their_keys() {
    let mut b = Builder::new("grouped");
    let q = b.input(&[1, 6, 10, 8]);
    let mut shared = || {
        let x = b.input(&[1, 2, 1, 10, 8]);
        let wide = b.op(Op::Expand { shape: vec![1, 2, 3, 10, 8] }, &[x]);
        b.op(Op::Reshape { shape: vec![1, 6, 10, 8] }, &[wide])
    };
    let (k, v) = (shared(), shared());
    let out = attend(&mut b, q, k, v, None);
    let program = one_task(&b.finish(&[out]));
    assert_eq!(steps(&program), ["attention"], "{}", program_text(&program));
}

/// `x * cos + rotated(x) * sin` of heads.
fn rotary(b: &mut Builder, x: ValueId, tokens: usize, width: usize) -> ValueId {
    let shape = b.graph.ty(x).shape.clone();
    let half = |begin: usize| {
        let part = |d: usize, extent: &usize| match d + 1 == shape.len() {
            true => SliceAxis { begin, step: 1, count: width / 2 },
            false => SliceAxis { begin: 0, step: 1, count: *extent },
        };
        Op::Slice { axes: shape.iter().enumerate().map(|(d, e)| part(d, e)).collect() }
    };
    let (cos, sin) = (b.weights(&[1, 1, tokens, width], 21), b.weights(&[1, 1, tokens, width], 22));
    let (low, high) = (b.op(half(0), &[x]), b.op(half(width / 2), &[x]));
    let negative = b.op(Op::Unary(Unary::Neg), &[high]);
    let turned = b.op(Op::Concat { axis: 3 }, &[negative, low]);
    let (straight, turned) = (binary(b, Binary::Mul, x, cos), binary(b, Binary::Mul, turned, sin));
    binary(b, Binary::Add, straight, turned)
}

#[test]
fn rotary_embeddings_are_computed_where_heads_are_laid_out() {
    let (tokens, heads, width) = (10, 2, 8);
    let mut b = Builder::new("rotary");
    let x = b.input(&[1, tokens, 12]);
    let mut project = |seed: u64| {
        let w = b.weights(&[12, heads * width], seed);
        let y = b.op(Op::MatMul, &[x, w]);
        let split = b.op(Op::Reshape { shape: vec![1, tokens, heads, width] }, &[y]);
        b.op(Op::Transpose { perm: vec![0, 2, 1, 3] }, &[split])
    };
    let (q, k, v) = (project(1), project(2), project(3));
    let (q, k) = (rotary(&mut b, q, tokens, width), rotary(&mut b, k, tokens, width));
    let out = attend(&mut b, q, k, v, None);
    let program = one_task(&b.finish(&[out]));
    assert_eq!(steps(&program), ["matmul", "attention"], "{}", program_text(&program));
}

#[test]
fn weights_that_others_read_are_written() {
    let mut b = Builder::new("shown");
    let shape = [2, 9, 8];
    let (q, k, v) = (b.input(&shape), b.input(&shape), b.input(&shape));
    let turned = b.op(Op::Transpose { perm: vec![0, 2, 1] }, &[k]);
    let scores = b.op(Op::MatMul, &[q, turned]);
    let weights = b.op(Op::Softmax { axis: 2, log: false }, &[scores]);
    let out = b.op(Op::MatMul, &[weights, v]);
    let program = check(&b.finish(&[out, weights]));
    assert_eq!(steps(&program), ["matmul", "softmax", "matmul"], "{}", program_text(&program));
}
