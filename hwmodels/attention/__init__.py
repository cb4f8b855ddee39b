"""Attention as the simulator prices it, step by step: which kernel runs, and what it reads.

The forms are those of `hwmodels.kernels`; here they are plain Python with their constants worked
out once, for the middle of a simulation, and arrays over many steps for the accounts at its end.
"""
