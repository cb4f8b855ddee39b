"""Conversations: growing context, reused outputs, times of follow-ups."""

from typing import Any

import numpy as np
import pytest

from sim.errors import ConfigError
from sim.prefix_tree import NO_NODE
from traces.build import build_workload
from traces.schema import TraceTable
from traces.synthetic.sessions import SessionsTrace


def fixed(value: int) -> dict[str, Any]:
    return {"kind": "fixed", "value": value}


def uniform(low: int, high: int) -> dict[str, Any]:
    return {"kind": "uniform", "low": low, "high": high}


USERS = {"kind": "closed_loop", "concurrency": 7, "think_time_s": 4.0}


def sessions(**changes: Any) -> SessionsTrace:
    options = {
        "rate_per_s": 2.0,
        "turns": uniform(1, 6),
        "user": uniform(10, 90),
        "output": uniform(1, 50),
        "num_sessions": 400,
        "num_system_prompts": 3,
        "system_prompt_tokens": 64,
        "steady": False,
    }
    return SessionsTrace(**{**options, **changes})


def rows_by_turn(table: TraceTable) -> dict[tuple[int, int], int]:
    assert table.session_id is not None
    assert table.turn is not None
    keys = zip(table.session_id.tolist(), table.turn.tolist(), strict=True)
    return {key: row for row, key in enumerate(keys)}


def test_one_conversation_step_by_step() -> None:
    trace = sessions(
        num_sessions=1,
        turns=fixed(3),
        user=fixed(10),
        output=fixed(50),
        num_system_prompts=1,
        think_time_s=0,
        service_s_per_token=0.1,
    )
    workload = build_workload(trace, seed=0)
    assert workload.prompt_tokens.tolist() == [74, 134, 194]
    assert np.diff(workload.arrival_s).tolist() == pytest.approx([5.0, 5.0])
    assert workload.tree.num_tokens.tolist() == [74, 50, 10, 50]
    assert [workload.path(i) for i in range(3)] == [(0,), (0, 1, 2), (0, 1, 2, 3)]
    assert workload.output_node is not None
    assert workload.output_node.tolist() == [1, 3, NO_NODE]
    assert workload.parent_id is not None
    assert workload.parent_id.tolist() == [-1, 0, 1]


def test_a_follow_up_contains_the_prompt_and_the_output_of_the_turn_before() -> None:
    workload = build_workload(sessions(), seed=1)
    assert workload.output_node is not None
    assert workload.parent_id is not None
    assert workload.turn is not None
    num_follow_ups = 0
    for row, parent in enumerate(workload.parent_id.tolist()):
        assert (parent == -1) == (workload.turn[row] == 0)
        if parent < 0:
            continue
        num_follow_ups += 1
        output = int(workload.output_node[parent])
        path = (*workload.path(parent), output)
        assert workload.path(row)[: len(path)] == path
        assert workload.tree.num_tokens[output] == workload.output_tokens[parent]
        assert workload.tree.start_tokens[output] == workload.prompt_tokens[parent]
        assert workload.arrival_s[row] >= workload.arrival_s[parent]
    assert num_follow_ups == (workload.output_node != NO_NODE).sum() > 500


def test_first_turns_of_different_sessions_share_only_their_system_prompt() -> None:
    workload = build_workload(sessions(turns=fixed(1)), seed=1)
    assert workload.tree.num_tokens.tolist() == [64, 64, 64]
    assert set(workload.shared_tokens().tolist()) == {64}
    assert np.bincount(workload.path_nodes).min() > 100


def test_popularity_of_system_prompts_may_be_skewed() -> None:
    workload = build_workload(sessions(turns=fixed(1), system_prompt_skew=3.0), seed=1)
    sizes = sorted(np.bincount(workload.path_nodes).tolist())
    assert sizes[-1] > 5 * sizes[0]


def test_without_a_system_prompt_sessions_share_nothing() -> None:
    workload = build_workload(sessions(turns=fixed(1), system_prompt_tokens=0), seed=1)
    assert workload.tree.num_nodes == 0
    assert workload.prompt_tokens.max() <= 90
    two = build_workload(sessions(turns=fixed(2), system_prompt_tokens=0), seed=1)
    assert (two.tree.parent == NO_NODE).sum() == 400


