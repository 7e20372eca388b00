//! Functions of elements, with broadcasting.

use super::args::{Args, Kind};
use crate::element::ElementType;
use crate::error::OpError;
use crate::op::{Binary, Unary};
use crate::tensor::TensorType;

pub(super) fn unary(args: &Args, unary: Unary) -> Result<TensorType, OpError> {
    args.arity(1, 1)?;
    let x = match unary {
        Unary::Identity => args.get(0)?,
        Unary::Not => args.kind(0, Kind::Bool)?,
        Unary::BitNot => args.kind(0, Kind::Int)?,
        Unary::Abs | Unary::Neg | Unary::Sign | Unary::Relu | Unary::Clip { .. } | Unary::Shrink { .. } => {
            args.kind(0, Kind::Number)?
        }
        _ => args.kind(0, Kind::Float)?,
    };
    let element = match unary {
        Unary::IsNan | Unary::IsInf { .. } => ElementType::Bool,
        _ => x.element,
    };
    Ok(TensorType::new(element, x.shape.clone()))
}

pub(super) fn binary(args: &Args, binary: Binary) -> Result<TensorType, OpError> {
    args.arity(2, 2)?;
    let a = match binary {
        Binary::And | Binary::Or | Binary::Xor => args.kind(0, Kind::Bool)?,
        Binary::BitAnd | Binary::BitOr | Binary::BitXor | Binary::ShiftLeft | Binary::ShiftRight => {
            args.kind(0, Kind::Int)?
        }
        Binary::Equal => args.get(0)?,
        _ => args.kind(0, Kind::Number)?,
    };
    if binary == Binary::Pow {
        args.kind(1, Kind::Number)?;
    } else {
        args.element(1, a.element)?;
    }
    let shape = args.broadcast(0..2)?;
    if binary == Binary::PRelu {
        args.require(1, shape == a.shape, || format!("of a shape that broadcasts to {:?}", a.shape))?;
    }
    let element = if binary.is_comparison() { ElementType::Bool } else { a.element };
    Ok(TensorType::new(element, shape))
}

pub(super) fn select(args: &Args) -> Result<TensorType, OpError> {
    args.arity(3, 3)?;
    args.kind(0, Kind::Bool)?;
    let element = args.get(1)?.element;
    args.element(2, element)?;
    Ok(TensorType::new(element, args.broadcast(0..3)?))
}

pub(super) fn cast(args: &Args, to: ElementType) -> Result<TensorType, OpError> {
    args.arity(1, 1)?;
    Ok(TensorType::new(to, args.get(0)?.shape.clone()))
}
