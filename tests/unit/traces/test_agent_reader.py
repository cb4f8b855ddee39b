"""Agent files: sessions placed in time, calls that wait for one another, rows out of place."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.composing import compose_config
from experiments.schema.job import read_job
from sim.errors import ConfigError, TraceFormatError
from sim.rng import stream
from traces.prefix_compress import compress
from traces.readers.agent import AgentTrace
from traces.readers.reading import FaultFinding
from traces.schema import TraceTable

GOOD: dict[str, Any] = {"agent": "a", "input_length": 20, "output_length": 100, "hash_ids": [1, 2]}


def row(session: Any, call: Any, timestamp: Any, /, **changes: Any) -> str:
    place = {"session_id": session, "call": call, "timestamp": timestamp}
    return json.dumps({**GOOD, **place, **changes})


def write(folder: Path, *rows: str) -> Path:
    path = folder / "t.jsonl"
    path.write_text("\n".join(rows))
    return path


@pytest.fixture
def three_sessions(tmp_path: Path) -> Path:
    """x: calls at 0, 2 and 9 s; y: one call; z: calls at 0 and 1.5 s, timed from 4 s on."""
    return write(
        tmp_path,
        row("x", 0, 0),
        row("x", 1, 2000, output_length=500),
        row("x", 3, 9000),
        row("y", 0, 0, agent="b", output_length=7),
        row("z", 0, 4000, output_length=3000),
        row("z", 1, 5500, output_length=1),
    )


def in_file_order(table: TraceTable) -> list[int]:
    """Rows of the table in order of session and call."""
    assert table.session_id is not None
    assert table.turn is not None
    order: list[int] = np.lexsort((table.turn, table.session_id)).tolist()
    return order


def test_sessions_start_as_a_poisson_process_and_keep_their_recorded_times(
    three_sessions: Path,
) -> None:
    table = AgentTrace(path=three_sessions, session_rate_per_s=0.5).load(3)
    start = np.cumsum(stream(3, "trace.arrivals").standard_exponential(3)) / 0.5
    rows = in_file_order(table)
    x, y, z = start.tolist()
    assert table.arrival_s[rows].tolist() == [x, x + 2, x + 9, y, z, z + 1.5]
    assert (np.diff(table.arrival_s) >= 0).all()


def test_another_rate_stretches_the_same_starts_and_another_seed_draws_others(
    three_sessions: Path,
) -> None:
    def starts(seed: int, rate_per_s: float) -> list[float]:
        table = AgentTrace(path=three_sessions, session_rate_per_s=rate_per_s).load(seed)
        assert table.after is not None
        starts_s: list[float] = table.arrival_s[table.after < 0].tolist()
        return starts_s

    assert starts(3, 0.5) == starts(3, 0.5)
    assert starts(3, 0.25) == [2 * start for start in starts(3, 0.5)]
    assert starts(4, 0.5) != starts(3, 0.5)


def test_a_call_waits_for_the_one_before_it_and_for_the_recorded_gap_less_service(
    three_sessions: Path,
) -> None:
    """At 10 ms per token: 2 - 1 and 7 - 5 s; z's gap of 1.5 s is shorter than its 30 s."""
    table = AgentTrace(path=three_sessions, session_rate_per_s=1.0, service_s_per_token=0.01).load(
        0
    )
    assert table.after is not None
    assert table.delay_s is not None
    rows = in_file_order(table)
    assert table.delay_s[rows].tolist() == [0.0, 1.0, 2.0, 0.0, 0.0, 0.0]
    assert table.after[rows].tolist() == [-1, rows[0], rows[1], -1, -1, rows[4]]
    assert table.concurrency is None
    assert (table.after < np.arange(6)).all()
    compress(table).validate()


def test_in_an_open_loop_calls_arrive_as_recorded(three_sessions: Path) -> None:
    closed = AgentTrace(path=three_sessions, session_rate_per_s=0.5)
    open_loop = AgentTrace(path=three_sessions, session_rate_per_s=0.5, closed_loop=False)
    table = open_loop.load(3)
    assert (table.after, table.delay_s, table.concurrency) == (None, None, None)
    assert table.arrival_s.tolist() == closed.load(3).arrival_s.tolist()


@pytest.mark.parametrize(
    ("users", "starts"), [(1, [0.0, 10.0, 10.07]), (2, [0.0, 0.0, 0.07]), (9, [0.0, 0.0, 0.0])]
)
def test_users_take_sessions_in_order_each_when_its_last_one_ends(
    three_sessions: Path, users: int, starts: list[float]
) -> None:
    """Nominal: x takes 9 s and 1 s for its last call, y 0.07 s."""
    table = AgentTrace(path=three_sessions, concurrency=users, service_s_per_token=0.01).load(0)
    assert table.concurrency == users
    assert table.after is not None
    assert table.session_id is not None
    roots = np.flatnonzero(table.after < 0)
    assert table.session_id[roots].tolist() == [0, 1, 2]
    assert table.arrival_s[roots].tolist() == pytest.approx(starts)
    compress(table).validate()


def test_sessions_turns_and_agents_are_columns(three_sessions: Path) -> None:
    table = AgentTrace(path=three_sessions, session_rate_per_s=1.0).load(0)
    rows = in_file_order(table)
    assert table.session_id is not None
    assert table.turn is not None
    assert table.tenant is not None
    assert table.session_id[rows].tolist() == [0, 0, 0, 1, 2, 2]
    assert table.turn[rows].tolist() == [0, 1, 3, 0, 0, 1]
    assert [table.tenant.name_of(r) for r in rows] == ["a", "a", "a", "b", "a", "a"]
    assert table.output_tokens[rows].tolist() == [100, 500, 100, 7, 3000, 1]
    assert table.runs is not None
    assert table.runs.block_tokens == 16
    assert table.output_run is None


