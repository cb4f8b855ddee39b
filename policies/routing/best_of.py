"""Random tie-breaking shared by routers that pick the best score."""

from collections.abc import Sequence

import numpy as np


def random_best(scores: Sequence[float], rng: np.random.Generator) -> int:
    """Index of the largest score, of several one at random (a draw only then).

    Args:
        scores: one value per instance, not empty.
        rng: draws among ties.
    """
    best = max(scores)
    tied = [i for i, score in enumerate(scores) if score == best]
    return tied[0] if len(tied) == 1 else tied[int(rng.random() * len(tied))]
