"""What a job in a closed loop writes: actual arrivals, nominal ones beside them, a flag."""

from typing import Any

import numpy as np

from experiments.composing import compose_config
from experiments.job import JobRun, simulate_job
from experiments.results.tables import request_table
from experiments.summary import REGIME_HINTS
from tests.conftest import TINY

USERS = "trace.arrivals={kind: closed_loop, concurrency: 8, think_time_s: 0.5}"
SESSIONS = (
    "trace=sessions",
    "trace.num_requests=60",
    "trace.closed_loop=true",
    "trace.think_time_s=0.5",
)


def simulated(*overrides: str) -> JobRun:
    return simulate_job(*compose_config(list(overrides)))


def loop_flag(run: JobRun) -> dict[str, Any] | None:
    flags: list[dict[str, Any]] = run.document["flags"]
    return next((flag for flag in flags if flag["flag"] == "closed_loop"), None)


def test_users_are_a_flag_and_a_regime() -> None:
    run = simulated(*TINY, USERS)
    assert run.document["regime"] == "closed_loop"
    assert "closed_loop" in REGIME_HINTS
    assert loop_flag(run) == {
        "flag": "closed_loop",
        "concurrency": 8,
        "num_after": 0,
        "text": "8 users send the requests, each the next when its last one has ended",
    }


def test_requests_have_their_actual_and_their_nominal_arrivals() -> None:
    run = simulated(*TINY, USERS)
    table = request_table(run.result)
    arrivals = table["arrival_s"].to_pylist()
    assert arrivals == run.result.requests.arrival_s.tolist()
    assert table["nominal_arrival_s"].to_pylist() == run.result.workload.arrival_s.tolist()
    assert arrivals[:8] == [0.0] * 8
    assert min(arrivals[8:]) > 0
    assert "after" not in table.column_names


def test_follow_ups_name_whom_they_follow_and_arrive_after_that() -> None:
    run = simulated(*SESSIONS)
    flag = loop_flag(run)
    assert flag is not None
    rows = request_table(run.result).to_pylist()
    followers = [row for row in rows if row["after"] is not None]
    assert flag["num_after"] == len(followers) > 20
    assert flag["text"] == f"{len(followers)} requests arrive when the one they follow has ended"
    for row in followers:
        assert row["arrival_s"] > rows[row["after"]]["finish_s"]
    for row in rows:
        if row["after"] is None:
            assert row["arrival_s"] == row["nominal_arrival_s"]
    assert run.document["regime"] in ("stable", "backlogged", "overloaded")


def test_users_may_send_sessions() -> None:
    run = simulated(*SESSIONS, "trace.arrivals={kind: closed_loop, concurrency: 2}")
    flag = loop_flag(run)
    assert flag is not None
    assert flag["text"].startswith(
        "2 users send the requests that follow no other, each the next when all that its last one "
        "led to has ended; "
    )


def test_an_open_loop_has_no_columns_and_no_flag_of_a_loop() -> None:
    run = simulated(*TINY)
    assert loop_flag(run) is None
    table = request_table(run.result)
    assert {"nominal_arrival_s", "after"}.isdisjoint(table.column_names)
    assert np.array_equal(table["arrival_s"].to_numpy(), run.result.workload.arrival_s)
