//! How much there is to do, as far as no schedule can do without it.

use talweg_ops::Spec;

fn multiply_adds(spec: &str) -> f64 {
    Spec::parse(spec).and_then(|spec| spec.build()).expect("an operator").multiply_adds()
}

#[test]
fn multiply_adds_are_those_of_sums_of_products() {
    assert_eq!(multiply_adds("matmul:m=4,n=5,k=6"), 120.0);
    assert_eq!(multiply_adds("matmul:m=4,n=5,k=6,epilogue=bias+gelu"), 120.0);
    assert_eq!(multiply_adds("bmm:b=2,m=4,n=5,k=6"), 240.0);
    assert_eq!(multiply_adds("depthwise:n=1,h=4,w=4,c=8,k=1,s=1"), 128.0);
    assert_eq!(multiply_adds("softmax:rows=3,n=8"), 0.0);
}
