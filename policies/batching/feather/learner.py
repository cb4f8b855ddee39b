"""What a learner sees, answers and is told."""

from abc import abstractmethod
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

STOP, ADD = 0, 1
"""Actions: close the batch for this step; add the candidate to it."""

NUM_ACTIONS = 2

SIZE_BINS = 11
"""Bins of the batch size, four requests each, the last one open: 40 and more."""

LOSS_BINS = 11
"""Bins of the prefix loss, -5 to 5 chunks, clipped."""

SHARING_BINS = 11
"""Bins of the waiting requests that share the prefix, four each, the last one open."""

NUM_STATES = SIZE_BINS * LOSS_BINS * SHARING_BINS

TABLE_SHAPE = (SIZE_BINS, LOSS_BINS, SHARING_BINS, NUM_ACTIONS)

MAX_LOSS = 5
"""Losses are clipped to this many chunks. Source: Feather's public code, as are all bins."""

REQUESTS_PER_BIN = 4

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class Decision(NamedTuple):
    """One decision: bin of the state (`state_of`) and action."""

    state: int
    action: int


def state_of(num_running: int, loss: int, num_sharing: int) -> int:
    """Bin of a state, in [0, NUM_STATES); row-major over (size, loss, sharing).

    Args:
        num_running: b, requests in the batch before the decision.
        loss: chunks that the shared prefix would lose.
        num_sharing: w, waiting requests that share what would be left.
    """
    size_bin = min(num_running // REQUESTS_PER_BIN, SIZE_BINS - 1)
    loss_bin = min(max(loss, -MAX_LOSS), MAX_LOSS) + MAX_LOSS
    sharing_bin = min(num_sharing // REQUESTS_PER_BIN, SHARING_BINS - 1)
    return (size_bin * LOSS_BINS + loss_bin) * SHARING_BINS + sharing_bin


class Learner(Protocol):
    """Learns from rewards whether to add a request to a batch.

    Attributes:
        counts: rewarded decisions by state and action, flat. Length NUM_STATES * NUM_ACTIONS.
        values: what the learner expects of them, in the unit of the reward. Same length.
        num_rewarded: rewarded decisions, T.
    """

    counts: list[int]
    values: list[float]
    num_rewarded: int

    @abstractmethod
    def choose(self, state: int) -> int:
        """ADD or STOP."""

    @abstractmethod
    def best(self, state: int) -> int:
        """The same without any exploration."""

    @abstractmethod
    def learn(self, decisions: list[Decision], reward: float, next_state: int) -> None:
        """Every one of `decisions`, in order, earned `reward`; `next_state` came after them."""


def empty_table() -> tuple[list[int], list[float]]:
    """Counts and values of a learner that knows nothing."""
    size = NUM_STATES * NUM_ACTIONS
    return [0] * size, [0.0] * size
