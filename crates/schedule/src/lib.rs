//! Schedule primitives, traces, legality, and the one lowering.
