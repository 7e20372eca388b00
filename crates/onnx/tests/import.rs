//! What models become: folding, older operator sets, control flow, functions, outputs.

mod models;

use models::*;
use prost::Message;
use talweg_graph::Graph;
use talweg_onnx::proto::*;
use talweg_onnx::{ImportOptions, import_bytes};
use talweg_tensor::{Tensor, evaluate};

fn import(model: &ModelProto, options: &ImportOptions) -> Graph {
    import_bytes(model.encode_to_vec(), None, options).unwrap_or_else(|error| panic!("{error}"))
}

fn plain(model: &ModelProto) -> Graph {
    import(model, &ImportOptions::default())
}

fn ops(graph: &Graph) -> Vec<String> {
    graph.nodes.iter().map(|node| node.op.name()).collect()
}

/// The outputs of a graph for the given inputs, in order.
fn run(graph: &Graph, inputs: Vec<Tensor>) -> Vec<Tensor> {
    let mut values: Vec<Option<Tensor>> = graph.values.iter().map(|value| value.constant.clone()).collect();
    for (&id, tensor) in graph.inputs.iter().zip(inputs) {
        values[id.index()] = Some(tensor);
    }
    for node in &graph.nodes {
        let inputs: Vec<Option<&Tensor>> =
            node.inputs.iter().map(|i| i.and_then(|i| values[i.index()].as_ref())).collect();
        for (&id, tensor) in node.outputs.iter().zip(evaluate(&node.op, &inputs).unwrap()) {
            assert_eq!(graph.ty(id), tensor.ty(), "{}", node.name);
            values[id.index()] = Some(tensor);
        }
    }
    graph.outputs.iter().map(|id| values[id.index()].clone().unwrap()).collect()
}

#[test]
fn a_classifier_keeps_only_what_runs() {
    let graph = plain(&convolutional());
    assert_eq!(ops(&graph), ["Conv", "Mul", "Add", "Relu", "Reduce", "Reshape", "MatMul", "Softmax"]);
    assert_eq!(graph.nodes[0].name, "Conv_0");
    let y = run(&graph, vec![Tensor::new([1, 2, 6, 6], (0..72).map(|i| i as f32 * 0.02 - 0.5).collect())]);
    let sum: f64 = y[0].to_f64().iter().sum();
    assert!((sum - 1.0).abs() < 1e-6, "{sum}");
}

#[test]
fn branches_are_chosen_loops_unrolled_shapes_folded() {
    let options = ImportOptions { dims: [("batch".to_string(), 3)].into(), ..ImportOptions::default() };
    let graph = import(&controlling(), &options);
    let found = ops(&graph);
    assert_eq!(found.iter().filter(|op| *op == "Add").count(), 3, "{found:?}");
    assert!(!found.iter().any(|op| op == "Neg" || op == "Gather"), "{found:?}");
    let x: Vec<f32> = (0..12).map(|i| i as f32 - 6.0).collect();
    let outputs = run(&graph, vec![Tensor::new([3, 4], x.clone())]);
    assert_eq!(outputs[0].shape(), [3, 2, 2]);
    assert_eq!(outputs[1].shape(), [3, 3, 4]);
    let want: Vec<f32> = x.iter().map(|&v| v.max(0.0) + 3.0 * v).collect();
    assert_eq!(outputs[0].values::<f32>().as_ref(), want);
}

/// One node on `x` of the given shape, with further constants.
fn single(opset: i64, dims: &[i64], node: NodeProto, constants: Vec<TensorProto>) -> Graph {
    let outputs: Vec<String> = node.output.clone();
    let outputs: Vec<&str> = outputs.iter().map(String::as_str).collect();
    plain(&model(opset, graph(vec![value("x", data_type::FLOAT, dims)], constants, vec![node], &outputs)))
}

#[test]
fn older_forms_mean_the_same_as_newer_ones() {
    let x = Tensor::new([2, 3], vec![-3.0f32, -1.0, 0.0, 1.0, 2.0, 3.0]);
    let same = |old: Graph, new: Graph| {
        let (old, new) = (run(&old, vec![x.clone()]), run(&new, vec![x.clone()]));
        assert_eq!(old, new);
    };
    same(
        single(7, &[2, 3], node("Clip", &["x"], &["y"], vec![float("min", -1.0), float("max", 2.0)]), vec![]),
        single(
            13,
            &[2, 3],
            node("Clip", &["x", "low", "high"], &["y"], vec![]),
            vec![floats("low", &[], &[-1.0]), floats("high", &[], &[2.0])],
        ),
    );
    same(
        single(
            9,
            &[2, 3],
            node(
                "Slice",
                &["x"],
                &["y"],
                vec![int_list("starts", &[1]), int_list("ends", &[99]), int_list("axes", &[1])],
            ),
            vec![],
        ),
        single(
            13,
            &[2, 3],
            node("Slice", &["x", "s", "e", "a"], &["y"], vec![]),
            vec![ints("s", &[1]), ints("e", &[i64::MAX]), ints("a", &[-1])],
        ),
    );
    same(
        single(11, &[2, 3], node("ReduceSum", &["x"], &["y"], vec![int_list("axes", &[1])]), vec![]),
        single(13, &[2, 3], node("ReduceSum", &["x", "a"], &["y"], vec![]), vec![ints("a", &[-1])]),
    );
    same(
        single(
            11,
            &[2, 3],
            node("Split", &["x"], &["a", "b"], vec![int("axis", 1), int_list("split", &[1, 2])]),
            vec![],
        ),
        single(
            13,
            &[2, 3],
            node("Split", &["x", "s"], &["a", "b"], vec![int("axis", 1)]),
            vec![ints("s", &[1, 2])],
        ),
    );
}

