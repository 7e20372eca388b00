//! The element types a network may have.

use half::{bf16, f16};
use serde::{Deserialize, Serialize};

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum ElementType {
    F32,
    F64,
    F16,
    BF16,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    /// One byte, 0 or 1.
    Bool,
}

impl ElementType {
    /// Every element type, for tables and tests.
    pub const ALL: [ElementType; 13] = [
        ElementType::F32,
        ElementType::F64,
        ElementType::F16,
        ElementType::BF16,
        ElementType::I8,
        ElementType::I16,
        ElementType::I32,
        ElementType::I64,
        ElementType::U8,
        ElementType::U16,
        ElementType::U32,
        ElementType::U64,
        ElementType::Bool,
    ];

    /// The size of one element.
    pub fn bytes(self) -> usize {
        match self {
            ElementType::I8 | ElementType::U8 | ElementType::Bool => 1,
            ElementType::F16 | ElementType::BF16 | ElementType::I16 | ElementType::U16 => 2,
            ElementType::F32 | ElementType::I32 | ElementType::U32 => 4,
            ElementType::F64 | ElementType::I64 | ElementType::U64 => 8,
        }
    }

    /// True for floating-point types.
    pub fn is_float(self) -> bool {
        matches!(self, ElementType::F32 | ElementType::F64 | ElementType::F16 | ElementType::BF16)
    }

    /// True for signed and unsigned integers, without `Bool`.
    pub fn is_int(self) -> bool {
        !self.is_float() && self != ElementType::Bool
    }

    /// The name used in messages and text, `f32` for example.
    pub fn name(self) -> &'static str {
        match self {
            ElementType::F32 => "f32",
            ElementType::F64 => "f64",
            ElementType::F16 => "f16",
            ElementType::BF16 => "bf16",
            ElementType::I8 => "i8",
            ElementType::I16 => "i16",
            ElementType::I32 => "i32",
            ElementType::I64 => "i64",
            ElementType::U8 => "u8",
            ElementType::U16 => "u16",
            ElementType::U32 => "u32",
            ElementType::U64 => "u64",
            ElementType::Bool => "bool",
        }
    }
}

impl std::fmt::Display for ElementType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A Rust type that is stored as the elements of a tensor. Truth values are stored as `u8`; see
/// [`Element::ELEMENT`] of the type and [`ElementType::Bool`].
pub trait Element: bytemuck::Pod + PartialOrd + Send + Sync {
    /// The element type a tensor made from this Rust type has.
    const ELEMENT: ElementType;
    /// The value as `f64`, rounded for large 64-bit integers.
    fn to_f64(self) -> f64;
    /// The nearest value of this type; floats to integers truncate towards zero and saturate.
    fn from_f64(value: f64) -> Self;
}

macro_rules! elements {
    ($($type:ty => $element:ident),*) => {$(
        impl Element for $type {
            const ELEMENT: ElementType = ElementType::$element;
            fn to_f64(self) -> f64 {
                self as f64
            }
            fn from_f64(value: f64) -> Self {
                value as $type
            }
        }
    )*};
}
elements!(f32 => F32, f64 => F64, i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64);

impl Element for f16 {
    const ELEMENT: ElementType = ElementType::F16;
    fn to_f64(self) -> f64 {
        f16::to_f64(self)
    }
    fn from_f64(value: f64) -> Self {
        f16::from_f64(value)
    }
}

impl Element for bf16 {
    const ELEMENT: ElementType = ElementType::BF16;
    fn to_f64(self) -> f64 {
        bf16::to_f64(self)
    }
    fn from_f64(value: f64) -> Self {
        bf16::from_f64(value)
    }
}
