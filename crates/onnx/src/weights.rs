//! Constants of a model as tensors: raw, typed, sparse and external data.

use bytes::Bytes;
use half::{bf16, f16};
use prost::Message;
use talweg_tensor::{ElementType, Tensor};

use crate::error::ImportError;
use crate::file::ExternalFiles;
use crate::proto::{SparseTensorProto, TensorProto, data_type};

/// Elements of a sparse constant, at most, when made dense.
const DENSE_LIMIT: usize = 1 << 26;

/// The element type of an ONNX data type, or the name of one that is not supported.
pub(crate) fn element_type(code: i32) -> Result<ElementType, String> {
    Ok(match code {
        data_type::FLOAT => ElementType::F32,
        data_type::DOUBLE => ElementType::F64,
        data_type::FLOAT16 => ElementType::F16,
        data_type::BFLOAT16 => ElementType::BF16,
        data_type::INT8 => ElementType::I8,
        data_type::INT16 => ElementType::I16,
        data_type::INT32 => ElementType::I32,
        data_type::INT64 => ElementType::I64,
        data_type::UINT8 => ElementType::U8,
        data_type::UINT16 => ElementType::U16,
        data_type::UINT32 => ElementType::U32,
        data_type::UINT64 => ElementType::U64,
        data_type::BOOL => ElementType::Bool,
        data_type::STRING => return Err("string".into()),
        14 => return Err("complex64".into()),
        15 => return Err("complex128".into()),
        17..=20 | 24 => return Err("8-bit float".into()),
        21 | 22 => return Err("4-bit integer".into()),
        23 => return Err("4-bit float".into()),
        25 | 26 => return Err("2-bit integer".into()),
        0 => return Err("undefined".into()),
        other => return Err(format!("unknown ({other})")),
    })
}

/// Why a constant is not a tensor: its type is unsupported, or its data is wrong.
pub(crate) enum WeightsError {
    /// The name of the element type.
    Type(String),
    /// The data is wrong.
    Import(ImportError),
}

/// The constant's value, sharing the model's bytes where they are raw.
pub(crate) fn tensor(proto: &TensorProto, files: &mut ExternalFiles) -> Result<Tensor, WeightsError> {
    let element = element_type(proto.data_type).map_err(WeightsError::Type)?;
    let shape = extents(&proto.dims, &proto.name).map_err(WeightsError::Import)?;
    let wrong =
        |reason: String| WeightsError::Import(ImportError::Weights { tensor: proto.name.clone(), reason });
    let bytes = shape
        .iter()
        .try_fold(element.bytes(), |bytes, &extent| bytes.checked_mul(extent))
        .ok_or_else(|| wrong(format!("the shape {shape:?} is too large")))?;
    if proto.data_location == 1 {
        let data = external(proto, bytes, files).map_err(WeightsError::Import)?;
        return from_raw(element, shape, data).map_err(wrong);
    }
    if let Some(raw) = &proto.raw_data {
        return from_raw(element, shape, raw.clone()).map_err(wrong);
    }
    typed(proto, element, shape).map_err(wrong)
}

/// The extents of a constant, none of them negative.
fn extents(dims: &[i64], name: &str) -> Result<Vec<usize>, ImportError> {
    dims.iter()
        .map(|&extent| {
            usize::try_from(extent).map_err(|_| ImportError::Weights {
                tensor: name.into(),
                reason: format!("the shape {dims:?} has a negative extent"),
            })
        })
        .collect()
}

fn from_raw(element: ElementType, shape: Vec<usize>, data: Bytes) -> Result<Tensor, String> {
    let data = if element == ElementType::Bool && data.iter().any(|&byte| byte > 1) {
        data.iter().map(|&byte| u8::from(byte != 0)).collect::<Vec<u8>>().into()
    } else {
        data
    };
    Tensor::from_bytes(element, shape, data).map_err(|error| error.to_string())
}

fn external(proto: &TensorProto, bytes: usize, files: &mut ExternalFiles) -> Result<Bytes, ImportError> {
    let entry = |key: &str| proto.external_data.iter().find(|e| e.key == key).map(|e| e.value.as_str());
    let location = entry("location").unwrap_or("");
    let failed = |reason: String| ImportError::ExternalData {
        tensor: proto.name.clone(),
        location: location.into(),
        reason,
    };
    let number = |key: &str| match entry(key) {
        None => Ok(None),
        Some(text) => {
            text.parse::<usize>().map(Some).map_err(|_| failed(format!("{key} `{text}` is not a number")))
        }
    };
    if location.is_empty() {
        return Err(failed("no location is given".into()));
    }
    let offset = number("offset")?.unwrap_or(0);
    let length = number("length")?;
    if let Some(length) = length.filter(|&length| length != bytes) {
        return Err(failed(format!("{length} bytes are given for a shape that takes {bytes}")));
    }
    files.part(location, offset, Some(bytes)).map_err(failed)
}

