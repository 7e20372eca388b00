//! How fast a task could be on this machine: its arithmetic at the measured peak, its bytes at the measured bandwidth.

use serde::Serialize;
use talweg_ir::Dag;
use talweg_target::{LevelBandwidth, measure_bandwidth, measure_peak};

/// What this machine was measured to do.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Operations a second of all threads together.
    pub peak: f64,
    /// Bandwidth of one thread, nearest level first.
    pub levels: Vec<LevelBandwidth>,
}

impl Machine {
    /// Measures the peak of so many threads, and the bandwidths.
    pub fn measure(threads: usize) -> Machine {
        Machine { peak: measure_peak(threads) * 1e9, levels: measure_bandwidth() }
    }

    /// The nearest level that holds this many bytes, or memory, with its bytes a second.
    pub fn bandwidth(&self, bytes: f64) -> (&str, f64) {
        let holds = |level: &&LevelBandwidth| level.bytes as f64 >= bytes;
        let level = self.levels.iter().find(holds).or(self.levels.last());
        level.map_or(("memory", 1e10), |level| (level.level.as_str(), level.read_gbs * 1e9))
    }
}

/// What limits a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// Its operations take longer than its bytes.
    Arithmetic,
    /// Its bytes take longer than its operations.
    Bandwidth,
}

/// A task under the roofline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Roofline {
    /// Operations.
    pub flops: f64,
    /// Bytes that must move: inputs, constants and outputs once.
    pub bytes: f64,
    /// Operations a byte.
    pub intensity: f64,
    /// Operations a second that the machine can do.
    pub peak: f64,
    /// The cache level that holds the bytes.
    pub level: String,
    /// Its bytes a second.
    pub bandwidth: f64,
    /// The intensity above which arithmetic is the limit.
    pub balance: f64,
    /// Which of both is the limit.
    pub bound: Bound,
    /// The least time: that of the limit.
    pub seconds: f64,
}

impl Roofline {
    /// The roofline of a task on a machine.
    pub fn of(dag: &Dag, machine: &Machine) -> Roofline {
        let (flops, bytes) = (dag.arithmetic(), dag.moved_bytes());
        let (level, bandwidth) = machine.bandwidth(bytes);
        let (compute, memory) = (flops / machine.peak, bytes / bandwidth);
        Roofline {
            flops,
            bytes,
            intensity: flops / bytes.max(1.0),
            peak: machine.peak,
            level: level.to_string(),
            bandwidth,
            balance: machine.peak / bandwidth,
            bound: if compute >= memory { Bound::Arithmetic } else { Bound::Bandwidth },
            seconds: compute.max(memory),
        }
    }
}

#[cfg(test)]
mod tests {
    use talweg_ops::Spec;

    use super::*;

    fn machine() -> Machine {
        let level = |level: &str, bytes, gbs| LevelBandwidth {
            level: level.into(),
            bytes,
            read_gbs: gbs,
            write_gbs: gbs,
            copy_gbs: gbs,
        };
        Machine { peak: 1e11, levels: vec![level("L1", 1 << 15, 100.0), level("DRAM", 1 << 28, 10.0)] }
    }

    fn roofline(spec: &str) -> Roofline {
        Roofline::of(&Spec::parse(spec).expect("an operator").build().expect("a program"), &machine())
    }

    #[test]
    fn products_are_bound_by_arithmetic_and_chains_by_bandwidth() {
        let product = roofline("matmul:m=256,n=256,k=256");
        assert_eq!(product.bound, Bound::Arithmetic);
        assert_eq!(product.flops, 2.0 * 256f64.powi(3));
        assert_eq!(product.bytes, 3.0 * 4.0 * 65536.0);
        assert_eq!(product.level, "DRAM");
        assert!(product.intensity > product.balance);
        assert_eq!(product.seconds, product.flops / 1e11);
        let chain = roofline("elementwise:n=1048576,chain=relu");
        assert_eq!(chain.bound, Bound::Bandwidth);
        assert_eq!(chain.seconds, chain.bytes / 1e10);
    }

    #[test]
    fn small_sets_have_the_bandwidth_of_the_level_that_holds_them() {
        assert_eq!(machine().bandwidth(1000.0), ("L1", 1e11));
        assert_eq!(machine().bandwidth(1e12), ("DRAM", 1e10));
    }
}
