//! Functions of two elements, and the choice between two, with broadcasting.

use super::Call;
use super::unary::Bits;
use crate::dispatch::{dispatch, dispatch_int, dispatch_raw};
use crate::element::Element;
use crate::error::OpError;
use crate::number::Number;
use crate::op::Binary;
use crate::tensor::Tensor;
use crate::walk::{Loops, broadcast_strides, zip_map};

pub(super) fn evaluate(call: &Call, binary: Binary) -> Result<Tensor, OpError> {
    let (a, b) = (call.get(0)?, call.get(1)?);
    let out = call.output();
    let shape = &out.shape;
    match binary {
        Binary::Pow => return Ok(dispatch!(a.element(), T => pow::<T>(a, b, shape))),
        Binary::BitAnd | Binary::BitOr | Binary::BitXor | Binary::ShiftLeft | Binary::ShiftRight => {
            return Ok(dispatch_int!(a.element(), T => bits::<T>(binary, a, b, shape)));
        }
        Binary::And | Binary::Or | Binary::Xor => return Ok(logical(binary, a, b, shape)),
        _ if binary.is_comparison() => {
            return Ok(dispatch!(a.element(), T => compare::<T>(binary, a, b, shape)));
        }
        _ => {}
    }
    Ok(dispatch!(a.element(), T => arithmetic::<T>(binary, a, b, shape)))
}

fn zip<T: Element, R>(a: &Tensor, b: &Tensor, shape: &[usize], f: impl Fn(T, T) -> R) -> Vec<R> {
    zip_map((&a.values::<T>(), a.shape()), (&b.values::<T>(), b.shape()), shape, f)
}

fn arithmetic<T: Number>(binary: Binary, a: &Tensor, b: &Tensor, shape: &[usize]) -> Tensor {
    let values = match binary {
        Binary::Sub => zip(a, b, shape, T::sub),
        Binary::Mul => zip(a, b, shape, T::mul),
        Binary::Div => zip(a, b, shape, T::div),
        Binary::Mod { truncated: true } => zip(a, b, shape, T::rem_trunc),
        Binary::Mod { truncated: false } => zip(a, b, shape, T::rem_floor),
        Binary::Max => zip(a, b, shape, T::maximum),
        Binary::Min => zip(a, b, shape, T::minimum),
        Binary::PRelu => zip(a, b, shape, |x: T, slope| if x < T::ZERO { x.mul(slope) } else { x }),
        _ => zip(a, b, shape, T::add),
    };
    Tensor::with_element(a.element(), shape, values)
}

fn compare<T: Element>(binary: Binary, a: &Tensor, b: &Tensor, shape: &[usize]) -> Tensor {
    let truths = match binary {
        Binary::Less => zip(a, b, shape, |x: T, y| x < y),
        Binary::LessOrEqual => zip(a, b, shape, |x: T, y| x <= y),
        Binary::Greater => zip(a, b, shape, |x: T, y| x > y),
        Binary::GreaterOrEqual => zip(a, b, shape, |x: T, y| x >= y),
        _ => zip(a, b, shape, |x: T, y| x == y),
    };
    Tensor::from_bools(shape, truths)
}

fn logical(binary: Binary, a: &Tensor, b: &Tensor, shape: &[usize]) -> Tensor {
    let truths = match binary {
        Binary::And => zip(a, b, shape, |x: u8, y| x != 0 && y != 0),
        Binary::Or => zip(a, b, shape, |x: u8, y| x != 0 || y != 0),
        _ => zip(a, b, shape, |x: u8, y| (x != 0) != (y != 0)),
    };
    Tensor::from_bools(shape, truths)
}

fn bits<T: Element + Bits>(binary: Binary, a: &Tensor, b: &Tensor, shape: &[usize]) -> Tensor {
    let values = match binary {
        Binary::BitAnd => zip(a, b, shape, <T as Bits>::and),
        Binary::BitOr => zip(a, b, shape, <T as Bits>::or),
        Binary::BitXor => zip(a, b, shape, <T as Bits>::xor),
        Binary::ShiftLeft => zip(a, b, shape, <T as Bits>::shl),
        _ => zip(a, b, shape, <T as Bits>::shr),
    };
    Tensor::with_element(a.element(), shape, values)
}

/// The base's type decides; integer exponents are exact for integer bases.
fn pow<T: Number>(a: &Tensor, b: &Tensor, shape: &[usize]) -> Tensor {
    let base = a.values::<T>();
    let base = (base.as_ref(), a.shape());
    let values = if b.element().is_float() {
        zip_map(base, (&b.to_f64(), b.shape()), shape, T::pow_float)
    } else {
        zip_map(base, (&b.to_i64(), b.shape()), shape, T::pow_int)
    };
    Tensor::with_element(a.element(), shape, values)
}

/// `condition ? a : b`.
pub(super) fn select(call: &Call) -> Result<Tensor, OpError> {
    let (condition, a, b) = (call.get(0)?, call.get(1)?, call.get(2)?);
    let out = call.output();
    let strides = [condition, a, b].map(|tensor| broadcast_strides(tensor.shape(), &out.shape));
    let loops = Loops::new(&out.shape, [&strides[0], &strides[1], &strides[2]]);
    let (n, steps) = loops.row();
    let truths = condition.values::<u8>();
    Ok(dispatch_raw!(out.element, T => {
        let (a, b) = (a.raw::<T>(), b.raw::<T>());
        let mut values = Vec::with_capacity(out.len());
        loops.for_each_row(|offsets| {
            values.extend((0..n).map(|k| {
                let at = |operand: usize| offsets[operand] as usize + k * steps[operand] as usize;
                if truths[at(0)] != 0 { a[at(1)] } else { b[at(2)] }
            }));
        });
        Tensor::with_element(out.element, out.shape.clone(), values)
    }))
}