/// A tensor from the field that holds elements of its type.
fn typed(proto: &TensorProto, element: ElementType, shape: Vec<usize>) -> Result<Tensor, String> {
    let wanted: usize = shape.iter().product();
    let have = match element {
        ElementType::F32 => proto.float_data.len(),
        ElementType::F64 => proto.double_data.len(),
        ElementType::I64 => proto.int64_data.len(),
        ElementType::U32 | ElementType::U64 => proto.uint64_data.len(),
        _ => proto.int32_data.len(),
    };
    if have != wanted {
        return Err(format!("{have} elements are given for the shape {shape:?}, which takes {wanted}"));
    }
    let ints = || proto.int32_data.iter();
    Ok(match element {
        ElementType::F32 => Tensor::new(shape, proto.float_data.clone()),
        ElementType::F64 => Tensor::new(shape, proto.double_data.clone()),
        ElementType::I64 => Tensor::new(shape, proto.int64_data.clone()),
        ElementType::U64 => Tensor::new(shape, proto.uint64_data.clone()),
        ElementType::U32 => Tensor::new(shape, proto.uint64_data.iter().map(|&v| v as u32).collect()),
        ElementType::I32 => Tensor::new(shape, proto.int32_data.clone()),
        ElementType::I16 => Tensor::new(shape, ints().map(|&v| v as i16).collect()),
        ElementType::I8 => Tensor::new(shape, ints().map(|&v| v as i8).collect()),
        ElementType::U16 => Tensor::new(shape, ints().map(|&v| v as u16).collect()),
        ElementType::U8 => Tensor::new(shape, ints().map(|&v| v as u8).collect()),
        ElementType::F16 => Tensor::new(shape, ints().map(|&v| f16::from_bits(v as u16)).collect()),
        ElementType::BF16 => Tensor::new(shape, ints().map(|&v| bf16::from_bits(v as u16)).collect()),
        ElementType::Bool => Tensor::from_bools(shape, ints().map(|&v| v != 0)),
    })
}

/// A sparse constant made dense.
pub(crate) fn sparse(proto: &SparseTensorProto, files: &mut ExternalFiles) -> Result<Tensor, WeightsError> {
    let empty = TensorProto::default();
    let values_proto = proto.values.as_ref().unwrap_or(&empty);
    let name = &values_proto.name;
    let wrong = |reason: String| {
        WeightsError::Import(ImportError::Weights {
            tensor: name.clone(),
            reason: format!("sparse: {reason}"),
        })
    };
    let values = tensor(values_proto, files)?;
    let indices = match &proto.indices {
        Some(indices) => tensor(indices, files)?,
        None => Tensor::new([0], Vec::<i64>::new()),
    };
    let shape = extents(&proto.dims, name).map_err(WeightsError::Import)?;
    let len = shape
        .iter()
        .try_fold(1usize, |len, &extent| len.checked_mul(extent))
        .filter(|&len| len <= DENSE_LIMIT)
        .ok_or_else(|| wrong(format!("the shape {shape:?} is too large")))?;
    let count = values.len();
    let positions = indices.to_i64();
    let rank = shape.len();
    let width = if indices.shape().len() == 2 { rank } else { 1 };
    if indices.element() != ElementType::I64 || count.checked_mul(width) != Some(positions.len()) {
        return Err(wrong(format!("{} indices for {count} values", indices.len())));
    }
    let size = values.element().bytes();
    let mut data = vec![0u8; len * size];
    for (i, value) in values.bytes().chunks_exact(size).enumerate() {
        let position = &positions[i * width..(i + 1) * width];
        let extents: &[usize] = if width == rank { &shape } else { &[len] };
        let flat = position.iter().zip(extents).try_fold(0usize, |flat, (&index, &extent)| {
            usize::try_from(index).ok().filter(|&index| index < extent).map(|index| flat * extent + index)
        });
        let flat = flat
            .filter(|&flat| flat < len)
            .ok_or_else(|| wrong(format!("index {position:?} is outside {shape:?}")))?;
        data[flat * size..(flat + 1) * size].copy_from_slice(value);
    }
    from_raw(values.element(), shape, data.into()).map_err(wrong)
}

/// A tensor from the bytes of a `TensorProto` message, the format of ONNX's test data.
pub fn read_tensor(bytes: impl Into<Bytes>) -> Result<Tensor, ImportError> {
    let bytes: Bytes = bytes.into();
    let proto = TensorProto::decode(bytes).map_err(|error| ImportError::Malformed(error.to_string()))?;
    tensor(&proto, &mut ExternalFiles::new(None)).map_err(|error| match error {
        WeightsError::Import(error) => error,
        WeightsError::Type(name) => ImportError::Weights {
            tensor: proto.name.clone(),
            reason: format!("the element type {name} is not supported"),
        },
    })
}
