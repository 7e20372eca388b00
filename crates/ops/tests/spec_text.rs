//! The text of specs: what parses, how it prints, and what errors say.

use talweg_ir::verify::verify_dag;
use talweg_ops::{Spec, operators};

fn parse(text: &str) -> Spec {
    Spec::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn error(text: &str) -> String {
    match Spec::parse(text) {
        Ok(spec) => panic!("{text} parsed as {spec}"),
        Err(e) => e.to_string(),
    }
}

/// Asserts that an error's text holds every one of `parts`.
#[track_caller]
fn check_error(text: &str, parts: &[&str]) {
    let found = error(text);
    for part in parts {
        assert!(found.contains(part), "{text}\n  says: {found}\n  lacks: {part}");
    }
}

#[test]
fn the_usual_specs_build_and_have_the_expected_shapes() {
    for (text, shape) in [
        ("matmul:m=1024,n=1024,k=1024", vec![1024, 1024]),
        ("bmm:b=12,m=128,n=128,k=64", vec![12, 128, 128]),
        ("conv2d:n=1,h=56,w=56,c=64,f=64,k=3,s=1,p=1,epilogue=bias+relu", vec![1, 56, 56, 64]),
        ("conv2d:h=224,w=224,c=3,f=64,k=7,s=2,p=3", vec![1, 112, 112, 64]),
        ("conv2d:h=9,w=9,c=8,f=12,k=3,g=4", vec![1, 7, 7, 12]),
        ("conv2d:h=9,w=11,c=8,f=12,kh=3,kw=1,pt=0,pb=2,pl=1,pr=0", vec![1, 9, 12, 12]),
        ("conv1d:w=128,c=4,f=8,k=3,dil=2", vec![1, 124, 8]),
        ("depthwise:n=1,h=112,w=112,c=32,k=3,s=1,p=1", vec![1, 112, 112, 32]),
        ("separable:n=1,h=56,w=56,c=144,f=24,k=3,s=2,p=1,middle=bias+relu6", vec![1, 28, 28, 24]),
        ("conv3d:n=1,d=8,h=28,w=28,c=64,f=64,k=3,s=1,p=1", vec![1, 8, 28, 28, 64]),
        ("conv2d_transpose:n=1,h=4,w=4,c=512,f=256,k=4,s=2,p=1", vec![1, 8, 8, 256]),
        ("conv2d_transpose:h=5,w=5,c=4,f=4,k=3,s=2,p=1,op=1", vec![1, 10, 10, 4]),
        ("conv2d_transpose:h=5,w=5,c=4,f=4,k=3,s=2,p=1", vec![1, 9, 9, 4]),
        ("softmax:rows=1536,n=128", vec![1536, 128]),
        ("layernorm:rows=128,n=768", vec![128, 768]),
        ("rmsnorm:rows=3,n=5,eps=0.001", vec![3, 5]),
        ("reduce:op=max,rows=3,n=5", vec![3]),
        ("pool2d:kind=max,h=112,w=112,c=64,k=3,s=2,p=1", vec![1, 56, 56, 64]),
        ("avgpool:h=8,w=8,c=3,k=2,s=2", vec![1, 4, 4, 3]),
        ("global_avgpool:n=2,h=7,w=7,c=9", vec![2, 9]),
        ("elementwise:n=65536,chain=add+mul+relu", vec![65536]),
    ] {
        let spec = parse(text);
        assert_eq!(spec.output_shape(), shape, "{text}");
        let dag = spec.build().expect(text);
        assert_eq!(verify_dag(&dag), Ok(()), "{text}");
        assert!(spec.flops() > 0.0 && spec.bytes() > 0.0, "{text}");
    }
}

#[test]
fn every_example_of_the_table_parses_and_verifies() {
    for operator in operators() {
        let spec = parse(operator.example);
        assert_eq!(spec.operator().name, operator.name);
        assert_eq!(verify_dag(&spec.build().expect(operator.name)), Ok(()), "{}", operator.example);
        assert!(operator.params.iter().all(|p| !p.help.is_empty()));
    }
}

#[test]
fn printing_is_canonical() {
    for (text, canonical) in [
        ("matmul:k=3,n=2,m=1", "matmul:m=1,n=2,k=3"),
        ("matmul: m = 1 , n=2,k=3,dtype=f32,epilogue=", "matmul:m=1,n=2,k=3"),
        (
            "conv2d:h=8,w=8,c=4,f=4,k=3,kh=3,kw=1,s=1,p=1,pt=1,pl=0",
            "conv2d:h=8,w=8,c=4,f=4,k=3,kw=1,p=1,pl=0",
        ),
        ("softmax:rows=2,n=3,dtype=bf16", "softmax:rows=2,n=3,dtype=bf16"),
        ("layernorm:rows=2,n=3,eps=1e-6", "layernorm:rows=2,n=3,eps=0.000001"),
        ("elementwise:n=4,chain=leaky_relu(0.2)+elu+bias", "elementwise:n=4,chain=leaky_relu(0.2)+elu+bias"),
    ] {
        let spec = parse(text);
        assert_eq!(spec.to_string(), canonical);
        assert_eq!(parse(canonical), spec);
    }
}

#[test]
fn work_and_traffic_are_counted_by_definition() {
    let close = |a: f64, b: f64| assert!((a - b).abs() <= 1e-9 * b, "{a} is not {b}");
    close(parse("matmul:m=3,n=5,k=7,epilogue=bias").flops(), 2.0 * 3.0 * 5.0 * 7.0);
    close(parse("matmul:m=3,n=5,k=7,epilogue=bias").bytes(), 4.0 * (21.0 + 35.0 + 5.0 + 15.0));
    close(parse("matmul:m=3,n=5,k=7,dtype=i8").bytes(), 21.0 + 35.0 + 4.0 * 15.0);
    close(parse("conv2d:h=6,w=6,c=8,f=4,k=3,g=2,p=1").flops(), 2.0 * 36.0 * 4.0 * 9.0 * 4.0);
    close(parse("depthwise:h=6,w=6,c=8,k=3,p=1").flops(), 2.0 * 36.0 * 8.0 * 9.0);
    close(parse("separable:h=6,w=6,c=8,f=4,k=3,p=1").flops(), 2.0 * 36.0 * 8.0 * (9.0 + 4.0));
    close(parse("conv2d_transpose:h=4,w=4,c=8,f=4,k=3,s=2,p=1").flops(), 2.0 * 16.0 * 9.0 * 8.0 * 4.0);
    close(parse("elementwise:n=10,chain=add+mul+relu").flops(), 30.0);
    close(parse("elementwise:n=10,chain=add+mul+relu").bytes(), 4.0 * 40.0);
}

#[test]
fn errors_name_the_place_and_the_remedy() {
    check_error("conv2:h=1", &["unknown operator `conv2` at column 1", "did you mean `conv2d`?", "softmax"]);
    check_error("", &["unknown operator ``", "the operators are matmul"]);
    check_error("matmul:m=1,n=2,q=3", &["matmul has no parameter `q` at column 16", "m, n, k, [tb]"]);
    check_error("conv2d:h=8,w=8,c=1,f=1,k=1,d=2", &["no parameter `d`", "[dil]"]);
    check_error("matmul:m=1", &["matmul needs `n`, `k`", "for example `matmul:m=1024"]);
    check_error("conv2d:h=8,w=8,c=1,f=1,kh=3", &["conv2d needs `k`"]);
    check_error("matmul", &["matmul needs `m`, `n`, `k`"]);
    check_error("matmul:m=1,n=2,k=3,m=4", &["`m` is given again at column 20"]);
    check_error("matmul:m=1,n=two,k=3", &["`n=two` at column 14", "not a whole number from 1 to"]);
    check_error("matmul:m=0,n=2,k=3", &["`m=0` at column 10"]);
    check_error("matmul:m=-4,n=2,k=3", &["`m=-4`", "whole number from 1"]);
    check_error("matmul:m=99999999999999999999,n=2,k=3", &["`m=99999999999999999999`"]);
    check_error("matmul:m=2000000000,n=2000000000,k=1", &["tensor `matmul`", "lower the extents"]);
    check_error("matmul:m=1,,k=3", &["`` at column 12 is not `name=value`"]);
    check_error("matmul:m=1,n", &["`n` at column 12 is not `name=value`"]);
    check_error("conv2d:h=4,w=4,c=1,f=1,k=7", &["kernel spans 7 along axis 0", "has only 4", "raise"]);
    check_error("conv2d:h=8,w=8,c=6,f=8,k=1,g=4", &["4 groups do not divide input channels = 6"]);
    check_error("conv2d:h=8,w=8,c=8,f=6,k=1,g=4", &["4 groups do not divide output channels = 6"]);
    check_error("conv2d:h=8,w=8,c=6,f=8,k=1,block=4", &["blocks of 4 do not divide input channels = 6"]);
    check_error("conv2d:h=8,w=8,c=8,f=6,k=1,block=4", &["blocks of 4 do not divide output channels = 6"]);
    check_error("depthwise:h=8,w=8,c=6,k=1,block=4", &["blocks of 4 do not divide channels = 6"]);
    check_error("conv2d:h=8,w=8,c=8,f=8,k=1,g=2,block=4", &["groups", "must be from 1 to 1"]);
    check_error(
        "matmul:m=1,n=1,k=1,epilogue=bias+rleu",
        &["unknown operation `rleu` in `epilogue` at column 34", "did you mean `relu`?", "hardswish"],
    );
    check_error("matmul:m=1,n=1,k=1,epilogue=relu(2)", &["unknown operation `relu(2)`"]);
    check_error("matmul:m=1,n=1,k=1,dtype=f64", &["`dtype=f64`", "f32, f16, bf16"]);
    check_error("matmul:m=1,n=1,k=1,dtype=i32,epilogue=gelu", &["`gelu` is not defined for i32"]);
    check_error("softmax:rows=1,n=1,dtype=i32", &["`dtype=i32`", "f32, f16, bf16"]);
    check_error("maxpool:h=8,w=8,c=1,k=2,p=2", &["padding", "lower the padding"]);
    check_error("conv2d_transpose:h=1,w=1,c=1,f=1,k=1,p=2", &["output extent along axis 0 would be -3"]);
    check_error("conv2d_transpose:h=4,w=4,c=1,f=1,k=2,s=2,op=2", &["output padding", "from 0 to 1"]);
    check_error("elementwise:n=4,chain=", &["`chain` is empty"]);
    check_error("layernorm:rows=1,n=1,eps=nan", &["`eps=nan`", "a number from 0 to 1"]);
}

#[test]
fn long_chains_stay_small() {
    let chain = vec!["gelu_tanh"; 40].join("+");
    let dag = parse(&format!("elementwise:n=4,chain={chain}")).build().expect("long chain");
    let mut nodes = 0;
    for tensor in &dag.tensors {
        if let Some(c) = tensor.compute() {
            c.body.visit(&mut |_| nodes += 1);
        }
    }
    assert!(nodes < 40 * 160, "{nodes} nodes");
    assert_eq!(verify_dag(&dag), Ok(()));
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in "[a-z0-9_]{0,8}:([a-z]{1,2}=[-0-9a-z+.()]{0,6},?){0,6}|\\PC{0,40}") {
        match Spec::parse(&text) {
            Ok(spec) => proptest::prop_assert_eq!(Spec::parse(&spec.to_string()), Ok(spec)),
            Err(e) => proptest::prop_assert!(!e.to_string().is_empty()),
        }
    }

    #[test]
    fn random_numbers_never_panic(
        op in 0usize..19,
        values in proptest::collection::vec(-1i64..70_000_000_000, 30),
    ) {
        let info = &operators()[op];
        let mut text = format!("{}:", info.name);
        for (p, v) in info.params.iter().zip(&values) {
            if matches!(p.kind, talweg_ops::spec::table::ParamKind::Int { .. }) {
                text += &format!("{}={},", p.name, if v % 3 == 0 { *v } else { v % 100 });
            }
        }
        match Spec::parse(text.trim_end_matches(',')) {
            Ok(spec) => proptest::prop_assert_eq!(Spec::parse(&spec.to_string()), Ok(spec)),
            Err(e) => proptest::prop_assert!(!e.to_string().is_empty()),
        }
    }
}
