"""Times of a problem by device events.

Kernels are replayed as a CUDA graph behind work that keeps the device busy, so that the host is
never waited for. Cold runs start after a read of other data has emptied the L2 cache; warm ones
follow one another. Clocks and all other settings of the device stay as they are.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np
import torch

from hwmodels.microbench.errors import UnmeasurableError
from hwmodels.microbench.kernels.wait import wait
from hwmodels.microbench.problems import Problem, Workspace
from hwmodels.microbench.row_format import Measurement

_TARGET_S = 0.06
"""Time that the runs of one case should take together."""
_MIN_REPEATS, _MAX_REPEATS = 7, 40
_WARM_UPS = 3
_WAIT_STEPS = 400_000
"""A millisecond or two: time for the host to queue all runs."""


class Timer:
    """Measures problems on the current CUDA device.

    Args:
        workspace: its memory.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._number = torch.ones(1, dtype=torch.float32, device=workspace.device)
        self._stream = torch.cuda.Stream()
        wait(self._number, 1)
        self._flush = self._graph(workspace.flush)

    def times_s(self, problem: Problem) -> list[float]:
        """Seconds of single runs, shape (repeats,)."""
        if problem.how == "direct":
            times_s = self._direct(problem.run)
        else:
            times_s = self._queued(self._graph(problem.run), problem.is_cold)
        return [time_s / problem.runs_per_launch for time_s in times_s]

    def _graph(self, run: Callable[[], None]) -> Callable[[], None]:
        """The launches of `run` as one CUDA graph.

        Captured by hand: the context manager of torch collects garbage, which takes longer than
        most cases.
        """
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.stream(self._stream):
            run()  # compiles and loads what a capture must not
            torch.cuda.synchronize()
            graph.capture_begin()
            try:
                run()
            except BaseException:  # an interrupt too must not leave the stream capturing
                with suppress(RuntimeError):
                    graph.capture_end()
                raise
            graph.capture_end()
        torch.cuda.synchronize()
        replay: Callable[[], None] = graph.replay
        return replay

    def _queued(self, run: Callable[[], None], is_cold: bool) -> list[float]:
        first_s = min(self._batch(run, is_cold, _WARM_UPS))
        return self._batch(run, is_cold, num_repeats(first_s))

    def _batch(self, run: Callable[[], None], is_cold: bool, repeats: int) -> list[float]:
        events = [_events() for _ in range(repeats)]
        wait(self._number, _WAIT_STEPS)
        if not is_cold:
            run()
        for start, end in events:
            if is_cold:
                self._flush()
            start.record()
            run()
            end.record()
        return _elapsed_s(events)

    def _direct(self, run: Callable[[], None]) -> list[float]:
        """Runs on an idle device: what the host does counts."""
        times_s: list[float] = []
        repeats = _WARM_UPS
        while len(times_s) < _WARM_UPS + repeats:
            start, end = _events()
            torch.cuda.synchronize()
            start.record()
            run()
            end.record()
            times_s += _elapsed_s([(start, end)])
            if len(times_s) == _WARM_UPS:
                repeats = num_repeats(min(times_s))
        return times_s[_WARM_UPS:]


def num_repeats(run_s: float) -> int:
    """Repeats of a run that takes so long, seconds."""
    return int(min(max(_TARGET_S / max(run_s, 1e-9), _MIN_REPEATS), _MAX_REPEATS))


def summarised(
    times_s: Sequence[float], max_error: float | None, tolerance: float | None
) -> Measurement:
    """Percentiles of the times.

    Raises:
        UnmeasurableError: the runs were too short for the device's events.
    """
    p20_s, p50_s, p80_s = (float(value) for value in np.quantile(times_s, (0.2, 0.5, 0.8)))
    if p20_s <= 0:
        raise UnmeasurableError("too short for the events of the device")
    return Measurement(
        p20_s=p20_s,
        p50_s=p50_s,
        p80_s=p80_s,
        repeats=len(times_s),
        max_error=max_error,
        tolerance=tolerance,
    )


def _events() -> "tuple[torch.cuda.Event, torch.cuda.Event]":
    return torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)


def _elapsed_s(events: "Sequence[tuple[torch.cuda.Event, torch.cuda.Event]]") -> list[float]:
    torch.cuda.synchronize()
    return [start.elapsed_time(end) / 1e3 for start, end in events]
