//! The operators searches are compared on.

use std::path::Path;

use talweg_ops::quality::{Named, QUALITY};

/// A convolution with its normalisation and activation, and the scores of attention.
const BLOCKS: [Named; 2] = [
    ("conv + bn + relu", "conv2d:n=1,h=28,w=28,c=128,f=128,k=3,s=1,p=1,epilogue=scale+bias+relu"),
    ("attention scores", "bmm:b=12,m=128,n=128,k=64,tb=1,epilogue=scale+residual"),
];

/// The operators of the quality bar of tuning, and two fused blocks.
pub fn operators() -> impl Iterator<Item = Named> {
    QUALITY.into_iter().chain(BLOCKS)
}

/// Whether a network is meant, by the path of its file, and not an operator.
pub fn is_network(spec: &str) -> bool {
    spec.ends_with(".onnx")
}

/// The name of an operator in reports: the one it has in the list, or its SPEC. That of a network is its file's.
pub fn name_of(spec: &str) -> &str {
    if is_network(spec) {
        return Path::new(spec).file_stem().and_then(|stem| stem.to_str()).unwrap_or(spec);
    }
    operators().find(|(_, known)| *known == spec).map_or(spec, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_operator_can_be_built_and_has_a_name_of_its_own() {
        for (name, spec) in operators() {
            let built = talweg_ops::Spec::parse(spec).map(|s| s.build().is_ok());
            assert!(matches!(built, Ok(true)), "{name}: {built:?}");
            assert_eq!(name_of(spec), name);
        }
        assert_eq!(operators().map(|o| o.0).collect::<BTreeSet<_>>().len(), operators().count());
        assert_eq!(name_of("relu:n=4"), "relu:n=4");
        assert_eq!(name_of("models/resnet50.onnx"), "resnet50");
    }
}
