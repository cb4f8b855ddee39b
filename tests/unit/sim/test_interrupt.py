"""Ctrl-C stops a run wherever it comes: the records are those of what was complete by then."""

import signal
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from policies.batching.fcfs import FCFS
from sim.interfaces import InstanceView
from sim.interrupts import RaisingHandler
from sim.request import Request
from tests.engine_runs import run_engine, token_steps
from tests.twin.stories import Ask, workload_of


class CtrlC(FCFS):
    """The user presses Ctrl-C while a hook runs."""

    def __init__(self, hook: str, after: int) -> None:
        self.hook = hook
        self.left = after

    def count(self, hook: str) -> None:
        if hook == self.hook:
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt

    def candidates(self, instance: InstanceView, now_s: float) -> Iterable[Request]:
        self.count("candidates")
        return super().candidates(instance, now_s)

    def on_arrival(self, instance: InstanceView, request: Request, now_s: float) -> None:
        self.count("on_arrival")

    def on_admit(self, instance: InstanceView, request: Request, now_s: float) -> None:
        self.count("on_admit")

    def on_finish(self, instance: InstanceView, request: Request, now_s: float) -> None:
        self.count("on_finish")

    def on_step(self, instance: InstanceView, num_running: int, duration_s: float) -> None:
        self.count("on_step")


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("after", [0, 1, 2, 5])
@pytest.mark.parametrize("hook", ["candidates", "on_arrival", "on_admit", "on_finish", "on_step"])
def test_an_interrupted_run_returns_consistent_records(
    hook: str, after: int, is_async: bool
) -> None:
    asks = [Ask(0.5 * k, 8, 1 + k % 4) for k in range(16)]
    workload = workload_of([*asks, Ask(9, 4000, 1)])
    options: dict[str, Any] = {"usable_blocks": 8, "is_async": is_async, "macro_steps": False}
    result = run_engine(workload, batching=lambda _index: CtrlC(hook, after), **options)
    assert result.is_interrupted
    assert result.num_finished + result.num_rejected + result.num_unfinished == 17
    assert result.num_finished < 16
    whole = run_engine(workload, **options)
    done = result.requests.is_completed
    assert result.requests.finish_s[done].tolist() == whole.requests.finish_s[done].tolist()
    assert (result.requests.finish_s[done] <= result.end_s).all()
    for found, expected in zip(token_steps(result), token_steps(whole), strict=True):
        assert found == expected[: len(found)]


def test_a_run_that_was_not_interrupted_says_so() -> None:
    assert not run_engine(workload_of([Ask(0, 4, 3)])).is_interrupted


class Pressing(FCFS):
    """The user presses Ctrl-C so many times while the first request is looked at."""

    def __init__(self, times: int) -> None:
        self.times = times

    def candidates(self, instance: InstanceView, now_s: float) -> Iterable[Request]:
        for _ in range(self.times):
            signal.raise_signal(signal.SIGINT)
        return super().candidates(instance, now_s)


def raising(_number: int, _frame: Any) -> None:
    raise KeyboardInterrupt("of the handler")


@pytest.fixture(params=["of Python", "of ours"])
def handler(request: pytest.FixtureRequest) -> Iterator[Any]:
    """What handles Ctrl-C outside of a simulation."""
    found: Any = signal.default_int_handler
    found = found if request.param == "of Python" else RaisingHandler(raising)
    old = signal.signal(signal.SIGINT, found)
    yield found
    signal.signal(signal.SIGINT, old)


@pytest.mark.parametrize("times", [1, 2, 5])
def test_ctrl_c_waits_for_the_end_of_an_event_however_often_it_comes(
    handler: Any, times: int
) -> None:
    workload = workload_of([Ask(0.5 * k, 8, 4) for k in range(9)])
    result = run_engine(workload, batching=lambda _index: Pressing(times))
    assert result.is_interrupted
    assert result.num_finished == 0
    assert signal.getsignal(signal.SIGINT) is handler


def test_ctrl_c_that_comes_again_later_does_not_wait(
    handler: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sim.interrupts.PATIENCE_S", -1.0)
    message = "^of the handler$" if isinstance(handler, RaisingHandler) else "^$"
    with pytest.raises(KeyboardInterrupt, match=message):
        run_engine(workload_of([Ask(0, 8, 4)]), batching=lambda _index: Pressing(2))
    assert signal.getsignal(signal.SIGINT) is handler


def test_whoever_else_handles_ctrl_c_is_asked_alone() -> None:
    seen: list[int] = []
    old = signal.signal(signal.SIGINT, lambda number, _frame: seen.append(number))
    try:
        workload = workload_of([Ask(0, 8, 4)])
        assert not run_engine(workload, batching=lambda _index: Pressing(1)).is_interrupted
    finally:
        signal.signal(signal.SIGINT, old)
    assert set(seen) == {signal.SIGINT}
