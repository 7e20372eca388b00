//! A shaped value, owned or borrowed from a mapped file.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use half::{bf16, f16};

use crate::element::{Element, ElementType};

/// The type of a value: what its elements are, and how many along each axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// The element type.
    pub element: ElementType,
    /// The extents, outermost first; empty for a scalar.
    pub shape: Vec<usize>,
}

impl TensorType {
    /// A type from its parts.
    pub fn new(element: ElementType, shape: impl Into<Vec<usize>>) -> TensorType {
        TensorType { element, shape: shape.into() }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// True when an extent is zero.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The size in bytes.
    pub fn bytes(&self) -> usize {
        self.len() * self.element.bytes()
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.element)?;
        for (i, extent) in self.shape.iter().enumerate() {
            write!(f, "{}{extent}", if i == 0 { "" } else { "," })?;
        }
        f.write_str("]")
    }
}

/// Why bytes are not a tensor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TensorError {
    /// The data does not fill the shape.
    #[error("{have} bytes given for {wanted}, which takes {}; the data is truncated or the shape is wrong", .wanted.bytes())]
    Size {
        /// Bytes given.
        have: usize,
        /// The type asked for.
        wanted: TensorType,
    },
    /// The shape's size does not fit the address space.
    #[error("the shape {0:?} is too large")]
    TooLarge(Vec<usize>),
}

/// A value: elements in row-major order. Cloning shares the data.
#[derive(Clone, PartialEq)]
pub struct Tensor {
    ty: TensorType,
    data: Bytes,
}

impl Tensor {
    /// A tensor over bytes that are in memory already (an owned vector, or a part of a mapped file), little endian.
    pub fn from_bytes(
        element: ElementType,
        shape: impl Into<Vec<usize>>,
        data: Bytes,
    ) -> Result<Tensor, TensorError> {
        let ty = TensorType::new(element, shape);
        let wanted = ty.shape.iter().try_fold(element.bytes(), |acc, &extent| acc.checked_mul(extent));
        match wanted {
            None => Err(TensorError::TooLarge(ty.shape)),
            Some(bytes) if bytes != data.len() => Err(TensorError::Size { have: data.len(), wanted: ty }),
            Some(_) => Ok(Tensor { ty, data }),
        }
    }

    /// A tensor of the given values.
    ///
    /// # Panics
    /// If the number of values is not that of the shape: a mistake of the caller, never of its input.
    pub fn new<T: Element>(shape: impl Into<Vec<usize>>, values: Vec<T>) -> Tensor {
        Tensor::with_element(T::ELEMENT, shape, values)
    }

    /// A tensor of truth values.
    ///
    /// # Panics
    /// As [`Tensor::new`].
    pub fn from_bools(shape: impl Into<Vec<usize>>, values: impl IntoIterator<Item = bool>) -> Tensor {
        let values: Vec<u8> = values.into_iter().map(u8::from).collect();
        Tensor::with_element(ElementType::Bool, shape, values)
    }

    /// A tensor whose elements are stored as `T`, which is as wide as `element`.
    ///
    /// # Panics
    /// As [`Tensor::new`].
    pub(crate) fn with_element<T: Element>(
        element: ElementType,
        shape: impl Into<Vec<usize>>,
        values: Vec<T>,
    ) -> Tensor {
        let ty = TensorType::new(element, shape);
        assert_eq!(ty.len(), values.len(), "{ty} made from {} values", values.len());
        let data = Bytes::from_owner(Owned(values));
        Tensor { ty, data }
    }

    /// A tensor of `f64` values converted to `element`.
    ///
    /// # Panics
    /// As [`Tensor::new`].
    pub fn from_f64(
        element: ElementType,
        shape: impl Into<Vec<usize>>,
        values: impl IntoIterator<Item = f64>,
    ) -> Tensor {
        fn convert<T: Element>(values: impl IntoIterator<Item = f64>) -> Vec<T> {
            values.into_iter().map(T::from_f64).collect()
        }
        match element {
            ElementType::F32 => Tensor::new(shape, convert::<f32>(values)),
            ElementType::F64 => Tensor::new(shape, convert::<f64>(values)),
            ElementType::F16 => Tensor::new(shape, convert::<f16>(values)),
            ElementType::BF16 => Tensor::new(shape, convert::<bf16>(values)),
            ElementType::I8 => Tensor::new(shape, convert::<i8>(values)),
            ElementType::I16 => Tensor::new(shape, convert::<i16>(values)),
            ElementType::I32 => Tensor::new(shape, convert::<i32>(values)),
            ElementType::I64 => Tensor::new(shape, convert::<i64>(values)),
            ElementType::U8 => Tensor::new(shape, convert::<u8>(values)),
            ElementType::U16 => Tensor::new(shape, convert::<u16>(values)),
            ElementType::U32 => Tensor::new(shape, convert::<u32>(values)),
            ElementType::U64 => Tensor::new(shape, convert::<u64>(values)),
            ElementType::Bool => Tensor::from_bools(shape, values.into_iter().map(|v| v != 0.0)),
        }
    }

