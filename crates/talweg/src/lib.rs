//! Finds the fastest program for a tensor operator on this machine.
