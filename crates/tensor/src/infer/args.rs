//! Access to an operator's inputs, with errors that name the operator and the input.

use crate::element::ElementType;
use crate::error::OpError;
use crate::op::Op;
use crate::tensor::TensorType;

/// Which element types an input may have.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Number,
    Float,
    Int,
    Bool,
    /// `i32` or `i64`.
    Index,
}

impl Kind {
    fn accepts(self, element: ElementType) -> bool {
        match self {
            Kind::Number => element != ElementType::Bool,
            Kind::Float => element.is_float(),
            Kind::Int => element.is_int(),
            Kind::Bool => element == ElementType::Bool,
            Kind::Index => matches!(element, ElementType::I32 | ElementType::I64),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Number => "of a number type",
            Kind::Float => "of a floating-point type",
            Kind::Int => "of an integer type",
            Kind::Bool => "of type bool",
            Kind::Index => "of type i32 or i64",
        }
    }
}

/// An operator and the types of its inputs.
pub(super) struct Args<'a> {
    op: &'a Op,
    inputs: &'a [Option<&'a TensorType>],
}

/// The size in bytes if every partial product of the extents (zeros left out) fits the address space.
pub(crate) fn checked_bytes(ty: &TensorType) -> Option<usize> {
    let size = ty.shape.iter().try_fold(ty.element.bytes(), |size, &extent| size.checked_mul(extent.max(1)));
    size.filter(|&size| size <= isize::MAX as usize)
}

impl<'a> Args<'a> {
    /// The inputs, none of which is too large to be counted.
    pub(super) fn new(op: &'a Op, inputs: &'a [Option<&'a TensorType>]) -> Result<Args<'a>, OpError> {
        for (i, ty) in inputs.iter().enumerate() {
            if let Some(ty) = ty
                && checked_bytes(ty).is_none()
            {
                let which = format!("input {i}");
                return Err(OpError::TooLarge { op: op.name(), which, shape: ty.shape.clone() });
            }
        }
        Ok(Args { op, inputs })
    }

    /// Checks that no output is too large.
    pub(super) fn check_outputs(&self, outputs: &[TensorType]) -> Result<(), OpError> {
        match outputs.iter().position(|ty| checked_bytes(ty).is_none()) {
            None => Ok(()),
            Some(i) => Err(self.too_large(format!("output {i}"), &outputs[i].shape)),
        }
    }

    pub(super) fn too_large(&self, which: String, shape: &[usize]) -> OpError {
        OpError::TooLarge { op: self.op.name(), which, shape: shape.to_vec() }
    }

    /// Checks the number of inputs: `min` required ones, `max` at most.
    pub(super) fn arity(&self, min: usize, max: usize) -> Result<(), OpError> {
        let given = self.inputs.len() - self.inputs.iter().rev().take_while(|input| input.is_none()).count();
        if let Some(input) = self.inputs.iter().take(min).position(Option::is_none) {
            return Err(OpError::Missing { op: self.op.name(), input });
        }
        if given < min || given > max {
            let expected = match (min, max) {
                (1, 1) => "1 input".to_string(),
                (min, usize::MAX) => format!("at least {min} inputs"),
                (min, max) if min == max => format!("{min} inputs"),
                (min, max) => format!("{min} to {max} inputs"),
            };
            return Err(OpError::Arity { op: self.op.name(), expected, found: given });
        }
        Ok(())
    }

    /// The number of inputs, absent ones counted.
    pub(super) fn count(&self) -> usize {
        self.inputs.len()
    }

    /// A required input.
    pub(super) fn get(&self, input: usize) -> Result<&'a TensorType, OpError> {
        self.maybe(input).ok_or_else(|| OpError::Missing { op: self.op.name(), input })
    }

    /// An optional input.
    pub(super) fn maybe(&self, input: usize) -> Option<&'a TensorType> {
        self.inputs.get(input).copied().flatten()
    }

    /// A required input of certain element types.
    pub(super) fn kind(&self, input: usize, kind: Kind) -> Result<&'a TensorType, OpError> {
        let ty = self.get(input)?;
        self.require(input, kind.accepts(ty.element), || kind.name())?;
        Ok(ty)
    }

    /// Checks that an input, if present, has this element type.
    pub(super) fn element(&self, input: usize, element: ElementType) -> Result<(), OpError> {
        match self.maybe(input) {
            Some(ty) => self.require(input, ty.element == element, || format!("of type {element}")),
            None => Ok(()),
        }
    }

    /// Checks that an input, if present, has this shape.
    pub(super) fn shape(&self, input: usize, shape: &[usize]) -> Result<(), OpError> {
        match self.maybe(input) {
            Some(ty) => self.require(input, ty.shape == shape, || format!("of shape {shape:?}")),
            None => Ok(()),
        }
    }

    /// Checks a condition on an input.
    pub(super) fn require<S: Into<String>>(
        &self,
        input: usize,
        holds: bool,
        expected: impl FnOnce() -> S,
    ) -> Result<(), OpError> {
        if holds {
            return Ok(());
        }
        let found = self.maybe(input).map_or("absent".to_string(), TensorType::to_string);
        Err(OpError::Input { op: self.op.name(), input, expected: expected().into(), found })
    }

    /// Checks that an axis exists in an input.
    pub(super) fn axis(&self, input: usize, axis: usize) -> Result<&'a TensorType, OpError> {
        let ty = self.get(input)?;
        self.require(input, axis < ty.shape.len(), || format!("of a rank above {axis} (the axis)"))?;
        Ok(ty)
    }

    /// Checks a condition on the attributes.
    pub(super) fn ensure<S: Into<String>>(
        &self,
        holds: bool,
        what: impl FnOnce() -> S,
    ) -> Result<(), OpError> {
        if holds { Ok(()) } else { Err(self.attribute(what())) }
    }

    /// An error about the attributes.
    pub(super) fn attribute(&self, what: impl Into<String>) -> OpError {
        OpError::Attribute { op: self.op.name(), what: what.into() }
    }

    /// The error of an operator whose extents depend on the data.
    pub(super) fn data_dependent(&self) -> OpError {
        OpError::DataDependent { op: self.op.name() }
    }

    /// The shape that the given inputs broadcast to.
    pub(super) fn broadcast(&self, inputs: std::ops::Range<usize>) -> Result<Vec<usize>, OpError> {
        let mut out: Vec<usize> = Vec::new();
        for i in inputs {
            let ty = self.get(i)?;
            if ty.shape.len() > out.len() {
                out.splice(0..0, std::iter::repeat_n(1, ty.shape.len() - out.len()));
            }
            let skip = out.len() - ty.shape.len();
            let fits = out[skip..].iter().zip(&ty.shape).all(|(&a, &b)| a == b || a == 1 || b == 1);
            self.require(i, fits, || format!("of a shape that broadcasts with {out:?}"))?;
            for (extent, &other) in out[skip..].iter_mut().zip(&ty.shape) {
                if *extent == 1 {
                    *extent = other;
                }
            }
        }
        Ok(out)
    }
}

/// True if a tensor of `shape` broadcasts to `to` without changing it.
pub(super) fn broadcasts_to(shape: &[usize], to: &[usize]) -> bool {
    shape.len() <= to.len()
        && shape.iter().zip(&to[to.len() - shape.len()..]).all(|(&from, &to)| from == to || from == 1)
}
