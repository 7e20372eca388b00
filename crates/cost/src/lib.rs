//! Cost models: train and predict on matrices, without knowing any IR.
