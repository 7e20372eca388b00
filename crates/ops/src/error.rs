//! What can be wrong with the shapes and types an operator is given.

use talweg_ir::DType;

/// An operator that cannot be built, with the reason and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpError {
    /// A tensor has the wrong number of axes.
    #[error("{operator}: `{tensor}` has {found} axes where {expected} are needed; reshape it first")]
    Rank {
        /// Who complains.
        operator: &'static str,
        /// The tensor's name.
        tensor: String,
        /// How many axes the operator needs.
        expected: usize,
        /// How many there are.
        found: usize,
    },
    /// Two extents that must agree do not.
    #[error(
        "{operator}: {what} is {found} in `{tensor}` but must be {expected}; change the shape of `{tensor}`"
    )]
    Extent {
        /// Who complains.
        operator: &'static str,
        /// The tensor's name.
        tensor: String,
        /// Which extent.
        what: String,
        /// What it must be.
        expected: i64,
        /// What it is.
        found: i64,
    },
    /// A number lies outside its range.
    #[error("{operator}: {what} is {found} but must be from {min} to {max}; choose a value in that range")]
    Range {
        /// Who complains.
        operator: &'static str,
        /// Which number.
        what: String,
        /// What it is.
        found: i64,
        /// Smallest allowed.
        min: i64,
        /// Largest allowed.
        max: i64,
    },
    /// The window does not fit into the input, padding included.
    #[error(
        "{operator}: the kernel spans {kernel} along axis {axis} but the padded input has only {padded}; \
         lower the kernel or the dilation, or raise the input extent or the padding"
    )]
    KernelTooLarge {
        /// Who complains.
        operator: &'static str,
        /// Which spatial axis, counted from 0.
        axis: usize,
        /// Extent of the dilated kernel.
        kernel: i64,
        /// Extent of the input with its padding.
        padded: i64,
    },
    /// A pooling window could lie in the padding altogether.
    #[error(
        "{operator}: {padding} elements of padding along axis {axis} are not fewer than the {kernel} the window spans, \
         so a window could hold padding only; lower the padding or raise the kernel"
    )]
    PaddingTooLarge {
        /// Who complains.
        operator: &'static str,
        /// Which spatial axis, counted from 0.
        axis: usize,
        /// Elements of padding on one side.
        padding: i64,
        /// Extent of the dilated kernel.
        kernel: i64,
    },
    /// A transposed convolution whose padding removes everything.
    #[error(
        "{operator}: the output extent along axis {axis} would be {extent}; lower the padding or raise the input extent \
         or the kernel"
    )]
    EmptyOutput {
        /// Who complains.
        operator: &'static str,
        /// Which spatial axis, counted from 0.
        axis: usize,
        /// The extent that came out.
        extent: i64,
    },
    /// Channels cannot be split into equal groups.
    #[error(
        "{operator}: {groups} groups do not divide {what} = {extent}; choose a number of groups that divides both the \
         input and the output channels"
    )]
    Groups {
        /// Who complains.
        operator: &'static str,
        /// The number of groups.
        groups: i64,
        /// Which channels.
        what: &'static str,
        /// How many channels.
        extent: i64,
    },
    /// Channels cannot be split into equal blocks.
    #[error(
        "{operator}: blocks of {block} do not divide {what} = {extent}; choose a block that does, or 0 for channels last"
    )]
    Block {
        /// Who complains.
        operator: &'static str,
        /// Channels of a block.
        block: i64,
        /// Which channels.
        what: &'static str,
        /// How many channels.
        extent: i64,
    },
    /// The operator has no meaning for the element type.
    #[error("{operator} is not defined for {dtype}; use {accepted}")]
    Type {
        /// Who complains.
        operator: String,
        /// The type given.
        dtype: DType,
        /// The types accepted, in words.
        accepted: &'static str,
    },
    /// Two shapes cannot be broadcast together.
    #[error(
        "{operator}: shapes {left:?} and {right:?} do not broadcast; aligned from the last axis, extents must be equal \
         or 1"
    )]
    Broadcast {
        /// Who complains.
        operator: &'static str,
        /// First shape.
        left: Vec<i64>,
        /// Second shape.
        right: Vec<i64>,
    },
    /// A chain step lacks its second operand, or has one it does not use.
    #[error("step `{step}` {problem}")]
    Operand {
        /// The step's name.
        step: String,
        /// What is wrong and what to do.
        problem: &'static str,
    },
    /// The shape still holds knobs.
    #[error("{operator}: the shape of `{tensor}` is not constant; substitute its knobs first")]
    Symbolic {
        /// Who complains.
        operator: &'static str,
        /// The tensor's name.
        tensor: String,
    },
    /// A tensor would have too many elements.
    #[error("tensor `{tensor}` with shape {shape:?} has more than {limit} elements; lower the extents")]
    TooLarge {
        /// The tensor's name.
        tensor: String,
        /// Its shape.
        shape: Vec<i64>,
        /// Most elements allowed.
        limit: i64,
    },
}
