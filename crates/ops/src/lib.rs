//! The operator library: every operator as a tensor expression.
