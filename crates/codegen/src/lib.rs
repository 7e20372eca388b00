//! Loop nests to machine code through LLVM.
