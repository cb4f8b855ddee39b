"""What other simulators reach on the reference load.

Measured on one 2-core machine without a GPU, one run per cell (differences under about 15 % are
noise), where SimPy did 1.14 M timeouts per second. Simulated requests per second, 16 instances.
"""

SIMPY_PER_S = 1.14e6

PEERS = (
    ("NVIDIA aisimulate 0.13 (Rust core)", 11_590, 12_740),
    ("BLIS inference-sim 0.7.15 (Go, oracle signals)", 4_150, 4_150),
    ("splitwise-sim (Python)", 832, 849),
    ("Vidur (Python)", 422, 428),
    ("BLIS inference-sim 0.7.15 (Go, its defaults)", 274, 236),
    ("Frontier (Python, dummy predictor)", 40, None),
)
"""(name and version, at 10 thousand requests, at 100 thousand)."""
