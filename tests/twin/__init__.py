"""Per-block twin of vLLM v1's scheduler and block pool: the oracle of the fast engine.

Naive on purpose: one queue entry per KV block, one loop iteration per step and request. It imports
nothing of the engine it checks, only the data containers (`sim.workload`, `sim.prefix_tree`).
"""
