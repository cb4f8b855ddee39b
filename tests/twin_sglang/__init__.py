"""Per-token twin of SGLang's scheduler and radix cache: the oracle of the fast engine.

Naive on purpose: every token has a slot and an identity of its own, every step and request is
looped over. It imports nothing of the engine it checks, only the data containers and the arrivals
of the other twin.
"""
