"""Triton kernels of the microbenchmarks, one to a file, each with the function that launches it.

They compile for compute capability 8.0 and later, and run in Triton's interpreter on a CPU.
"""
