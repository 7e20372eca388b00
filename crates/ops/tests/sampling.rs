//! Random operators: they verify, respect their bound, and reach every family and feature.

use std::collections::BTreeSet;

use talweg_ir::verify::verify_dag;
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
