"""Calls at absolute times, in a stated order at equal times."""

from functools import partial

import numpy as np
import pytest
import simpy

from sim.step_clock import ARRIVAL, IDLE_WAKE, STEP_END, TRANSFER, StepClock


def test_a_call_comes_at_its_exact_time() -> None:
    clock = StepClock()
    times = [float(t) for t in np.add.accumulate([0.1] * 30)]
    seen: list[float] = []
    for time_s in reversed(times):
        clock.call_at(time_s, STEP_END, lambda _key: seen.append(clock.now))
    clock.run_calls()
    assert seen == times


def test_at_equal_time_the_order_decides_and_then_who_asked_first() -> None:
    clock = StepClock()
    seen: list[str] = []

    def note_name(name: str, _key: int) -> None:
        seen.append(name)

    for order, name in [
        (IDLE_WAKE, "idle"),
        (STEP_END, "end 1"),
        (ARRIVAL, "arrival 1"),
        (TRANSFER, "transfer"),
        (STEP_END, "end 2"),
        (ARRIVAL, "arrival 2"),
    ]:
        clock.call_at(1.0, order, partial(note_name, name))
    clock.run_calls()
    assert seen == ["arrival 1", "arrival 2", "transfer", "end 1", "end 2", "idle"]


def test_a_receiver_gets_the_key_of_its_call() -> None:
    clock = StepClock()
    seen: list[int] = []
    later = clock.call_at(1.0, ARRIVAL, seen.append)
    sooner = clock.call_at(0.5, ARRIVAL, seen.append)
    clock.run_calls()
    assert seen == [sooner, later]


def test_a_call_made_by_a_receiver_for_the_same_instant_is_served_in_it() -> None:
    clock = StepClock()
    seen: list[str] = []

    def arrive(_key: int) -> None:
        clock.call_at(1.0, IDLE_WAKE, lambda _key: seen.append("idle"))
        clock.call_at(1.0, ARRIVAL, lambda _key: seen.append("second arrival"))

    clock.call_at(1.0, ARRIVAL, arrive)
    clock.call_at(1.0, STEP_END, lambda _key: seen.append("end"))
    clock.run_calls()
    assert seen == ["second arrival", "end", "idle"]


def test_calls_up_to_a_time_leave_out_those_at_it_and_set_the_clock() -> None:
    clock = StepClock()
    seen: list[float] = []
    for time_s in (0.5, 1.0, 2.0):
        clock.call_at(time_s, STEP_END, lambda _key: seen.append(clock.now))
    clock.run_calls(until_s=1.0)
    assert (seen, clock.now) == ([0.5], 1.0)
    clock.run_calls(until_s=1.5)
    assert (seen, clock.now) == ([0.5, 1.0], 1.5)


def test_an_error_in_a_receiver_comes_out() -> None:
    clock = StepClock()

    def fail(_key: int) -> None:
        raise RuntimeError("broken policy")

    clock.call_at(1.0, ARRIVAL, fail)
    with pytest.raises(RuntimeError, match="broken policy"):
        clock.run_calls()


def test_simpy_processes_share_the_clock() -> None:
    clock = StepClock()
    seen: list[tuple[str, float]] = []

    def process() -> simpy.events.ProcessGenerator:
        for _ in range(2):
            yield clock.timeout(2)
            seen.append(("process", clock.now))

    clock.process(process())
    for time_s in (1.0, 3.0):
        clock.call_at(time_s, STEP_END, lambda _key: seen.append(("call", clock.now)))
    clock.run_calls()
    assert seen == [("call", 1.0), ("process", 2.0), ("call", 3.0), ("process", 4.0)]
