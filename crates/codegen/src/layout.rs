//! Where buffers live that the caller does not pass: the shared workspace, then each worker's scratch.

use talweg_ir::{Role, TensorId};

use crate::plan::BufferPlan;

/// Every part of the workspace starts on a cache line.
pub const ALIGNMENT: i64 = 64;

/// Where a buffer's memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The i-th pointer of the argument table.
    Argument(u32),
    /// This many bytes into the workspace.
    Shared(i64),
    /// This many bytes into the worker's scratch.
    Scratch(i64),
}

/// The place of every buffer, and the sizes that follow.
#[derive(Clone, Debug)]
pub struct Layout {
    places: Vec<Place>,
    /// Bytes all workers share.
    pub shared_bytes: i64,
    /// Bytes of each worker.
    pub scratch_bytes: i64,
}

impl Layout {
    pub fn new(buffers: &[BufferPlan]) -> Layout {
        let (mut argument, mut shared, mut scratch) = (0, 0, 0);
        let places = buffers
            .iter()
            .map(|b| {
                // Masked and partial vectors never reach beyond the last element, so no slack is needed.
                let bytes =
                    (b.elements.max(1) * b.dtype.bytes() as i64 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
                let bump = |top: &mut i64| {
                    let at = *top;
                    *top += bytes;
                    at
                };
                match b.role {
                    Role::Temp => Place::Shared(bump(&mut shared)),
                    Role::Local if b.crosses_threads => Place::Shared(bump(&mut shared)),
                    Role::Local => Place::Scratch(bump(&mut scratch)),
                    _ => {
                        argument += 1;
                        Place::Argument(argument - 1)
                    }
                }
            })
            .collect();
        Layout { places, shared_bytes: shared, scratch_bytes: scratch }
    }

    pub fn place(&self, id: TensorId) -> Place {
        self.places[id.index()]
    }
}
