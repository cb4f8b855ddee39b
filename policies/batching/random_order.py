"""A random order, drawn anew in every step."""

from collections.abc import Iterable
from typing import ClassVar, Literal

import numpy as np

from sim.interfaces import BatchPolicy, InstanceView
from sim.operations import OperationCounts
from sim.request import Request
from sim.rng import stream


class RandomOrder(BatchPolicy):
    """All orders of the queue are equally likely, whatever the one before was.

    A request that does not fit is therefore tried again only when it is drawn first again: the
    queue has no head that blocks it.

    Args:
        seed: the run's seed; draws come from its streams "batching.random.0" and so on, one per
            instance.

    Source: SGLang `schedule_policy.py`, policy `random`; docs/policies/random.md.
    """

    decides: ClassVar[Literal["every_step", "on_change"]] = "every_step"

    operations: OperationCounts

    def __init__(self, seed: int = 0) -> None:
        self.operations = OperationCounts()
        stream(seed, "batching.random")  # refuses a bad seed now
        self._seed = seed
        self._rng: np.random.Generator | None = None

    def candidates(self, instance: InstanceView, now_s: float) -> Iterable[Request]:
        """The queue, shuffled."""
        if self._rng is None:
            self._rng = stream(self._seed, f"batching.random.{instance.instance_id}")
        waiting = list(instance.waiting.values())
        self.operations.candidates_scanned += len(waiting)
        return [waiting[i] for i in self._rng.permutation(len(waiting)).tolist()]
