//! What a cost model sees of a program, as formulas of its symbolic loop nest.
