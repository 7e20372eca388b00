//! From an element type known at run time to a Rust type.

/// Evaluates `body` with `$T` standing for the Rust type that elements are stored as; `Bool` is `u8`.
macro_rules! dispatch {
    ($element:expr, $T:ident => $body:expr) => {
        match $element {
            $crate::ElementType::F16 => {
                type $T = half::f16;
                $body
            }
            $crate::ElementType::BF16 => {
                type $T = half::bf16;
                $body
            }
            $crate::ElementType::F32 => {
                type $T = f32;
                $body
            }
            $crate::ElementType::F64 => {
                type $T = f64;
                $body
            }
            other => $crate::dispatch::dispatch_int!(other, $T => $body),
        }
    };
}

/// As [`dispatch`] for floating-point types; `$other` is the value for all others.
macro_rules! dispatch_float {
    ($element:expr, $T:ident => $body:expr, else $other:expr) => {
        match $element {
            $crate::ElementType::F16 => {
                type $T = half::f16;
                $body
            }
            $crate::ElementType::BF16 => {
                type $T = half::bf16;
                $body
            }
            $crate::ElementType::F32 => {
                type $T = f32;
                $body
            }
            $crate::ElementType::F64 => {
                type $T = f64;
                $body
            }
            _ => $other,
        }
    };
}

/// As [`dispatch`] for integers and `Bool`; everything else counts as `u8`, so that callers look at floats first.
macro_rules! dispatch_int {
    ($element:expr, $T:ident => $body:expr) => {
        match $element {
            $crate::ElementType::I8 => {
                type $T = i8;
                $body
            }
            $crate::ElementType::I16 => {
                type $T = i16;
                $body
            }
            $crate::ElementType::I32 => {
                type $T = i32;
                $body
            }
            $crate::ElementType::I64 => {
                type $T = i64;
                $body
            }
            $crate::ElementType::U16 => {
                type $T = u16;
                $body
            }
            $crate::ElementType::U32 => {
                type $T = u32;
                $body
            }
            $crate::ElementType::U64 => {
                type $T = u64;
                $body
            }
            _ => {
                type $T = u8;
                $body
            }
        }
    };
}

/// Evaluates `body` with `$T` standing for an unsigned integer as wide as the elements: for moving them unchanged.
macro_rules! dispatch_raw {
    ($element:expr, $T:ident => $body:expr) => {
        match $element.bytes() {
            1 => {
                type $T = u8;
                $body
            }
            2 => {
                type $T = u16;
                $body
            }
            4 => {
                type $T = u32;
                $body
            }
            _ => {
                type $T = u64;
                $body
            }
        }
    };
}

pub(crate) use {dispatch, dispatch_float, dispatch_int, dispatch_raw};
