"""A real SIGINT in the middle of a simulation."""

import signal

import pytest

from policies.batching.fcfs import FCFS
from sim.interfaces import InstanceView
from sim.request import Request
from tests.engine_runs import run_engine
from tests.twin.stories import Ask, workload_of

ASKS = [Ask(float(k), 4, 5) for k in range(20)]


class Impatient(FCFS):
    """Sends Ctrl-C while it is being told of an admission, in the middle of a plan."""

    def __init__(self, times: int = 1) -> None:
        self.times = times

    def on_admit(self, instance: InstanceView, request: Request, now_s: float) -> None:
        if request.request_id == 10:
            for _ in range(self.times):
                signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("is_async", [False, True])
def test_ctrl_c_stops_between_two_events(is_async: bool) -> None:
    whole = run_engine(workload_of(ASKS), is_async=is_async)
    result = run_engine(
        workload_of(ASKS), batching=lambda _index: Impatient(), is_async=is_async, check=False
    )
    assert result.is_interrupted
    assert 0 < result.num_finished < 20
    assert result.num_finished + result.num_unfinished == 20
    done = result.requests.is_completed
    assert (result.requests.finish_s[done] == whole.requests.finish_s[done]).all()
    # The plan that was being made when the signal came was made to its end.
    assert result.requests.cached_tokens[10] == 0
    (instance,) = result.instances
    assert instance.run_column("num_steps").sum() == len(instance.step_end_s)


def test_the_handler_is_put_back_afterwards() -> None:
    before = signal.getsignal(signal.SIGINT)
    run_engine(workload_of(ASKS))
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_stops_at_once() -> None:
    result = run_engine(workload_of(ASKS), batching=lambda _index: Impatient(times=2), check=False)
    assert result.is_interrupted
    assert result.num_finished + result.num_unfinished == 20


def test_a_handler_of_somebody_else_is_left_alone() -> None:
    calls: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: calls.append(number))
    try:
        result = run_engine(workload_of(ASKS), batching=lambda _index: Impatient())
    finally:
        signal.signal(signal.SIGINT, before)
    assert calls == [signal.SIGINT]
    assert not result.is_interrupted