def test_gap_to_a_follow_up_is_service_plus_exponential_thinking() -> None:
    table = sessions(num_sessions=4000, think_time_s=7.0, service_s_per_token=0.5).load(1)
    assert table.parent_id is not None
    follow_up = np.flatnonzero(table.parent_id >= 0)
    parent = table.parent_id[follow_up]
    think_s = table.arrival_s[follow_up] - table.arrival_s[parent]
    think_s = think_s - 0.5 * table.output_tokens[parent]
    assert think_s.min() >= -1e-6
    assert think_s.mean() == pytest.approx(7.0, rel=0.04)
    assert think_s.std() == pytest.approx(7.0, rel=0.06)


def test_rate_counts_requests_not_sessions() -> None:
    table = sessions(num_sessions=4000, rate_per_s=2.0).load(1)
    first = table.arrival_s[np.asarray(table.turn) == 0]
    session_rate_per_s = len(first) / first[-1]
    assert session_rate_per_s * table.num_requests / 4000 == pytest.approx(2.0, rel=0.05)


def test_the_rate_changes_no_length() -> None:
    slow, fast = sessions().load(1), sessions(rate_per_s=20.0).load(1)
    for name in ("prompt_tokens", "output_tokens"):
        by_turn = [
            {key: int(getattr(table, name)[row]) for key, row in rows_by_turn(table).items()}
            for table in (slow, fast)
        ]
        assert by_turn[0] == by_turn[1]
    assert slow.arrival_s[-1] > fast.arrival_s[-1]


@pytest.mark.parametrize("num_requests", [1, 2, 7, 500])
def test_num_requests_is_exact_and_every_session_begins_at_turn_0(num_requests: int) -> None:
    table = sessions(num_sessions=None, num_requests=num_requests).load(1)
    assert table.num_requests == num_requests
    turns: dict[int, set[int]] = {}
    for session, turn in rows_by_turn(table):
        turns.setdefault(session, set()).add(turn)
    assert all(seen == set(range(len(seen))) for seen in turns.values())


def test_heavy_tails_of_the_turn_count_are_clipped() -> None:
    turns = {"kind": "lognormal", "median": 1, "sigma": 50}
    table = sessions(num_sessions=4, turns=turns, user=fixed(1), output=fixed(1)).load(1)
    assert np.bincount(table.session_id).max() == 1000  # type: ignore[arg-type]


def test_the_same_seed_gives_the_same_arrays_in_order_of_arrival() -> None:
    one, other = sessions().load(4), sessions().load(4)
    for name in ("arrival_s", "prompt_tokens", "output_run", "session_id", "turn", "parent_id"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist()
    assert one.runs is not None
    assert other.runs is not None
    assert one.runs.ids.tolist() == other.runs.ids.tolist()
    assert (np.diff(one.arrival_s) >= 0).all()
    assert sessions().load(5).prompt_tokens.tolist() != one.prompt_tokens.tolist()


def test_a_limit_that_cuts_conversations_leaves_no_dangling_parent_or_output() -> None:
    whole = build_workload(sessions(), seed=1)
    cut = build_workload(sessions(), seed=1, limit=300)
    assert cut.num_requests == 300
    assert cut.output_node is not None
    assert cut.parent_id is not None
    assert whole.output_node is not None
    assert cut.parent_id.max() < 300
    continued = set(cut.parent_id.tolist()) - {-1}
    assert set(np.flatnonzero(cut.output_node != NO_NODE).tolist()) == continued
    assert (whole.output_node[:300] != NO_NODE).sum() > len(continued)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_requests": 5}, "trace.num_sessions=400, trace.num_requests=5: exactly one"),
        ({"num_sessions": None}, "trace.num_sessions=None, trace.num_requests=None: exactly one"),
        ({"num_sessions": 0}, "trace.num_sessions=0: must be an integer from 1 to"),
        ({"rate_per_s": 0.0}, "trace.rate_per_s=0.0: must be a finite number >= 1e-09"),
        ({"turns": {"kind": "x"}}, "trace.turns.kind='x': must be one of"),
        ({"turns": fixed(1001)}, "trace.turns.value=1001: must be an integer from 1 to 1,000"),
        ({"user": {"kind": "x"}}, "trace.user.kind='x': must be one of"),
        ({"output": {"kind": "x"}}, "trace.output.kind='x': must be one of"),
        ({"think_time_s": -1}, "trace.think_time_s=-1: must be a finite number >= 0"),
        ({"service_s_per_token": None}, "trace.service_s_per_token=None: must be a finite number"),
        ({"think_time_s": 1e308}, "trace.think_time_s=1e+308: must be a finite number >= 0 and"),
        ({"service_s_per_token": 1e308}, "trace.service_s_per_token=1e+308: must be a finite"),
        ({"service_s_per_token": 10**20 - 1}, "trace.service_s_per_token=99999999999999999999: "),
        ({"num_system_prompts": 0}, "trace.num_system_prompts=0: must be an integer from 1 to"),
        ({"system_prompt_tokens": -1}, "trace.system_prompt_tokens=-1: must be an integer from 0"),
        ({"closed_loop": 1}, "trace.closed_loop=1: must be true or false"),
        ({"steady": "no"}, "trace.steady='no': must be true or false"),
        ({"arrivals": "gamma"}, "trace.arrivals has nothing: kind gamma needs cv"),
        (
            {"arrivals": USERS},
            "trace.closed_loop=False: must be true with trace.arrivals of kind closed_loop",
        ),
        (
            {"arrivals": "all_at_once", "steady": True},
            "trace.steady=True: must be false or null with trace.arrivals='all_at_once', which are",
        ),
        ({"system_prompt_skew": -1}, "trace.system_prompt_skew=-1: must be a finite number >= 0"),
    ],
)
def test_bad_options_are_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        sessions(**options)
    assert str(caught.value).startswith(message)