def test_provenance_names_the_options_and_the_seed_of_the_starts(three_sessions: Path) -> None:
    provenance = AgentTrace(path=three_sessions, session_rate_per_s=2.0).load(8).provenance
    assert (provenance["format"], provenance["num_rows"], provenance["seed"]) == ("agent", 6, 8)
    assert len(provenance["sha256"]) == 64
    assert provenance["options"] == {
        "session_rate_per_s": 2.0,
        "concurrency": None,
        "closed_loop": True,
        "service_s_per_token": 0.007,
        "block_tokens": 16,
    }


BAD: dict[str, tuple[list[str], list[tuple[int, str]], str]] = {
    "calls in the wrong order": (
        [row("x", 0, 0), row("x", 2, 1), row("x", 1, 2), row("x", 3, 3)],
        [(3, "call")],
        "call 1: must be above 2, the call before it",
    ),
    "a call twice": (
        [row("x", 0, 0), row("x", 0, 1)],
        [(2, "call")],
        "call 0: must be above 0, the call before it",
    ),
    "a session without call 0, named once": (
        [row("x", 1, 0), row("x", 2, 5), row("y", 0, 0)],
        [(1, "call")],
        "call 1: must be 0, the first one of a session",
    ),
    "a session in two places": (
        [row("x", 0, 0), row("y", 0, 0), row("x", 1, 5), row("x", 2, 6), row("y", 1, 1)],
        [(3, "session_id"), (4, "session_id")],
        "session_id 'x': rows must follow one another",
    ),
    "time that goes back": (
        [row("x", 0, 0), row("x", 1, 9), row("x", 2, 7), row("x", 3, 8), row("x", 4, 9)],
        [(3, "timestamp"), (4, "timestamp")],
        "timestamp 7: must be at least 9, that of the call before it",
    ),
    "a bad length does not blame the rows after it": (
        [row("x", 0, 0, output_length=0), row("x", 1, 9), row("y", 0, 0)],
        [(1, "output_length")],
        "output_length 0: must be an integer from 1",
    ),
    "a session that is a number": (
        [row(3, 0, 0), row("y", 0, 0)],
        [(1, "session_id")],
        "session_id 3: must be a text of 1 to 200 printable characters",
    ),
    "an agent of no letters": (
        [row("x", 0, 0, agent=""), row("y", 0, 0)],
        [(1, "agent")],
        "agent '': must be a text",
    ),
    "half a call": (
        [row("x", 0.5, 0), row("y", 0, 0)],
        [(1, "call")],
        "call 0.5: must be an integer from 0 to 2**62",
    ),
}


@pytest.mark.parametrize(("rows", "faults", "why"), BAD.values(), ids=BAD)
def test_rows_out_of_place_are_named(
    tmp_path: Path, rows: list[str], faults: list[tuple[int, str]], why: str
) -> None:
    source = AgentTrace(path=write(tmp_path, *rows), session_rate_per_s=1.0)
    with pytest.raises(TraceFormatError) as caught:
        source.load(0)
    assert caught.value.line == faults[0][0]
    assert why in caught.value.why
    finding = FaultFinding(source.path)
    table = source.read(finding)
    assert [(fault.line, fault.kind) for fault in finding.faults] == faults
    assert table.num_requests == len(rows) - len(faults)
    compress(table).validate()


def test_without_rate_and_users_sessions_start_at_the_default_rate(three_sessions: Path) -> None:
    by_default = AgentTrace(path=three_sessions).load(3)
    given = AgentTrace(path=three_sessions, session_rate_per_s=0.1).load(3)
    assert by_default.arrival_s.tolist() == given.arrival_s.tolist()
    assert by_default.concurrency is None
    assert by_default.provenance == given.provenance
    users = AgentTrace(path=three_sessions, concurrency=2).load(3)
    assert users.provenance["options"]["session_rate_per_s"] is None


def test_users_alone_replace_the_packaged_rate() -> None:
    overrides = ["trace=agent", "trace.path=x.jsonl", "trace.concurrency=2"]
    source = read_job(compose_config(overrides)[0]).trace.build()
    assert source == AgentTrace(path="x.jsonl", concurrency=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"session_rate_per_s": 1, "concurrency": 2},
            "trace.session_rate_per_s=1, trace.concurrency=2: sessions start at a rate or with "
            "users; leave one of them out, such as trace.session_rate_per_s=null",
        ),
        (
            {"session_rate_per_s": 0},
            "trace.session_rate_per_s=0: must be a finite number >= 1e-09 and <= 1e+09",
        ),
        ({"concurrency": 0}, "trace.concurrency=0: must be an integer from 1 to 1,000,000"),
        (
            {"concurrency": 2, "closed_loop": False},
            "trace.concurrency=2: must be null where trace.closed_loop=false",
        ),
        ({"concurrency": 2, "closed_loop": 1}, "trace.closed_loop=1: must be true or false"),
        (
            {"concurrency": 2, "service_s_per_token": -1},
            "trace.service_s_per_token=-1: must be a finite number >= 0 and <= 1e+09",
        ),
        (
            {"concurrency": 2, "block_tokens": 0},
            "trace.block_tokens=0: must be an integer from 1 to 10,000,000",
        ),
        ({"concurrency": 2, "path": 3}, "trace.path=3: must be the path of a trace file"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        AgentTrace(**{"path": "t.jsonl", **options})
    assert str(caught.value) == message
