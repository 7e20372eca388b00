//! The operators of ONNX, one file for each family, and the list of all of them.

mod attention;
mod binary;
mod constants;
mod conv;
mod gather;
mod loss;
mod matmul;
mod movement;
mod norm;
mod pad;
mod pool;
mod quantize;
mod recurrent;
mod reduce;
mod refused;
mod resize;
mod scatter;
mod search;
mod sequence;
mod signal;
mod slice;
mod softmax;
mod space;
mod unary;
mod windows;

use crate::call::{Call, Outputs};

/// An operator: its name, the first operator set whose meaning is known, and what translates it.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) since: i64,
    pub(crate) translate: fn(&mut Call) -> Outputs,
}

/// All families.
const FAMILIES: &[&[Entry]] = &[
    attention::ENTRIES,
    binary::ENTRIES,
    constants::ENTRIES,
    conv::ENTRIES,
    gather::ENTRIES,
    loss::ENTRIES,
    matmul::ENTRIES,
    movement::ENTRIES,
    norm::ENTRIES,
    pad::ENTRIES,
    pool::ENTRIES,
    quantize::ENTRIES,
    recurrent::ENTRIES,
    reduce::ENTRIES,
    refused::ENTRIES,
    resize::ENTRIES,
    scatter::ENTRIES,
    search::ENTRIES,
    sequence::ENTRIES,
    signal::ENTRIES,
    slice::ENTRIES,
    softmax::ENTRIES,
    space::ENTRIES,
    unary::ENTRIES,
];

/// One line of a family's list.
pub(super) const fn entry(name: &'static str, since: i64, translate: fn(&mut Call) -> Outputs) -> Entry {
    Entry { name, since, translate }
}

/// The operator of a name.
pub(crate) fn find(name: &str) -> Option<Entry> {
    FAMILIES.iter().flat_map(|family| family.iter()).find(|entry| entry.name == name).copied()
}
