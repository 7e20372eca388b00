//! Templates written against a configuration space (AutoTVM).
