//! Models that are refused: what the errors say, and that hostile files stay harmless.

mod models;

use models::*;
use prost::Message;
use talweg_onnx::proto::*;
use talweg_onnx::{ImportError, ImportOptions, import, import_bytes};
use talweg_tensor::Tensor;

fn refuse(model: &ModelProto, options: &ImportOptions) -> ImportError {
    match import_bytes(model.encode_to_vec(), None, options) {
        Ok(graph) => panic!("imported:\n{graph}"),
        Err(error) => error,
    }
}

fn refused(model: &ModelProto) -> String {
    refuse(model, &ImportOptions::default()).to_string()
}

fn check(model: &ModelProto, parts: &[&str]) {
    let text = refused(model);
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
}

fn with_nodes(nodes: Vec<NodeProto>, outputs: &[&str]) -> ModelProto {
    model(13, graph(vec![value("x", data_type::FLOAT, &[2, 3])], vec![], nodes, outputs))
}

#[test]
fn everything_unsupported_is_reported_at_once() {
    let mut vendor = node("FusedThing", &["a"], &["b"], vec![]);
    vendor.domain = "com.vendor".into();
    let model = with_nodes(
        vec![
            node("Bernoulli", &["x"], &["a"], vec![]),
            vendor,
            node("Relu", &["b"], &["c"], vec![]),
            node("Unheard", &["c"], &["y"], vec![]),
            node("AlsoUnheard", &["x"], &["dead"], vec![]),
        ],
        &["y"],
    );
    let ImportError::Unsupported(report) = refuse(&model, &ImportOptions::default()) else { panic!() };
    let found: Vec<(&str, &str)> =
        report.items.iter().map(|item| (item.op.as_str(), item.node.as_str())).collect();
    assert_eq!(
        found,
        [("Bernoulli", "Bernoulli_0"), ("FusedThing", "FusedThing_1"), ("Unheard", "Unheard_3")]
    );
    assert!(report.items.iter().all(|item| !item.reason.is_empty() && !item.remedy.is_empty()));
    assert!(report.to_string().starts_with("3 parts of the model unsupported:"), "{report}");
}

#[test]
fn dynamic_dimensions_are_all_named_with_their_flags() {
    let inputs = vec![symbolic("x", &["batch", "3"]), symbolic("z", &["batch", "?", "time"])];
    let nodes = vec![node("Relu", &["x"], &["y"], vec![]), node("Relu", &["z"], &["w"], vec![])];
    let model = model(13, graph(inputs, vec![], nodes, &["y", "w"]));
    check(
        &model,
        &[
            "`x` has shape [batch, 3]",
            "`z` has shape [batch, ?, time]",
            "--dim batch=N",
            "--shape z=batch,N,time",
        ],
    );
    let options =
        ImportOptions { shapes: [("z".to_string(), vec![4, 5, 6])].into(), ..ImportOptions::default() };
    let graph = import_bytes(model.encode_to_vec(), None, &options).unwrap();
    assert_eq!(graph.ty(graph.inputs[0]).shape, [4, 3]);
}

#[test]
fn options_must_fit_the_model() {
    let model = convolutional();
    let shapes = |name: &str, shape: &[usize]| ImportOptions {
        shapes: [(name.to_string(), shape.to_vec())].into(),
        ..ImportOptions::default()
    };
    let text = refuse(&model, &shapes("nope", &[1])).to_string();
    assert!(text.contains("no input `nope`; its inputs are: x"), "{text}");
    let text = refuse(&model, &shapes("x", &[1, 2, 6, 7])).to_string();
    assert!(text.contains("does not fit"), "{text}");
    let fixed = [("x".to_string(), Tensor::new([1], vec![1i32]))].into();
    let text = refuse(&model, &ImportOptions { fixed, ..ImportOptions::default() }).to_string();
    assert!(text.contains("not the model's element type"), "{text}");
}

#[test]
fn damaged_graphs_are_explained() {
    check(
        &with_nodes(vec![node("Relu", &["b"], &["a"], vec![]), node("Relu", &["a"], &["b"], vec![])], &["a"]),
        &["cyclic", "`Relu_0`", "`Relu_1`"],
    );
    check(
        &with_nodes(vec![node("Relu", &["ghost"], &["y"], vec![])], &["y"]),
        &["node `Relu_0` reads `ghost`"],
    );
    check(&with_nodes(vec![], &["y"]), &["reads `y`"]);
    check(
        &with_nodes(vec![node("Relu", &["x"], &["y"], vec![]), node("Neg", &["x"], &["y"], vec![])], &["y"]),
        &["`y` is written twice"],
    );
    check(
        &with_nodes(vec![node("Transpose", &["x"], &["y"], vec![int_list("perm", &[0, 7])])], &["y"]),
        &["node `Transpose_0` (Transpose)", "axis 7"],
    );
    let bytes = import_bytes(vec![0xff; 64], None, &ImportOptions::default()).unwrap_err();
    assert!(matches!(bytes, ImportError::Malformed(_)), "{bytes}");
    let empty = import_bytes(Vec::new(), None, &ImportOptions::default()).unwrap_err();
    assert!(matches!(empty, ImportError::Malformed(_)), "{empty}");
}

