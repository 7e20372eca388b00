//! Which kernels are too short for several threads.

use talweg_ir::Dag;
use talweg_target::Target;

/// A loop that one thread finishes in this time is not worth waking another for: handing work over and joining again
/// takes about a microsecond, and what the other thread wrote has to come back from its cache.
const SHORT_SECONDS: f64 = 3e-6;

/// Cycles per second that are taken for granted; the rule is about the order of magnitude.
const CYCLES: f64 = 2.5e9;

/// The share of its peak that a short kernel reaches.
const SHARE_OF_PEAK: f64 = 0.25;

/// Bytes per second one core moves from its second-level cache.
const BYTES: f64 = 3e10;

/// One thread for a task that one finishes in about [`SHORT_SECONDS`], no limit for others. Tuning measures instead.
pub fn few(dag: &Dag, target: &Target) -> Option<usize> {
    let lanes = f64::from(target.isa.vector_bits()) / 32.0;
    let arithmetic = dag.arithmetic() / (lanes * 2.0 * CYCLES * SHARE_OF_PEAK);
    let bytes = |t: &talweg_ir::Tensor| {
        let elements: i64 = t.const_shape().unwrap_or_default().iter().product();
        elements as f64 * t.dtype.bytes() as f64
    };
    let moved: f64 = dag.tensors.iter().filter(|t| t.output || t.compute().is_none()).map(bytes).sum();
    (arithmetic + moved / BYTES < SHORT_SECONDS).then_some(1)
}

#[cfg(test)]
mod tests {
    use talweg_ops::Spec;
    use talweg_target::Isa;

    use super::*;

    #[test]
    fn only_short_tasks_are_kept_on_one_thread() {
        let few = |spec: &str| {
            let dag = Spec::parse(spec).expect("an operator").build().expect("a program");
            super::few(&dag, &Target::generic(Isa::Avx512))
        };
        assert_eq!(few("softmax:rows=1,n=100"), Some(1));
        assert_eq!(few("matmul:m=8,n=32,k=16"), Some(1));
        assert_eq!(few("matmul:m=256,n=256,k=256"), None);
        assert_eq!(few("softmax:rows=1000,n=1000"), None);
    }
}
