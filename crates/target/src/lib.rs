//! What a machine can do, and probing this one.
