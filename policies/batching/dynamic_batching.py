"""Batch limit from free KV memory and a feedback search on the time of a step."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from sim.errors import ConfigError
from sim.interfaces import BatchPolicy, InstanceView
from sim.operations import OperationCounts
from sim.request import Request

TPOT_SLO_S, MEMORY_RATIO, TOLERANCE = 0.1, 0.9, 0.05

WINDOW_STEPS, MIN_BATCH, MAX_BATCH, NARROW_BY, WIDEN_BY = 16, 1, 512, 16, 4
"""Steps, and requests. These constants and those above are ours: the paper's are unknown."""


class DynamicBatching(BatchPolicy):
    """First come, first served, while the batch is below a limit that is adjusted all the time.

    limit = min(memory limit, latency limit), at least 1:

    * memory: with B running requests that hold U of N blocks, B + (memory_ratio * N - U) / (U / B),
      rounded down: a further request is taken to need what a running one holds on average;
    * latency: the middle of an interval [low, high], at first [min_batch, max_batch]. After every
      `window_steps` steps planned with requests waiting, their mean duration is compared with
      `tpot_slo_s`. With the mean batch size b (rounded down), if it is longer by more than
      `tolerance`, high becomes b, but at least low + narrow_by, and low falls by widen_by; if it
      is shorter by more than `tolerance`, low becomes b, but at most high - narrow_by, and high
      rises by widen_by; else the interval becomes b - narrow_by / 2 to b + narrow_by / 2. Both
      ends stay within [min_batch, max_batch].

    Args:
        tpot_slo_s: time of a step to aim at, seconds, above 0.
        memory_ratio: share of the KV blocks to fill, above 0 and at most 1.
        tolerance: relative deviation that is let be, >= 0.
        window_steps: steps per comparison, >= 1.
        min_batch: smallest limit, requests, >= 1.
        max_batch: largest limit, requests, >= min_batch.
        narrow_by: least width of the interval, requests, >= 2.
        widen_by: requests, >= 1.

    Attributes:
        operations: what the policy did so far.

    Raises:
        ConfigError: a value is out of range.

    Source: the rule after arXiv 2503.05248 (memory-aware and SLA-constrained dynamic batching);
    how the interval moves, and all constants, are ours.
    """

    decides: ClassVar[Literal["every_step", "on_change"]] = "every_step"
    admits_in_arrival_order: ClassVar[bool] = True

    operations: OperationCounts

    def __init__(
        self,
        tpot_slo_s: float = TPOT_SLO_S,
        memory_ratio: float = MEMORY_RATIO,
        tolerance: float = TOLERANCE,
        window_steps: int = WINDOW_STEPS,
        min_batch: int = MIN_BATCH,
        max_batch: int = MAX_BATCH,
        narrow_by: int = NARROW_BY,
        widen_by: int = WIDEN_BY,
    ) -> None:
        if not 0 < tpot_slo_s < float("inf"):
            raise ConfigError(f"batching.tpot_slo_s={tpot_slo_s}: must be finite and above 0")
        if not 0 < memory_ratio <= 1:
            raise ConfigError(f"batching.memory_ratio={memory_ratio}: must be above 0, at most 1")
        if not 0 <= tolerance < float("inf"):
            raise ConfigError(f"batching.tolerance={tolerance}: must be finite and >= 0")
        least = {
            "window_steps": (window_steps, 1),
            "min_batch": (min_batch, 1),
            "max_batch": (max_batch, min_batch),
            "narrow_by": (narrow_by, 2),
            "widen_by": (widen_by, 1),
        }
        for name, (value, low) in least.items():
            if value < low:
                raise ConfigError(f"batching.{name}={value}: must be at least {low}")
        self.operations = OperationCounts()
        self._tpot_slo_s = tpot_slo_s
        self._memory_ratio = memory_ratio
        self._tolerance = tolerance
        self._window_steps = window_steps
        self._min, self._max = min_batch, max_batch
        self._narrow_by = narrow_by
        self._widen_by = widen_by
        self._low, self._high = min_batch, max_batch
        self._num_steps = 0
        self._sum_s = 0.0
        self._sum_running = 0

    @property
    def latency_limit(self) -> int:
        """Middle of the interval, requests."""
        return (self._low + self._high) // 2

    def candidates(self, instance: InstanceView, now_s: float) -> Iterator[Request]:
        """The queue from its head, up to the limit."""
        running = instance.running
        limit = max(1, min(self._memory_limit(instance), self.latency_limit))
        for request in instance.waiting.values():
            self.operations.candidates_scanned += 1
            if len(running) >= limit:
                return
            yield request

    def on_step(self, instance: InstanceView, num_running: int, duration_s: float) -> None:
        """Take a step into the window; move the interval when it is full."""
        if not instance.waiting:
            return  # such steps may pass unseen in a longer run
        self._num_steps += 1
        self._sum_s += duration_s
        self._sum_running += num_running
        if self._num_steps == self._window_steps:
            self._move(self._sum_s / self._num_steps, self._sum_running // self._num_steps)
            self._num_steps, self._sum_s, self._sum_running = 0, 0.0, 0

    def _memory_limit(self, instance: InstanceView) -> int:
        """Requests that fill the share of memory, if all hold what a running one does."""
        running, num_blocks = len(instance.running), instance.num_usable_blocks
        held = num_blocks - instance.num_free_blocks
        if not running or not held:
            return self._max
        return running + int((self._memory_ratio * num_blocks - held) * running / held)

    def _move(self, mean_s: float, size: int) -> None:
        if mean_s > self._tpot_slo_s * (1 + self._tolerance):
            high = max(size, self._low + self._narrow_by)
            low = self._low - self._widen_by
        elif mean_s < self._tpot_slo_s * (1 - self._tolerance):
            low = min(size, self._high - self._narrow_by)
            high = self._high + self._widen_by
        else:
            low, high = size - self._narrow_by // 2, size + self._narrow_by // 2
        self._low = min(max(low, self._min), self._max)
        self._high = min(max(high, self._min), self._max)
