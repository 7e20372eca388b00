//! What can go wrong between a nest and its object.

/// Why a nest could not be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodegenError {
    /// The nest still holds something that has to be decided before compiling.
    #[error("kernel `{kernel}`: {what} is not a constant; substitute the knobs before compiling")]
    NotConcrete {
        /// The nest's name.
        kernel: String,
        /// Which part.
        what: String,
    },
    /// The nest uses something this target cannot do.
    #[error("kernel `{kernel}`: {what}")]
    Unsupported {
        /// The nest's name.
        kernel: String,
        /// What, and what to do instead.
        what: String,
    },
    /// Unrolling repeats so much code that compiling it would take far too long.
    #[error("kernel `{kernel}`: more than {limit} instructions after unrolling; unroll less")]
    TooLarge {
        /// The nest's name.
        kernel: String,
        /// How many are allowed.
        limit: usize,
    },
    /// LLVM refused.
    #[error("kernel `{kernel}`: LLVM: {message}")]
    Llvm {
        /// The nest's name.
        kernel: String,
        /// What it said.
        message: String,
    },
    /// The emitter broke one of its own rules.
    #[error("kernel `{kernel}`: internal error: {what}; please report it with the nest's text")]
    Internal {
        /// The nest's name.
        kernel: String,
        /// Which rule.
        what: String,
    },
}
