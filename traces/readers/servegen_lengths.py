"""Lengths of a ServeGen client's requests: histograms per window of time."""

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sim.workload import FloatArray, IntArray
from traces.options import MAX_TOKENS, shown


@dataclass(frozen=True, slots=True)
class Histogram:
    """Token counts and their probabilities.

    Attributes:
        tokens: the counts, at least 1. Shape (k,).
        probability: shape (k,).
    """

    tokens: IntArray
    probability: FloatArray

    def sample(self, uniform: FloatArray) -> IntArray:
        """The counts at which the distribution function reaches `uniform`."""
        upper = np.cumsum(self.probability)
        # Rounding may leave the last bound below a draw.
        index = np.searchsorted(upper, uniform * upper[-1], side="right")
        drawn: IntArray = self.tokens[np.minimum(index, len(upper) - 1)]
        return drawn


@dataclass(frozen=True, slots=True)
class Lengths:
    """Histograms of a client per window of time, read when they are needed.

    Attributes:
        start_s: start of each window, growing. Shape (v,).
        texts: what the file has for each.
    """

    start_s: FloatArray
    texts: list[dict[str, Any]]
    _known: dict[tuple[int, str], Histogram | None] = field(default_factory=dict)

    def window_of(self, time_s: float) -> int:
        """The window that a time lies in; -1 before the first."""
        return int(np.searchsorted(self.start_s, time_s, side="right")) - 1

    def histogram(self, window: int, name: str) -> Histogram | None:
        """The histogram `name` of a window; None where there is none.

        Raises:
            ValueError: it is not one; says what is wrong.
        """
        if window < 0:
            return None
        if (window, name) not in self._known:
            self._known[window, name] = _histogram(self.texts[window].get(name, "{}"))
        return self._known[window, name]


def _histogram(text: Any) -> Histogram | None:
    if isinstance(text, dict):
        text = json.dumps(text).replace('"', "")
    if not isinstance(text, str) or not (text.startswith("{") and text.endswith("}")):
        raise ValueError(f"{shown(text)}: must be a text like {{34: 0.25, 35: 0.75}}")
    body = text[1:-1].strip()
    if not body:
        return None
    try:
        pairs = [tuple(map(float, pair.split(":"))) for pair in body.split(",")]
        tokens, probability = np.array(pairs, dtype=np.float64).T
    except ValueError:
        raise ValueError(f"{shown(text)}: must be a text like {{34: 0.25, 35: 0.75}}") from None
    if not ((tokens >= 0) & (tokens <= MAX_TOKENS) & (tokens % 1 == 0)).all():
        raise ValueError(f"token counts must be integers from 0 to {MAX_TOKENS:,}")
    if not (probability >= 0).all() or not 0.99 <= probability.sum() <= 1.01:
        raise ValueError("probabilities must be >= 0 and add up to 1")
    return Histogram(np.maximum(tokens.astype(np.int64), 1), probability)


def pooled(histograms: list[tuple[float, Histogram]]) -> Histogram:
    """The mixture of some histograms, each with its weight."""
    tokens = np.concatenate([histogram.tokens for _, histogram in histograms])
    parts = [weight * histogram.probability for weight, histogram in histograms]
    distinct, index = np.unique(tokens, return_inverse=True)
    weight = np.zeros(len(distinct))
    np.add.at(weight, index, np.concatenate(parts))
    return Histogram(distinct, weight / weight.sum())
