"""Instances of a closed loop, which are also looked at after the step ends of an instant.

An arrival comes before the step ends of its instant, so an instance in the middle of a run counts
those as still to come. A follow-up comes after them: what plain stepping has planned anew by then,
a longer run must count as ended.
"""

from math import inf, nextafter

from sim.checked_instance import CheckedInstance
from sim.instance import Instance


class LoopedInstance(Instance):
    """An instance that can receive follow-ups."""

    __slots__ = ()

    def steps_planned_by(self, time_s: float) -> int:
        """Steps of the current run that are planned when somebody looks at `time_s`."""
        return super().steps_planned_by(self._look_s(time_s))

    def look_s(self) -> float:
        """A time before which lie the steps that have ended when somebody looks now."""
        return self._look_s(self._clock.now)

    def _cut_run(self, now_s: float) -> None:
        super()._cut_run(self._look_s(now_s))

    def _look_s(self, time_s: float) -> float:
        """A time before which lie the steps that have ended when somebody looks at `time_s`."""
        return nextafter(time_s, inf) if self._clock.is_past_steps else time_s


class CheckedLoopedInstance(LoopedInstance, CheckedInstance):
    """The same under `check=true`."""
