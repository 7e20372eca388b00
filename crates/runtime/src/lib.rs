//! Thread pool, kernel loading and C ABI; what ships to production, without LLVM.
