//! The ONNX messages the importer reads, as `prost` structures.
//!
//! Only what the importer needs is here; other fields are skipped while decoding. The bytes of weights stay where they
//! are: `raw_data` is a part of the buffer that was decoded.

use bytes::Bytes;

/// A model: a graph and the operator sets its nodes are written for.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ModelProto {
    /// The version of the file format.
    #[prost(int64, tag = "1")]
    pub ir_version: i64,
    /// Operator sets by domain.
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OperatorSetIdProto>,
    /// The network.
    #[prost(message, optional, tag = "7")]
    pub graph: Option<GraphProto>,
    /// Functions the model's nodes call.
    #[prost(message, repeated, tag = "25")]
    pub functions: Vec<FunctionProto>,
}

/// A version of an operator set.
#[derive(Clone, PartialEq, prost::Message)]
pub struct OperatorSetIdProto {
    /// The domain; empty for ONNX itself.
    #[prost(string, tag = "1")]
    pub domain: String,
    /// The version.
    #[prost(int64, tag = "2")]
    pub version: i64,
}

/// Nodes with their constants, inputs and outputs.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GraphProto {
    /// The nodes, each after those it reads from.
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<NodeProto>,
    /// The graph's name.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Constants by name.
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<TensorProto>,
    /// Sparse constants, named by their values.
    #[prost(message, repeated, tag = "15")]
    pub sparse_initializer: Vec<SparseTensorProto>,
    /// Inputs; older models list constants here too.
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfoProto>,
    /// Outputs.
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfoProto>,
}

/// An operator applied to named values.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeProto {
    /// Names of what it reads; empty for an optional input that is absent.
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    /// Names of what it writes; empty for an output nobody needs.
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    /// The node's name, often empty.
    #[prost(string, tag = "3")]
    pub name: String,
    /// The operator.
    #[prost(string, tag = "4")]
    pub op_type: String,
    /// The operator's domain.
    #[prost(string, tag = "7")]
    pub domain: String,
    /// Tells functions of one name apart.
    #[prost(string, tag = "8")]
    pub overload: String,
    /// Attributes by name.
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<AttributeProto>,
}

/// A named attribute; `r#type` says which field holds it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AttributeProto {
    /// The name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// In a function: the attribute of the call that it stands for.
    #[prost(string, tag = "21")]
    pub ref_attr_name: String,
    /// Which field holds the value.
    #[prost(int32, tag = "20")]
    pub r#type: i32,
    /// A float.
    #[prost(float, optional, tag = "2")]
    pub f: Option<f32>,
    /// An integer.
    #[prost(int64, optional, tag = "3")]
    pub i: Option<i64>,
    /// A string.
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub s: Option<Bytes>,
    /// A tensor.
    #[prost(message, optional, tag = "5")]
    pub t: Option<TensorProto>,
    /// A graph.
    #[prost(message, optional, tag = "6")]
    pub g: Option<GraphProto>,
    /// A sparse tensor.
    #[prost(message, optional, tag = "22")]
    pub sparse_tensor: Option<SparseTensorProto>,
    /// Floats.
    #[prost(float, repeated, tag = "7")]
    pub floats: Vec<f32>,
    /// Integers.
    #[prost(int64, repeated, tag = "8")]
    pub ints: Vec<i64>,
    /// Strings.
    #[prost(bytes = "bytes", repeated, tag = "9")]
    pub strings: Vec<Bytes>,
}

/// A constant. Its elements are in `raw_data`, in the field of their type, or in another file.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TensorProto {
    /// The extents.
    #[prost(int64, repeated, tag = "1")]
    pub dims: Vec<i64>,
    /// The element type, see [`data_type`].
    #[prost(int32, tag = "2")]
    pub data_type: i32,
    /// Floats.
    #[prost(float, repeated, tag = "4")]
    pub float_data: Vec<f32>,
    /// All integers up to 32 bits, truth values, and the bits of 16-bit floats.
    #[prost(int32, repeated, tag = "5")]
    pub int32_data: Vec<i32>,
    /// Strings.
    #[prost(bytes = "bytes", repeated, tag = "6")]
    pub string_data: Vec<Bytes>,
    /// 64-bit integers.
    #[prost(int64, repeated, tag = "7")]
    pub int64_data: Vec<i64>,
    /// The name.
    #[prost(string, tag = "8")]
    pub name: String,
    /// The elements, little endian.
    #[prost(bytes = "bytes", optional, tag = "9")]
    pub raw_data: Option<Bytes>,
    /// Doubles.
    #[prost(double, repeated, tag = "10")]
    pub double_data: Vec<f64>,
    /// Unsigned integers of 32 and 64 bits.
    #[prost(uint64, repeated, tag = "11")]
    pub uint64_data: Vec<u64>,
    /// Where the elements are in another file: `location`, `offset`, `length`.
    #[prost(message, repeated, tag = "13")]
    pub external_data: Vec<StringStringEntryProto>,
    /// 1 if the elements are in another file.
    #[prost(int32, tag = "14")]
    pub data_location: i32,
}

