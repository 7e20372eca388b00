//! Random operators: they verify, respect their bound, and reach every family and feature.

use std::collections::BTreeSet;

use talweg_ir::verify::verify_dag;
use talweg_ir::{Array, Dag, TensorId, eval_dag};
use talweg_ops::Spec;
use talweg_ops::testing::sample_spec;

const SAMPLES: u64 = 2000;

#[test]
fn samples_verify_and_print() {
    for seed in 0..SAMPLES {
        let spec = sample_spec(seed, 4096);
        let dag = spec.build().expect("a sampled spec builds");
        if let Err(found) = verify_dag(&dag) {
            panic!("{spec} (seed {seed}): {}", found[0]);
        }
        assert_eq!(Spec::parse(&spec.to_string()), Ok(spec.clone()), "{spec}");
        assert_eq!(Dag::parse(&dag.to_string()).as_ref(), Ok(&dag), "{spec}");
        for tensor in &dag.tensors {
            let elements: i64 = tensor.const_shape().expect("constant").iter().product();
            assert!((1..=4096).contains(&elements), "{spec}: `{}` has {elements}", tensor.name);
        }
        assert_eq!(sample_spec(seed, 4096), spec);
    }
}

#[test]
fn samples_reach_every_family_and_feature() {
    let texts: Vec<String> = (0..SAMPLES).map(|seed| sample_spec(seed, 4096).to_string()).collect();
    let families: BTreeSet<&str> = texts.iter().filter_map(|t| t.split(':').next()).collect();
    for family in [
        "matmul",
        "bmm",
        "conv1d",
        "conv2d",
        "conv3d",
        "depthwise",
        "separable",
        "conv1d_transpose",
        "conv2d_transpose",
        "conv3d_transpose",
        "pool1d",
        "pool2d",
        "pool3d",
        "global_avgpool",
        "softmax",
        "layernorm",
        "rmsnorm",
        "reduce",
        "elementwise",
    ] {
        assert!(families.contains(family), "no {family} among {SAMPLES} samples");
    }
    for feature in [
        ",s=2",
        ",s=3",
        ",dil=2",
        ",block=",
        ",fblock=",
        ",g=3",
        ",pl=",
        ",kw=",
        "dtype=i32",
        "gelu",
        "residual",
        "bias",
        "guarded",
        "count_include_pad=1",
        "rhs=input",
        "tb=1",
    ] {
        assert!(texts.iter().any(|t| t.contains(feature)), "no `{feature}` among {SAMPLES} samples");
    }
}

#[test]
fn a_tiny_bound_still_gives_an_operator() {
    for seed in 0..50 {
        let spec = sample_spec(seed, 1);
        assert_eq!(spec.output_shape().iter().product::<i64>(), 1, "{spec}");
    }
}

#[test]
fn samples_evaluate_to_finite_numbers() {
    for seed in 0..SAMPLES / 8 {
        let spec = sample_spec(seed, 512);
        let dag = spec.build().expect("a sampled spec builds");
        let given: Vec<(TensorId, Array)> = dag
            .ids()
            .filter(|id| dag.tensor(*id).compute().is_none())
            .map(|id| {
                let t = dag.tensor(id);
                let shape: Vec<usize> =
                    t.const_shape().expect("constant").iter().map(|e| *e as usize).collect();
                (id, Array::random(t.dtype, &shape, seed + u64::from(id.0)))
            })
            .collect();
        let outputs = eval_dag(&dag, &given).unwrap_or_else(|e| panic!("{spec}: {e}"));
        let (_, out) = &outputs[0];
        assert_eq!(out.len() as i64, spec.output_shape().iter().product::<i64>(), "{spec}");
        // A dilated pooling window may see padding only: minus infinity, or the smallest integer.
        let pooled = spec.to_string().starts_with("pool");
        for at in 0..out.len() {
            assert!(pooled || out.get_f64(at).is_finite(), "{spec}: element {at} is {}", out.get_f64(at));
        }
    }
}
