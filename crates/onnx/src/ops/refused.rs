//! Operators that are known and refused, each with its reason.

use super::{Entry, entry};
use crate::call::{Call, Outputs};
use crate::error::Failure;

pub(super) const ENTRIES: &[Entry] = &[
    entry("Bernoulli", 1, random),
    entry("Multinomial", 1, random),
    entry("RandomNormal", 1, random),
    entry("RandomNormalLike", 1, random),
    entry("RandomUniform", 1, random),
    entry("RandomUniformLike", 1, random),
    entry("ConcatFromSequence", 1, sequence),
    entry("Optional", 1, sequence),
    entry("OptionalGetElement", 1, sequence),
    entry("OptionalHasElement", 1, sequence),
    entry("SequenceAt", 1, sequence),
    entry("SequenceConstruct", 1, sequence),
    entry("SequenceEmpty", 1, sequence),
    entry("SequenceErase", 1, sequence),
    entry("SequenceInsert", 1, sequence),
    entry("SequenceLength", 1, sequence),
    entry("SequenceMap", 1, sequence),
    entry("SplitToSequence", 1, sequence),
    entry("RegexFullMatch", 1, string),
    entry("StringConcat", 1, string),
    entry("StringNormalizer", 1, string),
    entry("StringSplit", 1, string),
    entry("TfIdfVectorizer", 1, string),
    entry("ImageDecoder", 1, image),
];

fn random(_: &mut Call) -> Outputs {
    Err(Failure::unsupported(
        "its result is random, so that it cannot be verified",
        "make the random values an input of the model",
    ))
}

fn sequence(_: &mut Call) -> Outputs {
    Err(Failure::unsupported(
        "sequences and optional values are not supported",
        "export the model with tensors only (stack what the sequence holds)",
    ))
}

fn string(_: &mut Call) -> Outputs {
    Err(Failure::unsupported("strings are not supported", "process text before the model"))
}

fn image(_: &mut Call) -> Outputs {
    Err(Failure::unsupported("images are not decoded", "decode images before the model"))
}
