"""Attention as the simulator prices it, step by step: which kernel runs, and what it reads.

The forms are those of `hwmodels.kernels`; here they are plain Python with their constants worked
out once, for the middle of a simulation, and arrays over many steps for the accounts at its end.
"""

from sim.compiled import search_path

COMPILED = (
    "cascade_rule",
    "decode_steps",
    "flash",
    "l2_reads",
    "oblivious",
    "packed_pricer",
    "prefill_pricer",
    "pricer",
    "tree_log",
    "unsplit_runs",
)
"""Modules that `flocksim-compile` translates."""

__path__ = search_path(__name__, __path__)
