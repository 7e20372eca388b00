//! Hash-consed integer and real expressions over knobs and loop variables.
