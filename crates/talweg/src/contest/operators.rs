//! The operators searches are compared on.

/// An operator and the name people know it by.
pub type Named = (&'static str, &'static str);

/// The operators of the quality bar of tuning, a convolution with its normalisation and activation, and the scores of
/// attention.
pub const OPERATORS: [Named; 19] = [
    ("matmul 512", "matmul:m=512,n=512,k=512"),
    ("matmul 1024", "matmul:m=1024,n=1024,k=1024"),
    ("matmul 128x768x3072", "matmul:m=128,n=3072,k=768"),
    ("bmm", "bmm:b=12,m=128,n=128,k=64"),
    ("conv 3x3 64x56x56", "conv2d:n=1,h=56,w=56,c=64,f=64,k=3,s=1,p=1"),
    ("conv 3x3 128x28x28", "conv2d:n=1,h=28,w=28,c=128,f=128,k=3,s=1,p=1"),
    ("conv 3x3 256x14x14", "conv2d:n=1,h=14,w=14,c=256,f=256,k=3,s=1,p=1"),
    ("conv 3x3 512x7x7", "conv2d:n=1,h=7,w=7,c=512,f=512,k=3,s=1,p=1"),
    ("pointwise 64->256", "conv2d:n=1,h=56,w=56,c=64,f=256,k=1,s=1,p=0"),
    ("conv 7x7 stride 2", "conv2d:n=1,h=224,w=224,c=3,f=64,k=7,s=2,p=3"),
    ("depthwise 32x112x112", "depthwise:n=1,h=112,w=112,c=32,k=3,s=1,p=1"),
    ("depthwise 96x112x112 s2", "depthwise:n=1,h=112,w=112,c=96,k=3,s=2,p=1"),
    ("depthwise 384x14x14", "depthwise:n=1,h=14,w=14,c=384,k=3,s=1,p=1"),
    ("conv3d", "conv3d:n=1,d=8,h=28,w=28,c=64,f=64,k=3,s=1,p=1"),
    ("transposed conv", "conv2d_transpose:n=1,h=4,w=4,c=512,f=256,k=4,s=2,p=1"),
    ("softmax", "softmax:rows=1536,n=128"),
    ("layer norm", "layernorm:rows=128,n=768"),
    ("conv + bn + relu", "conv2d:n=1,h=28,w=28,c=128,f=128,k=3,s=1,p=1,epilogue=scale+bias+relu"),
    ("attention scores", "bmm:b=12,m=128,n=128,k=64,tb=1,epilogue=scale+residual"),
];

/// The name of an operator in reports: the one it has in the list, or its SPEC.
pub fn name_of(spec: &str) -> &str {
    OPERATORS.iter().find(|(_, known)| *known == spec).map_or(spec, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_operator_can_be_built_and_has_a_name_of_its_own() {
        for (name, spec) in OPERATORS {
            let built = talweg_ops::Spec::parse(spec).map(|s| s.build().is_ok());
            assert!(matches!(built, Ok(true)), "{name}: {built:?}");
            assert_eq!(name_of(spec), name);
        }
        assert_eq!(OPERATORS.map(|o| o.0).into_iter().collect::<BTreeSet<_>>().len(), OPERATORS.len());
        assert_eq!(name_of("relu:n=4"), "relu:n=4");
    }
}