    /// The type.
    pub fn ty(&self) -> &TensorType {
        &self.ty
    }

    /// The element type.
    pub fn element(&self) -> ElementType {
        self.ty.element
    }

    /// The extents.
    pub fn shape(&self) -> &[usize] {
        &self.ty.shape
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.ty.len()
    }

    /// True when there are no elements.
    pub fn is_empty(&self) -> bool {
        self.ty.is_empty()
    }

    /// The elements' bytes, row-major, little endian; not necessarily aligned to the element type.
    pub fn bytes(&self) -> &[u8] {
        &self.data
    }

    /// The elements' bytes, shared.
    pub fn data(&self) -> &Bytes {
        &self.data
    }

    /// The same data under another shape.
    ///
    /// # Panics
    /// If the number of elements differs.
    pub fn reshaped(&self, shape: impl Into<Vec<usize>>) -> Tensor {
        let ty = TensorType::new(self.ty.element, shape);
        assert_eq!(ty.len(), self.ty.len(), "{} seen as {ty}", self.ty);
        Tensor { ty, data: self.data.clone() }
    }

    /// The elements as a slice, copied only if the data is not aligned. Truth values are read as `u8`.
    ///
    /// # Panics
    /// If `T` is not the element type.
    pub fn values<T: Element>(&self) -> Cow<'_, [T]> {
        let stored = if self.ty.element == ElementType::Bool { ElementType::U8 } else { self.ty.element };
        assert_eq!(T::ELEMENT, stored, "{} read as {}", self.ty, T::ELEMENT);
        self.raw()
    }

    /// The elements read as another type of the same width, copied only if the data is not aligned.
    pub(crate) fn raw<T: Element>(&self) -> Cow<'_, [T]> {
        match bytemuck::try_cast_slice(&self.data) {
            Ok(slice) => Cow::Borrowed(slice),
            Err(_) => {
                Cow::Owned(self.data.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect())
            }
        }
    }

    /// The elements as `f64`, whatever their type.
    pub fn to_f64(&self) -> Vec<f64> {
        fn convert<T: Element>(tensor: &Tensor) -> Vec<f64> {
            tensor.values::<T>().iter().map(|v| v.to_f64()).collect()
        }
        match self.ty.element {
            ElementType::F32 => convert::<f32>(self),
            ElementType::F64 => convert::<f64>(self),
            ElementType::F16 => convert::<f16>(self),
            ElementType::BF16 => convert::<bf16>(self),
            ElementType::I8 => convert::<i8>(self),
            ElementType::I16 => convert::<i16>(self),
            ElementType::I32 => convert::<i32>(self),
            ElementType::I64 => convert::<i64>(self),
            ElementType::U8 | ElementType::Bool => convert::<u8>(self),
            ElementType::U16 => convert::<u16>(self),
            ElementType::U32 => convert::<u32>(self),
            ElementType::U64 => convert::<u64>(self),
        }
    }

    /// The elements as `i64`: exact for integers, truncated for floats.
    pub fn to_i64(&self) -> Vec<i64> {
        match self.ty.element {
            ElementType::I64 => self.values::<i64>().into_owned(),
            ElementType::U64 => self.values::<u64>().iter().map(|&v| v as i64).collect(),
            _ => self.to_f64().into_iter().map(|v| v as i64).collect(),
        }
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.ty)?;
        if self.len() <= 16 { write!(f, " {:?}", self.to_f64()) } else { f.write_str(" ...") }
    }
}

/// A vector whose memory [`Bytes`] refers to, so that a tensor made from it keeps its alignment.
struct Owned<T>(Vec<T>);

impl<T: Element> AsRef<[u8]> for Owned<T> {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_unaligned_data() {
        let mut raw = vec![0u8];
        for v in [1.5f32, -2.0, 3.25] {
            raw.extend(v.to_le_bytes());
        }
        let tensor = Tensor::from_bytes(ElementType::F32, [3], Bytes::from(raw).slice(1..)).unwrap();
        assert_eq!(tensor.values::<f32>().as_ref(), [1.5, -2.0, 3.25]);
        assert_eq!(tensor.to_i64(), [1, -2, 3]);
    }

    #[test]
    fn wrong_sizes_are_errors() {
        let short = Tensor::from_bytes(ElementType::I64, [2, 3], Bytes::from_static(&[0; 40])).unwrap_err();
        assert_eq!(
            short.to_string(),
            "40 bytes given for i64[2,3], which takes 48; the data is truncated or the shape is wrong"
        );
        let huge = Tensor::from_bytes(ElementType::I64, [usize::MAX, 3], Bytes::new()).unwrap_err();
        assert!(matches!(huge, TensorError::TooLarge(_)));
    }

    #[test]
    fn conversions_keep_every_type() {
        for element in ElementType::ALL {
            let tensor = Tensor::from_f64(element, [3], [0.0, 1.0, 1.0]);
            assert_eq!(tensor.element(), element);
            assert_eq!(tensor.to_f64(), [0.0, 1.0, 1.0]);
        }
    }
}
