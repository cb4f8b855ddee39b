"""SGLang's guess of how much of their allowed output running requests will still generate."""

from mypy_extensions import mypyc_attr

INIT_RATIO = 0.7
"""Share of the outstanding output that is reserved at first. Source: SGLang `global_config.py`."""

MIN_RATIO_FACTOR = 0.14
"""Floor of the ratio, relative to its start. Source: SGLang `global_config.py`."""

DECAY_STEPS = 600
"""Decode steps from the start to the floor. Source: SGLang `global_config.py`."""

RETRACT_DECODE_STEPS = 20
"""Decode steps that a retraction makes room for. Source: SGLang `global_config.py`."""


@mypyc_attr(allow_interpreted_subclasses=True)
class NewTokenRatio:
    """The ratio of one instance, which falls by the same amount in every decode step.

    It is worked out from the number of steps instead of being lowered step by step, so that it does
    not depend on how steps are grouped into runs.

    Args:
        start: value when idle, in (0, 1].
        floor: smallest value that it decays to.
        decay_steps: decode steps from the start to the floor, >= 1.

    Source: SGLang `Scheduler.update_running_batch`.
    """

    __slots__ = ("_base", "_decay", "_floor", "_from_clock", "_start")

    def __init__(self, start: float, floor: float, decay_steps: int) -> None:
        self._start = self._base = start
        self._floor = floor
        self._decay = (start - floor) / decay_steps
        self._from_clock = 0

    def at(self, clock: int) -> float:
        """The ratio after `clock` decode steps of the instance."""
        steps = clock - self._from_clock
        if steps <= 0:
            return self._base
        return max(self._base - steps * self._decay, self._floor)

    def reset(self, clock: int) -> None:
        """The instance has nothing to do: start again."""
        self._base, self._from_clock = self._start, clock

    def estimate(
        self, decoded_tokens: int, max_new_tokens: int, room_tokens: int, clock: int
    ) -> None:
        """After a retraction the ratio follows from what the remaining requests have generated.

        The decode step planned now does not lower it: decay begins with the one after it.

        Args:
            decoded_tokens: output tokens of the remaining requests so far.
            max_new_tokens: output tokens they may generate altogether.
            room_tokens: output tokens that the retraction has made room for.
            clock: decode steps so far.
        """
        self._base = min(1.0, (decoded_tokens + room_tokens) / (max_new_tokens + 1))
        self._from_clock = clock + 1
