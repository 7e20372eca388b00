//! Small models built message by message.
#![allow(dead_code)]

use bytes::Bytes;
use prost::Message;
use talweg_onnx::proto::*;

pub fn value(name: &str, element: i32, dims: &[i64]) -> ValueInfoProto {
    let dim = dims.iter().map(|&d| DimensionProto { dim_value: Some(d), dim_param: None }).collect();
    typed(name, element, Some(TensorShapeProto { dim }))
}

/// An input with extents as text: numbers, names, or `?`.
pub fn symbolic(name: &str, dims: &[&str]) -> ValueInfoProto {
    let dim = dims
        .iter()
        .map(|text| match text.parse::<i64>() {
            Ok(number) => DimensionProto { dim_value: Some(number), dim_param: None },
            Err(_) if *text == "?" => DimensionProto::default(),
            Err(_) => DimensionProto { dim_value: None, dim_param: Some(text.to_string()) },
        })
        .collect();
    typed(name, data_type::FLOAT, Some(TensorShapeProto { dim }))
}

fn typed(name: &str, element: i32, shape: Option<TensorShapeProto>) -> ValueInfoProto {
    let tensor_type = Some(TensorTypeProto { elem_type: element, shape });
    ValueInfoProto { name: name.into(), r#type: Some(TypeProto { tensor_type }) }
}

pub fn floats(name: &str, dims: &[i64], values: &[f32]) -> TensorProto {
    TensorProto {
        name: name.into(),
        dims: dims.to_vec(),
        data_type: data_type::FLOAT,
        raw_data: Some(Bytes::from(values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>())),
        ..TensorProto::default()
    }
}

pub fn ints(name: &str, values: &[i64]) -> TensorProto {
    TensorProto {
        name: name.into(),
        dims: vec![values.len() as i64],
        data_type: data_type::INT64,
        int64_data: values.to_vec(),
        ..TensorProto::default()
    }
}

pub fn node(op: &str, inputs: &[&str], outputs: &[&str], attribute: Vec<AttributeProto>) -> NodeProto {
    NodeProto {
        op_type: op.into(),
        input: inputs.iter().map(|s| s.to_string()).collect(),
        output: outputs.iter().map(|s| s.to_string()).collect(),
        attribute,
        ..NodeProto::default()
    }
}

fn attribute(name: &str, kind: i32) -> AttributeProto {
    AttributeProto { name: name.into(), r#type: kind, ..AttributeProto::default() }
}

pub fn int(name: &str, value: i64) -> AttributeProto {
    AttributeProto { i: Some(value), ..attribute(name, attribute_type::INT) }
}

pub fn float(name: &str, value: f32) -> AttributeProto {
    AttributeProto { f: Some(value), ..attribute(name, attribute_type::FLOAT) }
}

pub fn int_list(name: &str, values: &[i64]) -> AttributeProto {
    AttributeProto { ints: values.to_vec(), ..attribute(name, attribute_type::INTS) }
}

pub fn tensor(name: &str, value: TensorProto) -> AttributeProto {
    AttributeProto { t: Some(value), ..attribute(name, attribute_type::TENSOR) }
}

pub fn graph_attribute(name: &str, value: GraphProto) -> AttributeProto {
    AttributeProto { g: Some(value), ..attribute(name, attribute_type::GRAPH) }
}

pub fn reference(name: &str, to: &str, kind: i32) -> AttributeProto {
    AttributeProto { ref_attr_name: to.into(), ..attribute(name, kind) }
}

/// A graph whose outputs have a name only.
pub fn graph(
    input: Vec<ValueInfoProto>,
    initializer: Vec<TensorProto>,
    node: Vec<NodeProto>,
    outputs: &[&str],
) -> GraphProto {
    let output = outputs.iter().map(|name| ValueInfoProto { name: name.to_string(), r#type: None }).collect();
    GraphProto { name: "test".into(), node, initializer, input, output, ..GraphProto::default() }
}

pub fn model(opset: i64, graph: GraphProto) -> ModelProto {
    ModelProto {
        ir_version: 8,
        opset_import: vec![OperatorSetIdProto { domain: String::new(), version: opset }],
        graph: Some(graph),
        functions: vec![],
    }
}

/// A convolution with batch normalisation, pooling and a classifier; `x` is `[1, 2, 6, 6]`.
pub fn convolutional() -> ModelProto {
    let weights: Vec<f32> = (0..54).map(|i| i as f32 * 0.01 - 0.2).collect();
    let classifier: Vec<f32> = (0..12).map(|i| 0.1 * i as f32).collect();
    model(
        13,
        graph(
            vec![value("x", data_type::FLOAT, &[1, 2, 6, 6])],
            vec![
                floats("w", &[3, 2, 3, 3], &weights),
                floats("scale", &[3], &[1.0, 0.5, 2.0]),
                floats("bias", &[3], &[0.1, 0.2, 0.3]),
                floats("mean", &[3], &[0.0, 0.1, -0.1]),
                floats("var", &[3], &[1.0, 2.0, 0.5]),
                floats("classes", &[4, 3], &classifier),
                ints("flat", &[0, -1]),
            ],
            vec![
                node("Conv", &["x", "w"], &["c"], vec![int_list("pads", &[1, 1, 1, 1])]),
                node("BatchNormalization", &["c", "scale", "bias", "mean", "var"], &["n"], vec![]),
                node("Relu", &["n"], &["r"], vec![]),
                node("GlobalAveragePool", &["r"], &["p"], vec![]),
                node("Reshape", &["p", "flat"], &["f"], vec![]),
                node("Gemm", &["f", "classes"], &["g"], vec![int("transB", 1)]),
                node("Softmax", &["g"], &["y"], vec![]),
            ],
            &["y"],
        ),
    )
}

/// Shape arithmetic, a branch, a loop and several kinds of constants; `x` is `[batch, 4]`.
pub fn controlling() -> ModelProto {
    let truth = TensorProto { data_type: data_type::BOOL, int32_data: vec![1], ..TensorProto::default() };
    let then = graph(vec![], vec![], vec![node("Relu", &["x"], &["then"], vec![])], &["then"]);
    let otherwise = graph(vec![], vec![], vec![node("Neg", &["x"], &["else"], vec![])], &["else"]);
    let body = graph(
        vec![
            value("i", data_type::INT64, &[]),
            value("go", data_type::BOOL, &[]),
            value("state", data_type::FLOAT, &[2, 4]),
        ],
        vec![],
        vec![
            node("Add", &["state", "x"], &["next"], vec![]),
            node("Identity", &["go"], &["go_on"], vec![]),
            node("Identity", &["next"], &["seen"], vec![]),
        ],
        &["go_on", "next", "seen"],
    );
    model(
        13,
        graph(
            vec![symbolic("x", &["batch", "4"])],
            vec![ints("zero", &[0]), ints("two", &[2]), ints("trips", &[3])],
            vec![
                node("Constant", &[], &["condition"], vec![tensor("value", truth)]),
                node(
                    "If",
                    &["condition"],
                    &["chosen"],
                    vec![graph_attribute("then_branch", then), graph_attribute("else_branch", otherwise)],
                ),
                node("Loop", &["trips", "", "chosen"], &["last", "all"], vec![graph_attribute("body", body)]),
                node("Shape", &["last"], &["shape"], vec![]),
                node("Gather", &["shape", "zero"], &["rows"], vec![int("axis", 0)]),
                node("Concat", &["rows", "two", "two"], &["target"], vec![int("axis", 0)]),
                node("Reshape", &["last", "target"], &["y"], vec![]),
            ],
            &["y", "all"],
        ),
    )
}

/// The models that are mutated: their bytes.
pub fn seeds() -> Vec<Vec<u8>> {
    [convolutional(), controlling()].iter().map(Message::encode_to_vec).collect()
}