#[test]
fn old_softmax_spans_all_axes_from_one_on() {
    let graph = single(11, &[2, 2, 2], node("Softmax", &["x"], &["y"], vec![]), vec![]);
    let y = run(&graph, vec![Tensor::new([2, 2, 2], vec![0.0f32; 8])]);
    assert_eq!(y[0].values::<f32>().as_ref(), [0.25; 8]);
    let graph = single(13, &[2, 2, 2], node("Softmax", &["x"], &["y"], vec![]), vec![]);
    let y = run(&graph, vec![Tensor::new([2, 2, 2], vec![0.0f32; 8])]);
    assert_eq!(y[0].values::<f32>().as_ref(), [0.5; 8]);
}

#[test]
fn functions_are_inlined_with_their_attributes() {
    let function = FunctionProto {
        name: "Leak".into(),
        domain: "mine".into(),
        input: vec!["a".into()],
        output: vec!["b".into()],
        node: vec![node(
            "LeakyRelu",
            &["a"],
            &["b"],
            vec![reference("alpha", "slope", attribute_type::FLOAT)],
        )],
        opset_import: vec![OperatorSetIdProto { domain: String::new(), version: 16 }],
        ..FunctionProto::default()
    };
    let mut call = node("Leak", &["x"], &["y"], vec![float("slope", 0.5)]);
    call.domain = "mine".into();
    let mut model = model(16, graph(vec![value("x", data_type::FLOAT, &[2])], vec![], vec![call], &["y"]));
    model.functions.push(function);
    let graph = plain(&model);
    assert_eq!(graph.nodes[0].name, "Leak_0/LeakyRelu_0");
    assert_eq!(run(&graph, vec![Tensor::new([2], vec![-4.0f32, 4.0])])[0].to_f64(), [-2.0, 4.0]);
}

#[test]
fn outputs_keep_their_names_whatever_they_are() {
    let model = model(
        13,
        graph(
            vec![value("x", data_type::FLOAT, &[2])],
            vec![floats("c", &[2], &[1.0, 2.0])],
            vec![
                node("Identity", &["x"], &["same"], vec![]),
                node("Add", &["c", "c"], &["folded"], vec![]),
                node("Relu", &["x"], &["r"], vec![]),
                node("Identity", &["r"], &["twice"], vec![]),
            ],
            &["same", "folded", "r", "twice"],
        ),
    );
    let graph = plain(&model);
    let names: Vec<&str> = graph.outputs.iter().map(|&id| graph.value(id).name.as_str()).collect();
    assert_eq!(names, ["same", "folded", "r", "twice"]);
    assert_eq!(graph.constant(graph.outputs[1]).unwrap().to_f64(), [2.0, 4.0]);
}

#[test]
fn fixed_inputs_determine_shapes() {
    let model = model(
        13,
        graph(
            vec![value("x", data_type::FLOAT, &[6]), value("shape", data_type::INT64, &[2])],
            vec![],
            vec![node("Reshape", &["x", "shape"], &["y"], vec![])],
            &["y"],
        ),
    );
    let fixed = [("shape".to_string(), Tensor::new([2], vec![2i64, -1]))].into();
    let graph = import(&model, &ImportOptions { fixed, ..ImportOptions::default() });
    assert_eq!(graph.ty(graph.outputs[0]).shape, [2, 3]);
    assert_eq!(graph.inputs.len(), 1);
}

#[test]
fn weights_come_from_every_kind_of_field() {
    let half = |values: &[i32], kind: i32| TensorProto {
        name: "c".into(),
        dims: vec![values.len() as i64],
        data_type: kind,
        int32_data: values.to_vec(),
        ..TensorProto::default()
    };
    for (constant, want) in [
        (half(&[0x3c00, 0xc000], data_type::FLOAT16), [1.0, -2.0]),
        (half(&[0x3f80, 0xc000], data_type::BFLOAT16), [1.0, -2.0]),
        (half(&[7, -7], data_type::INT8), [7.0, -7.0]),
        (half(&[0, 1], data_type::BOOL), [0.0, 1.0]),
    ] {
        let model =
            model(13, graph(vec![], vec![constant], vec![node("Identity", &["c"], &["y"], vec![])], &["y"]));
        let graph = plain(&model);
        assert_eq!(graph.constant(graph.outputs[0]).unwrap().to_f64(), want);
    }
}
