"""An instance with asynchronous scheduling: a step is planned while its predecessor executes.

Finishes and arrivals take effect one step later than in `sim.instance`. An idle instance plans two
steps at once; if nothing can be planned while a step is in flight, planning starts afresh when it
ends.

Source: vLLM v1 `EngineCore.step_with_batch_queue` and `async_scheduler.py` (0.14, its default).
"""

from bisect import bisect_left
from typing import Any

from sim.instance import Instance
from sim.step_clock import STEP_END, Call


class AsyncInstance(Instance):
    """`Instance` that plans one step ahead.

    Args:
        args: as `InstanceState`.
        kwargs: as `InstanceState`.
    """

    __slots__ = ("_completed", "_completed_at_wake")

    lag = 1

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._completed = 0
        self._completed_at_wake = 0

    def steps_completed(self) -> int:
        """Steps that had ended at the last event of the instance."""
        return self._completed

    def _cut_run(self, now_s: float) -> None:
        first = self.batch.step
        last = first + self._run_steps
        boundary = bisect_left(self.step_ends.view, now_s, self._completed, last)
        num_steps = boundary + 1 + self.lag - first
        if num_steps < self._run_steps:
            self._run_steps = num_steps
            self._wake_after(boundary + 1)

    def _wake_after(self, num_steps: int) -> None:
        """Plan again when `num_steps` steps of the instance have ended."""
        self._completed_at_wake = num_steps
        self._wake_at(self.step_ends.view[num_steps - 1], STEP_END)

    def _on_wake(self, call: Call) -> None:
        if call is not self._wake:
            return
        now_s = self._wake_s
        if self._run_steps:
            self._commit_run()
        self._completed = completed = self._completed_at_wake
        if self.zombies:
            done = [r for r in self.zombies if r.finish_step <= completed]
            self.zombies = [r for r in self.zombies if r.finish_step > completed]
            self._release(done, now_s)
        self._start_run(now_s)

    def _start_run(self, now_s: float) -> None:
        batch = self.batch
        while True:
            num_steps = self._plan_step(self, now_s)
            if not num_steps:
                break
            step = batch.step
            is_drained = step == self._completed
            start_s = now_s if is_drained else self.step_ends.view[step - 1]
            self._price_run(num_steps, start_s)
            planned = step + num_steps
            if planned - self.lag > self._completed:
                self._wake_after(planned - self.lag)
                return
            self._commit_run()
        if batch.step > self._completed:
            self._wake_after(batch.step)
        else:
            self.is_idle = True
