//! What the features of a store are called, in order.

/// Ansor's features of one store.
const ANSOR_WIDTH: usize = 164;

/// Features of one store.
pub const STORE_WIDTH: usize = ANSOR_WIDTH + DEMAND.len();

/// Buffers described for one store.
pub const BUFFERS: usize = 5;

/// Features of one buffer of a store.
pub const BUFFER_WIDTH: usize = 18;

/// Samples of the arithmetic intensity.
pub const INTENSITY_WIDTH: usize = 10;

macro_rules! annotation {
    ($prefix:literal) => {
        [
            concat!($prefix, ".loops"),
            concat!($prefix, ".product"),
            concat!($prefix, ".innermost"),
            concat!($prefix, ".none"),
            concat!($prefix, ".inner_space"),
            concat!($prefix, ".middle_space"),
            concat!($prefix, ".outer_space"),
            concat!($prefix, ".inner_reduce"),
            concat!($prefix, ".middle_reduce"),
            concat!($prefix, ".outer_reduce"),
            concat!($prefix, ".mixed"),
        ]
    };
}

macro_rules! buffer {
    ($prefix:literal) => {
        [
            concat!($prefix, ".read"),
            concat!($prefix, ".write"),
            concat!($prefix, ".read_write"),
            concat!($prefix, ".bytes"),
            concat!($prefix, ".unique_bytes"),
            concat!($prefix, ".lines"),
            concat!($prefix, ".unique_lines"),
            concat!($prefix, ".reuse_by_loop"),
            concat!($prefix, ".reuse_by_statement"),
            concat!($prefix, ".reuse_none"),
            concat!($prefix, ".reuse_iterations"),
            concat!($prefix, ".reuse_bytes"),
            concat!($prefix, ".reuse_count"),
            concat!($prefix, ".bytes_per_reuse"),
            concat!($prefix, ".unique_bytes_per_reuse"),
            concat!($prefix, ".lines_per_reuse"),
            concat!($prefix, ".unique_lines_per_reuse"),
            concat!($prefix, ".stride"),
        ]
    };
}

const OPS: [&str; 16] = [
    "float.multiply_add",
    "float.add_sub",
    "float.mul",
    "float.div_mod",
    "float.compare",
    "float.math",
    "float.other",
    "int.multiply_add",
    "int.add_sub",
    "int.mul",
    "int.div_mod",
    "int.compare",
    "int.math",
    "int.other",
    "bool",
    "select",
];

const GPU: [&str; 8] =
    ["gpu", "block.x", "block.y", "block.z", "thread.x", "thread.y", "thread.z", "vthread"];

const INTENSITY: [&str; INTENSITY_WIDTH] = [
    "intensity.10",
    "intensity.20",
    "intensity.30",
    "intensity.40",
    "intensity.50",
    "intensity.60",
    "intensity.70",
    "intensity.80",
    "intensity.90",
    "intensity.100",
];

const ALLOCATION: [&str; 4] = ["alloc.bytes", "alloc.elements_by_outer", "alloc.outer", "alloc.inner"];

const OUTER: [&str; 3] = ["outer.product", "outer.loops", "outer.unrolled_body"];

const DEMAND: [&str; 13] = [
    "demand.instructions",
    "demand.lanes",
    "demand.accumulators",
    "demand.loads",
    "demand.loads_each",
    "demand.l1_misses",
    "demand.l2_misses",
    "demand.l2_traffic",
    "demand.balance",
    "demand.grain",
    "demand.slots",
    "demand.cycles",
    "demand.program",
];

/// The names of the features of a store, in the order of their vector.
pub fn feature_names() -> [&'static str; STORE_WIDTH] {
    let annotations = [annotation!("vectorize"), annotation!("unroll"), annotation!("parallel")];
    let buffers = [buffer!("b0"), buffer!("b1"), buffer!("b2"), buffer!("b3"), buffer!("b4")];
    let all = OPS
        .into_iter()
        .chain(annotations.into_iter().flatten())
        .chain(GPU)
        .chain(buffers.into_iter().flatten())
        .chain(INTENSITY)
        .chain(ALLOCATION)
        .chain(OUTER)
        .chain(DEMAND);
    let mut out = [""; STORE_WIDTH];
    out.iter_mut().zip(all).for_each(|(to, name)| *to = name);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_has_a_name_of_its_own() {
        let names = feature_names();
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), STORE_WIDTH);
        assert!(!names.contains(&""));
        assert_eq!(OPS.len() + 33 + GPU.len(), 57);
        assert_eq!(names[57], "b0.read");
        assert_eq!(names[ANSOR_WIDTH - 1], "outer.unrolled_body");
    }
}
