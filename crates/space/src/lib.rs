//! Schedule spaces: sketches, knobs, constraints, templates.
