//! Small ONNX files for the tests of the tool and of the interfaces.

use prost::Message;
use talweg_onnx::proto::{
    DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorShapeProto, TensorTypeProto,
    TypeProto, ValueInfoProto, data_type,
};

fn value(name: &str, dims: &[&str]) -> ValueInfoProto {
    let dim = dims.iter().map(|text| match text.parse() {
        Ok(extent) => DimensionProto { dim_value: Some(extent), dim_param: None },
        Err(_) => DimensionProto { dim_value: None, dim_param: Some(text.to_string()) },
    });
    let shape = Some(TensorShapeProto { dim: dim.collect() });
    let tensor_type = Some(TensorTypeProto { elem_type: data_type::FLOAT, shape });
    ValueInfoProto { name: name.into(), r#type: Some(TypeProto { tensor_type }) }
}

/// `y = op(x)` as an ONNX file.
pub fn model(op: &str, dims: &[&str]) -> Vec<u8> {
    let node = NodeProto {
        op_type: op.into(),
        input: vec!["x".into()],
        output: vec!["y".into()],
        ..NodeProto::default()
    };
    let graph = GraphProto {
        name: "g".into(),
        node: vec![node],
        input: vec![value("x", dims)],
        output: vec![value("y", dims)],
        ..GraphProto::default()
    };
    let opset_import = vec![OperatorSetIdProto { domain: String::new(), version: 17 }];
    let model = ModelProto { ir_version: 8, opset_import, graph: Some(graph), ..ModelProto::default() };
    model.encode_to_vec()
}
