"""Arithmetic on a block of numbers: numpy, torch and Triton, and the number of BLAS threads."""
