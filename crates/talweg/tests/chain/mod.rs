//! Small networks as ONNX files: two products with an activation between them and a softmax, and a single product.

use prost::Message;
use talweg_onnx::proto::{
    DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TensorShapeProto,
    TensorTypeProto, TypeProto, ValueInfoProto, data_type,
};

fn value(name: &str, dims: [i64; 2]) -> ValueInfoProto {
    let dim = dims.map(|extent| DimensionProto { dim_value: Some(extent), dim_param: None });
    let tensor_type =
        TensorTypeProto { elem_type: data_type::FLOAT, shape: Some(TensorShapeProto { dim: dim.to_vec() }) };
    ValueInfoProto { name: name.into(), r#type: Some(TypeProto { tensor_type: Some(tensor_type) }) }
}

fn weights(name: &str, dims: [i64; 2], seed: usize) -> TensorProto {
    let count = (dims[0] * dims[1]) as usize;
    let float_data = (0..count).map(|i| ((i * 37 + seed * 11) % 17) as f32 / 8.0 - 1.0).collect();
    let data_type = data_type::FLOAT;
    TensorProto { name: name.into(), dims: dims.to_vec(), data_type, float_data, ..TensorProto::default() }
}

fn node(op: &str, name: &str, inputs: &[&str], output: &str) -> NodeProto {
    NodeProto {
        op_type: op.into(),
        name: name.into(),
        input: inputs.iter().map(ToString::to_string).collect(),
        output: vec![output.into()],
        ..NodeProto::default()
    }
}

/// `y = softmax(relu(x w) v)` as an ONNX file, with weights by the seed.
pub fn model(seed: usize) -> Vec<u8> {
    file(GraphProto {
        node: vec![
            node("MatMul", "first", &["x", "w"], "a"),
            node("Relu", "relu", &["a"], "b"),
            node("MatMul", "second", &["b", "v"], "c"),
            node("Softmax", "last", &["c"], "y"),
        ],
        initializer: vec![weights("w", [16, 40], seed), weights("v", [40, 24], seed + 1)],
        input: vec![value("x", [12, 16])],
        output: vec![value("y", [12, 24])],
        ..GraphProto::default()
    })
}

/// `y = x w` as an ONNX file, of a size that Strassen's scheme is for.
#[allow(dead_code)]
pub fn product() -> Vec<u8> {
    file(GraphProto {
        node: vec![node("MatMul", "only", &["x", "w"], "y")],
        initializer: vec![weights("w", [64, 64], 1)],
        input: vec![value("x", [16, 64])],
        output: vec![value("y", [16, 64])],
        ..GraphProto::default()
    })
}

fn file(graph: GraphProto) -> Vec<u8> {
    let graph = GraphProto { name: "g".into(), ..graph };
    let opset_import = vec![OperatorSetIdProto { domain: String::new(), version: 17 }];
    ModelProto { ir_version: 8, opset_import, graph: Some(graph), ..ModelProto::default() }.encode_to_vec()
}