def test_extreme_times_that_are_allowed_end_in_one_line_about_late_arrivals() -> None:
    for name in ("think_time_s", "service_s_per_token"):
        with pytest.raises(ConfigError) as caught:
            build_workload(sessions(**{name: 10**9}), seed=1)
        assert "check trace.rate_scale, trace.rate_per_s, trace.think_time_s" in str(caught.value)


def test_conversations_whose_prompts_would_fill_the_memory_are_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        sessions(num_sessions=101, turns=fixed(1000)).load(1)
    assert str(caught.value).startswith(
        "trace.turns: 101 sessions of 1000 turns on average repeat 101,000,000 messages in their "
        "prompts, allowed: 100,000,000"
    )


def test_a_steady_trace_has_the_same_rate_from_start_to_end() -> None:
    steady = build_workload(sessions(steady=True, num_sessions=3000, rate_per_s=5.0), seed=3)
    n = steady.num_requests
    assert n / steady.arrival_s[-1] == pytest.approx(5.0, rel=0.01)
    counts, _ = np.histogram(steady.arrival_s, bins=20, range=(0.0, n / 5.0))
    # Turns of a conversation cluster, so counts vary more than Poisson ones.
    assert np.abs(counts - n / 20).max() < 5 * (n / 20) ** 0.5
    slow = {"num_sessions": 3000, "rate_per_s": 5.0, "think_time_s": 300.0}
    ramping = build_workload(sessions(**slow), seed=3)
    counts, _ = np.histogram(ramping.arrival_s, bins=20)
    assert counts[-1] < 0.2 * n / 20


def test_turns_that_moved_to_the_start_continue_a_conversation_from_before_the_trace() -> None:
    trace = sessions(steady=True, turns=fixed(4), num_sessions=50)
    workload = build_workload(trace, seed=1)
    assert workload.turn is not None
    assert workload.parent_id is not None
    is_moved = (workload.parent_id < 0) & (workload.turn > 0)
    assert is_moved.any()
    own = np.diff(workload.path_offsets)
    for row in np.flatnonzero(is_moved).tolist():
        # Nobody before shares its history: only the system prompt, or what its own follow-up reads.
        earlier = {node for other in range(row) for node in workload.path(other)[1:]}
        assert earlier.isdisjoint(workload.path(row))
        assert own[row] >= 1
    follow_ups = workload.parent_id >= 0
    assert (
        workload.arrival_s[follow_ups] >= workload.arrival_s[workload.parent_id[follow_ups]]
    ).all()
    assert workload.num_requests == 200


def test_a_steady_trace_keeps_all_lengths_but_the_sharing_across_its_ends() -> None:
    steady, plain = (build_workload(sessions(steady=s), seed=2) for s in (True, False))
    for name in ("prompt_tokens", "output_tokens"):
        assert sorted(getattr(steady, name)) == sorted(getattr(plain, name))


def test_prompts_grow_by_a_message_and_an_answer_per_turn_on_average() -> None:
    """Turn t: 64 + 50 (t + 1) + 25.5 t; variances 81^2 / 12 and 50^2 / 12 per message add up."""
    table = sessions(num_sessions=20_000).load(1)
    assert table.turn is not None
    for turn in range(6):
        prompts = table.prompt_tokens[table.turn == turn]
        variance = (turn + 1) * (81**2 - 1) / 12 + turn * (50**2 - 1) / 12
        mean = 64 + 50 * (turn + 1) + 25.5 * turn
        assert prompts.mean() == pytest.approx(mean, abs=4 * (variance / len(prompts)) ** 0.5)
        share = (6 - turn) / 6
        error = (share * (1 - share) / 20_000) ** 0.5
        assert len(prompts) / 20_000 == pytest.approx(share, abs=4 * error + 1e-12)


