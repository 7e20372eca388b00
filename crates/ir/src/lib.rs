//! Tensor expressions and loop nests: types, text, verifier, reference interpreter.
