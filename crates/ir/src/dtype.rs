//! Element types.

use std::fmt;
use std::str::FromStr;

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// 32-bit float.
    F32,
    /// 16-bit IEEE float. Computed in f32, rounded when stored or cast.
    F16,
    /// 16-bit brain float. Computed in f32, rounded when stored or cast.
    BF16,
    /// 8-bit signed integer; integer arithmetic wraps at the type's width.
    I8,
    /// 8-bit unsigned integer.
    U8,
    /// 32-bit signed integer.
    I32,
    /// 64-bit signed integer.
    I64,
    /// Truth value, one byte holding 0 or 1.
    Bool,
}

impl DType {
    /// All element types.
    pub const ALL: [DType; 8] =
        [DType::F32, DType::F16, DType::BF16, DType::I8, DType::U8, DType::I32, DType::I64, DType::Bool];

    /// Size of one element in bytes.
    pub fn bytes(self) -> usize {
        match self {
            DType::F32 | DType::I32 => 4,
            DType::F16 | DType::BF16 => 2,
            DType::I8 | DType::U8 | DType::Bool => 1,
            DType::I64 => 8,
        }
    }

    /// True for the floating-point types.
    pub fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F16 | DType::BF16)
    }

    /// True for the integer types; `Bool` is neither.
    pub fn is_int(self) -> bool {
        matches!(self, DType::I8 | DType::U8 | DType::I32 | DType::I64)
    }

    /// The name used in text.
    pub fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::I8 => "i8",
            DType::U8 => "u8",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::Bool => "bool",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DType {
    type Err = UnknownDType;
    fn from_str(text: &str) -> Result<DType, UnknownDType> {
        DType::ALL.into_iter().find(|d| d.name() == text).ok_or_else(|| UnknownDType(text.to_string()))
    }
}

/// A name that is no element type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown element type `{0}`; the types are f32, f16, bf16, i8, u8, i32, i64, bool")]
pub struct UnknownDType(pub String);
