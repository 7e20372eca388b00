//! The operators that the quality of tuning is judged on.

/// An operator's name for people, and its SPEC.
pub type Named = (&'static str, &'static str);

/// Matrix products, convolutions of all kinds, and rows: shapes of well-known networks.
pub const QUALITY: [Named; 17] = [
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
    ("depthwise 96x112x112 stride 2", "depthwise:n=1,h=112,w=112,c=96,k=3,s=2,p=1"),
    ("depthwise 384x14x14", "depthwise:n=1,h=14,w=14,c=384,k=3,s=1,p=1"),
    ("conv3d", "conv3d:n=1,d=8,h=28,w=28,c=64,f=64,k=3,s=1,p=1"),
    ("transposed conv", "conv2d_transpose:n=1,h=4,w=4,c=512,f=256,k=4,s=2,p=1"),
    ("softmax", "softmax:rows=1536,n=128"),
    ("layer norm", "layernorm:rows=128,n=768"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Spec;

    #[test]
    fn every_one_can_be_built() {
        for (name, spec) in QUALITY {
            let built = Spec::parse(spec).map(|s| s.build().is_ok());
            assert!(matches!(built, Ok(true)), "{name}: {built:?}");
        }
    }
}