#[test]
fn claimed_sizes_are_not_believed() {
    let lying = |dims: &[i64]| {
        let constant = TensorProto { dims: dims.to_vec(), ..floats("c", &[], &[1.0]) };
        model(13, graph(vec![], vec![constant], vec![node("Identity", &["c"], &["y"], vec![])], &["y"]))
    };
    check(&lying(&[1 << 40]), &["constant `c`", "truncated"]);
    check(&lying(&[i64::MAX, i64::MAX]), &["constant `c`", "too large"]);
    check(&lying(&[-1]), &["negative"]);
    let huge = model(
        13,
        graph(
            vec![],
            vec![ints("shape", &[1 << 30, 1 << 30])],
            vec![node("ConstantOfShape", &["shape"], &["y"], vec![])],
            &["y"],
        ),
    );
    check(&huge, &["too large"]);
    let lazy = model(
        13,
        graph(
            vec![],
            vec![ints("shape", &[1 << 18, 1 << 18])],
            vec![node("ConstantOfShape", &["shape"], &["y"], vec![])],
            &["y"],
        ),
    );
    let graph = import_bytes(lazy.encode_to_vec(), None, &ImportOptions::default()).unwrap();
    assert_eq!(graph.nodes.len(), 1, "a large constant stays an operator");
}

#[test]
fn endless_loops_and_recursive_functions_end() {
    let body = graph(
        vec![value("i", data_type::INT64, &[]), value("go", data_type::BOOL, &[])],
        vec![],
        vec![node("Identity", &["go"], &["on"], vec![]), node("Identity", &["i"], &["seen"], vec![])],
        &["on", "seen"],
    );
    let endless =
        with_nodes(vec![node("Loop", &["", ""], &["y"], vec![graph_attribute("body", body)])], &["y"]);
    check(&endless, &["more than 10000 iterations"]);

    let mut inner = node("Again", &["a"], &["b"], vec![]);
    inner.domain = "mine".into();
    let function = FunctionProto {
        name: "Again".into(),
        domain: "mine".into(),
        input: vec!["a".into()],
        output: vec!["b".into()],
        node: vec![inner.clone()],
        ..FunctionProto::default()
    };
    inner.input = vec!["x".into()];
    let mut model = with_nodes(vec![inner], &["b"]);
    model.functions.push(function);
    check(&model, &["a function calls itself"]);
}

/// A model whose constant lies in the file `location`.
fn external(location: &str, offset: &str, length: &str) -> ModelProto {
    let entry = |key: &str, value: &str| StringStringEntryProto { key: key.into(), value: value.into() };
    let constant = TensorProto {
        name: "c".into(),
        dims: vec![2],
        data_type: data_type::FLOAT,
        data_location: 1,
        external_data: vec![entry("location", location), entry("offset", offset), entry("length", length)],
        ..TensorProto::default()
    };
    model(13, graph(vec![], vec![constant], vec![node("Identity", &["c"], &["y"], vec![])], &["y"]))
}

#[test]
fn external_data_stays_in_the_folder() {
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret.bin");
    std::fs::write(&secret, [0u8; 64]).unwrap();
    let folder = outside.path().join("model");
    std::fs::create_dir(&folder).unwrap();
    let weights: Vec<u8> = [0.0f32, 1.5, -2.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    std::fs::write(folder.join("weights.bin"), weights).unwrap();
    std::os::unix::fs::symlink(&secret, folder.join("link.bin")).unwrap();
    let path = folder.join("model.onnx");
    let attempt = |model: ModelProto| {
        std::fs::write(&path, model.encode_to_vec()).unwrap();
        import(&path, &ImportOptions::default())
    };
    let graph = attempt(external("weights.bin", "4", "8")).unwrap();
    assert_eq!(graph.constant(graph.outputs[0]).unwrap().to_f64(), [1.5, -2.0]);
    for (location, offset, length, part) in [
        ("../secret.bin", "0", "8", "must lie in the model's folder"),
        (secret.to_str().unwrap(), "0", "8", "must lie in the model's folder"),
        ("link.bin", "0", "8", "a link that leads out of it"),
        ("weights.bin", "8", "8", "the file has only 12"),
        ("weights.bin", "18446744073709551615", "8", "the file has only 12"),
        ("weights.bin", "0", "12", "takes 8"),
        ("weights.bin", "x", "8", "not a number"),
        ("missing.bin", "0", "8", "No such file"),
    ] {
        let text = attempt(external(location, offset, length)).unwrap_err().to_string();
        assert!(text.contains(part), "{location}: {text}");
    }
    let text = refused(&external("weights.bin", "0", "8"));
    assert!(text.contains("without a folder"), "{text}");
}
