//! What the features say about each store of a program: how it runs, and what it does for every byte it touches.

use serde::Serialize;
use talweg_features::{FeatureProgram, FeatureScratch, feature_names, per_store};
use talweg_ir::Nest;
use talweg_target::Target;

/// One store.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StoreSummary {
    /// What is stored to; ` +=` for the update of a reduction.
    pub store: String,
    /// Operations on numbers, over all iterations.
    pub operations: f64,
    /// Distinct bytes that it reads and writes.
    pub unique_bytes: f64,
    /// Operations for each of them.
    pub intensity: f64,
    /// Vector lanes; 1 if it is not vectorised.
    pub lanes: f64,
    /// Iterations that are written out; 1 if none.
    pub unrolled: f64,
    /// Iterations that threads share; 1 if none.
    pub parallel: f64,
}

/// The stores of a nest without knobs, in program order; none where a knob is open.
pub fn summaries(nest: &Nest, target: &Target) -> Vec<StoreSummary> {
    let Ok(program) = FeatureProgram::new(nest, &[], target) else { return Vec::new() };
    let mut values = vec![0.0f32; program.rows() * program.width()];
    program.eval_batch(&[], 1, &mut values, &mut FeatureScratch::new());
    let names = feature_names();
    let rows = values.chunks(program.width().max(1));
    let summary = |(store, row): (talweg_features::StoreFeatures, &[f32])| {
        // Features are logarithms, log2(x + 1); flags are not asked for here.
        let all = names.iter().zip(row).map(|(name, value)| (*name, f64::from(*value).exp2() - 1.0));
        let sum = |wanted: &dyn Fn(&str) -> f64| all.clone().map(|(n, v)| wanted(n) * v).sum::<f64>();
        let one = |wanted: &str| sum(&|n| if n == wanted { 1.0 } else { 0.0 }).round().max(1.0);
        let operations = sum(&|n| match n {
            "float.multiply_add" => 2.0,
            "int.multiply_add" => 2.0,
            n if n.starts_with("float.") || n.starts_with("int.") => 1.0,
            _ => 0.0,
        });
        let unique_bytes = sum(&|n| if n.ends_with(".unique_bytes") { 1.0 } else { 0.0 });
        let sign = if store.update.is_some() { " +=" } else { "" };
        StoreSummary {
            store: format!("{}{sign}", nest.buffer(store.buffer).name),
            operations,
            unique_bytes,
            intensity: operations / unique_bytes.max(1.0),
            lanes: one("vectorize.product"),
            unrolled: one("unroll.product"),
            parallel: one("parallel.product"),
        }
    };
    per_store(nest, target).into_iter().zip(rows).map(summary).collect()
}

#[cfg(test)]
mod tests {
    use talweg_ops::Spec;
    use talweg_schedule::{Schedule, Trace};
    use talweg_target::Isa;

    use super::*;

    #[test]
    fn a_product_is_described_by_its_update() {
        let dag = Spec::parse("matmul:m=64,n=64,k=32").expect("an operator").build().expect("a program");
        let steps = "split matmul j [16]\nvectorize matmul j.1\nparallel matmul i";
        let trace = Trace::parse(steps).expect("steps");
        let nest = Schedule::replay(dag, &trace).and_then(|s| s.lower()).expect("a nest");
        let all = summaries(&nest, &Target::generic(Isa::Avx512));
        let update = all.iter().find(|s| s.store == "matmul +=").expect("the update");
        assert_eq!((update.lanes, update.parallel, update.unrolled), (16.0, 64.0, 1.0));
        let expected = 2.0 * 64.0 * 64.0 * 32.0;
        assert!((update.operations / expected - 1.0).abs() < 0.01, "{update:?}");
        let bytes = 4.0 * (64.0 * 32.0 * 2.0 + 64.0 * 64.0);
        assert!((update.unique_bytes / bytes - 1.0).abs() < 0.01, "{update:?}");
    }
}
