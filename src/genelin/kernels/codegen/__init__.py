"""SIMD loops written in LLVM: vectors in registers, and the row loops made of them."""