/// A sparse constant: values and where they go.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SparseTensorProto {
    /// The values that are not zero.
    #[prost(message, optional, tag = "1")]
    pub values: Option<TensorProto>,
    /// Their positions: flat `[count]`, or `[count, rank]`.
    #[prost(message, optional, tag = "2")]
    pub indices: Option<TensorProto>,
    /// The extents.
    #[prost(int64, repeated, tag = "3")]
    pub dims: Vec<i64>,
}

/// A key and a value.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StringStringEntryProto {
    /// The key.
    #[prost(string, tag = "1")]
    pub key: String,
    /// The value.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// A named value and its type.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ValueInfoProto {
    /// The name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The type.
    #[prost(message, optional, tag = "2")]
    pub r#type: Option<TypeProto>,
}

/// A type; only dense tensors can be imported, so that all others are an absent `tensor_type`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TypeProto {
    /// A dense tensor.
    #[prost(message, optional, tag = "1")]
    pub tensor_type: Option<TensorTypeProto>,
}

/// The type of a dense tensor.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TensorTypeProto {
    /// The element type.
    #[prost(int32, tag = "1")]
    pub elem_type: i32,
    /// The shape, if it has a known rank.
    #[prost(message, optional, tag = "2")]
    pub shape: Option<TensorShapeProto>,
}

/// Extents, known or named.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TensorShapeProto {
    /// One for each axis.
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<DimensionProto>,
}

/// An extent: a number, a name, or neither.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DimensionProto {
    /// The number.
    #[prost(int64, optional, tag = "1")]
    pub dim_value: Option<i64>,
    /// The name.
    #[prost(string, optional, tag = "2")]
    pub dim_param: Option<String>,
}

/// A function: nodes that stand for an operator.
#[derive(Clone, PartialEq, prost::Message)]
pub struct FunctionProto {
    /// The operator's name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Names of its parameters.
    #[prost(string, repeated, tag = "4")]
    pub input: Vec<String>,
    /// Names of its results.
    #[prost(string, repeated, tag = "5")]
    pub output: Vec<String>,
    /// Attributes with a default.
    #[prost(message, repeated, tag = "11")]
    pub attribute_proto: Vec<AttributeProto>,
    /// The nodes.
    #[prost(message, repeated, tag = "7")]
    pub node: Vec<NodeProto>,
    /// Operator sets the nodes are written for.
    #[prost(message, repeated, tag = "9")]
    pub opset_import: Vec<OperatorSetIdProto>,
    /// The operator's domain.
    #[prost(string, tag = "10")]
    pub domain: String,
    /// Tells functions of one name apart.
    #[prost(string, tag = "13")]
    pub overload: String,
}

/// Values of [`AttributeProto::type`](AttributeProto).
#[allow(missing_docs)]
pub mod attribute_type {
    pub const FLOAT: i32 = 1;
    pub const INT: i32 = 2;
    pub const STRING: i32 = 3;
    pub const TENSOR: i32 = 4;
    pub const GRAPH: i32 = 5;
    pub const FLOATS: i32 = 6;
    pub const INTS: i32 = 7;
    pub const STRINGS: i32 = 8;
    pub const SPARSE_TENSOR: i32 = 11;
}

/// Values of [`TensorProto::data_type`](TensorProto).
#[allow(missing_docs)]
pub mod data_type {
    pub const FLOAT: i32 = 1;
    pub const UINT8: i32 = 2;
    pub const INT8: i32 = 3;
    pub const UINT16: i32 = 4;
    pub const INT16: i32 = 5;
    pub const INT32: i32 = 6;
    pub const INT64: i32 = 7;
    pub const STRING: i32 = 8;
    pub const BOOL: i32 = 9;
    pub const FLOAT16: i32 = 10;
    pub const DOUBLE: i32 = 11;
    pub const UINT32: i32 = 12;
    pub const UINT64: i32 = 13;
    pub const BFLOAT16: i32 = 16;
}
