"""Microbenchmarks that measure a GPU for the cost models.

Runs from a bare checkout as `python -m hwmodels.microbench`. Imports nothing of flocksim: only
torch, triton, numpy and the standard library; cases, plans and rows do without torch and triton.
"""