def test_an_infinite_cache_reuses_the_whole_history_of_every_follow_up() -> None:
    """All of a follow-up but its new message: the system prompt, what was said and answered."""
    workload = build_workload(sessions(num_sessions=50), seed=1)
    assert workload.output_node is not None
    assert workload.parent_id is not None
    seen: set[int] = set()
    for row in range(workload.num_requests):
        path = workload.path(row)
        held = sum(int(workload.tree.num_tokens[node]) for node in path if node in seen)
        parent = int(workload.parent_id[row])
        if parent >= 0:
            history = workload.prompt_tokens[parent] + workload.output_tokens[parent]
            assert held == history
        else:
            assert held in (0, 64)
        seen.update(path)
        seen.add(int(workload.output_node[row]))


@pytest.mark.parametrize("steady", [True, False])
def test_in_a_closed_loop_a_follow_up_is_after_its_parent_by_the_think_time(steady: bool) -> None:
    options = {"think_time_s": 7.0, "service_s_per_token": 0.5, "steady": steady}
    open_loop, closed = sessions(**options).load(1), sessions(**options, closed_loop=True).load(1)
    assert open_loop.after is None
    assert open_loop.delay_s is None
    for name in ("arrival_s", "prompt_tokens", "output_tokens", "parent_id", "turn"):
        assert getattr(open_loop, name).tolist() == getattr(closed, name).tolist()
    assert closed.parent_id is not None
    assert closed.after is not None
    assert closed.delay_s is not None
    assert closed.concurrency is None
    assert closed.after.tolist() == closed.parent_id.tolist()
    follow_up = np.flatnonzero(closed.after >= 0)
    before = closed.after[follow_up]
    nominal_s = closed.arrival_s[follow_up] - closed.arrival_s[before]
    expected_s = closed.delay_s[follow_up] + 0.5 * closed.output_tokens[before]
    np.testing.assert_allclose(nominal_s, expected_s, atol=1e-6)
    assert closed.delay_s[closed.after < 0].max() == 0
    build_workload(sessions(**options, closed_loop=True), seed=1)


def test_users_take_whole_sessions_in_order() -> None:
    trace = sessions(arrivals=USERS, closed_loop=True, num_sessions=2000)
    workload = build_workload(trace, seed=1)
    assert workload.concurrency == 7
    assert workload.after is not None
    assert workload.delay_s is not None
    assert workload.session_id is not None
    roots = np.flatnonzero(workload.after < 0)
    assert roots.tolist() == list(range(2000))
    assert workload.session_id[roots].tolist() == list(range(2000))
    assert not workload.arrival_s[roots].any()
    assert workload.delay_s[roots].mean() == pytest.approx(4.0, rel=4 / 2000**0.5)
    assert workload.delay_s[2000:].mean() == pytest.approx(10.0, rel=4 / 5000**0.5)
    assert workload.turn is not None
    assert (workload.turn[2000:] > 0).all()


def test_sessions_may_start_in_bursts_at_the_same_mean_rate() -> None:
    bursts = {"kind": "gamma", "cv": 3.0}
    table = sessions(arrivals=bursts, num_sessions=20_000, turns=fixed(1)).load(1)
    gaps_s = np.diff(table.arrival_s)
    assert gaps_s.mean() == pytest.approx(0.5, rel=4 * 3 / 20_000**0.5)
    # The kurtosis of a gamma law is 3 + 6 cv^2.
    error = ((2 + 6 * 3.0**2) / 20_000) ** 0.5 / 2
    assert gaps_s.std() / gaps_s.mean() == pytest.approx(3.0, rel=4 * error)


def test_steady_is_the_default_where_sessions_start_at_a_rate() -> None:
    def times(**options: Any) -> list[float]:
        # Conversations far longer than the trace, which would all be moved round.
        trace = sessions(num_sessions=20, think_time_s=300.0, **options)
        made: list[float] = trace.load(1).arrival_s.tolist()
        return made

    assert times(steady=None) == times(steady=True) != times(steady=False)
    at_once = "all_at_once"
    assert times(steady=None, arrivals=at_once) == times(steady=False, arrivals=at_once)
