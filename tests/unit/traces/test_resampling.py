"""Stretches of a recording, drawn with replacement."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from sim.errors import ConfigError
from traces.prefix_compress import compress
from traces.schema import PromptRuns, TraceTable
from traces.synthetic.sessions import SessionsTrace
from traces.transforms.resampling import NUM_STRETCHES, resample_stretches

N = 2 * NUM_STRETCHES


def one_a_second(**columns: object) -> TraceTable:
    """Row k arrives at k s, has k + 1 output tokens and runs [common 0, own k + 1]."""
    ids = np.stack((np.zeros(N, dtype=np.int64), np.arange(1, N + 1)), axis=1).ravel()
    table = {
        "arrival_s": np.arange(N, dtype=np.float64),
        "prompt_tokens": np.full(N, 20),
        "output_tokens": np.arange(1, N + 1),
        "runs": PromptRuns(
            ids=ids, offsets=2 * np.arange(N + 1), tokens=np.tile(np.array([8, 12]), N)
        ),
    }
    return TraceTable(**{**table, **columns})  # type: ignore[arg-type]


def old_rows(table: TraceTable) -> list[int]:
    rows: list[int] = (table.output_tokens - 1).tolist()
    return rows


def test_stretches_of_two_rows_come_back_as_they_were_recorded() -> None:
    rows = old_rows(drawn := resample_stretches(one_a_second(), 3))
    assert len(rows) == N
    assert drawn.arrival_s.tolist() == list(range(N))
    assert all(rows[k] % 2 == 0 and rows[k + 1] == rows[k] + 1 for k in range(0, N, 2))
    assert len(set(rows)) < N
    assert drawn.provenance["transforms"]["resampled"] == {"stretches": NUM_STRETCHES, "seed": 3}


def test_each_stretch_is_equally_likely() -> None:
    counts = Counter(
        row // 2
        for seed in range(400)
        for row in old_rows(resample_stretches(one_a_second(), seed))
    )
    expected = 2 * 400
    sigma = 2 * (400 * NUM_STRETCHES * (1 / NUM_STRETCHES) * (1 - 1 / NUM_STRETCHES)) ** 0.5
    assert set(counts) == set(range(NUM_STRETCHES))
    assert max(abs(count - expected) for count in counts.values()) < 4 * sigma


def test_the_seed_decides() -> None:
    one, same, other = (resample_stretches(one_a_second(), seed) for seed in (1, 1, 2))
    assert old_rows(one) == old_rows(same)
    assert old_rows(one) != old_rows(other)


def test_a_stretch_drawn_again_shares_only_the_common_beginning() -> None:
    drawn = resample_stretches(one_a_second(), 3)
    assert drawn.runs is not None
    ids = drawn.runs.ids.reshape(-1, 2)
    assert (ids[:, 0] == 0).all()
    assert len(set(ids[:, 1].tolist())) == N
    workload = compress(drawn)
    assert workload.shared_tokens().tolist() == [8] * N


def test_different_stretches_still_share_what_they_shared() -> None:
    same = np.zeros(N, dtype=np.int64)
    runs = PromptRuns(
        ids=np.stack((np.arange(N) % 2, same + 9), axis=1).ravel(),
        offsets=2 * np.arange(N + 1),
        tokens=np.tile(np.array([8, 12]), N),
    )
    drawn = resample_stretches(one_a_second(runs=runs), 3)
    assert drawn.runs is not None
    first = drawn.runs.ids.reshape(-1, 2)[:, 0]
    rows = np.array(old_rows(drawn))
    num_drawn_once_or_first = len(set(rows.tolist()))
    assert np.count_nonzero(first == rows % 2) == num_drawn_once_or_first


def two_turns() -> TraceTable:
    """Session k starts at 2 k s and has its second turn, which waits for the first, 5 s later."""
    half = N // 2
    start_s = 2.0 * np.arange(half)
    order = np.argsort(np.append(start_s, start_s + 5))
    link = np.append(np.full(half, -1), np.arange(half))
    table = one_a_second(
        session_id=np.tile(np.arange(half), 2),
        turn=np.repeat([0, 1], half),
        parent_id=link,
        after=link,
        delay_s=np.ones(N),
    )
    return replace(table, arrival_s=np.append(start_s, start_s + 5)).take(order)


def test_sessions_move_as_a_whole_and_what_passes_the_end_comes_first() -> None:
    half = N // 2
    drawn = resample_stretches(two_turns(), 5)
    assert drawn.session_id is not None
    assert drawn.parent_id is not None
    assert drawn.after is not None
    rows = np.array(old_rows(drawn))
    is_second = rows >= half
    assert is_second.sum() == (~is_second).sum() == half
    assert (drawn.after == drawn.parent_id).all()
    follows = is_second & (drawn.parent_id >= 0)
    parent = drawn.parent_id[follows]
    assert (rows[parent] == rows[follows] - half).all()
    assert (drawn.arrival_s[follows] - drawn.arrival_s[parent] == 5).all()
    assert (drawn.session_id[parent] == drawn.session_id[follows]).all()
    # The last three sessions start at 26, 28 and 30 s of 32 s: two second turns pass the end.
    came_round = is_second & (drawn.parent_id < 0)
    assert sorted(drawn.arrival_s[came_round].tolist()) == [1.0, 3.0]
    assert len(set(drawn.session_id.tolist())) == half
    compress(drawn).validate()


def test_the_rate_stays_even_although_sessions_last_long() -> None:
    lengths = {"kind": "fixed", "value": 100}
    turns = {"kind": "uniform", "low": 1, "high": 8}
    sessions = SessionsTrace(
        num_requests=1500, rate_per_s=10, turns=turns, user=lengths, output=lengths
    ).load(0)
    end_s = float(sessions.arrival_s[-1])
    counts = np.zeros(5)
    for seed in range(30):
        arrival_s = resample_stretches(sessions, seed).arrival_s
        counts += np.histogram(arrival_s, np.linspace(0, 1.25 * end_s, 6))[0]
    assert counts[4] < 0.02 * counts[0]
    assert counts[:4].max() < 1.15 * counts[:4].min()


def test_a_reused_output_follows_its_request() -> None:
    table = one_a_second(output_run=np.arange(N) + 100)
    drawn = resample_stretches(table, 3)
    assert drawn.output_run is not None
    rows = np.array(old_rows(drawn))
    assert len(set(drawn.output_run.tolist())) == N
    is_first = np.isin(np.arange(N), np.unique(rows, return_index=True)[1])
    assert (drawn.output_run[is_first] == rows[is_first] + 100).all()


def test_what_has_no_stretches_is_refused() -> None:
    with pytest.raises(ConfigError, match="arrive at the same time"):
        resample_stretches(one_a_second(arrival_s=np.zeros(N)), 0)
    with pytest.raises(ConfigError, match="4 users send the requests"):
        resample_stretches(one_a_second(concurrency=4), 0)


def test_a_draw_without_any_request_is_refused() -> None:
    table = one_a_second(arrival_s=np.append(np.zeros(N - 1), 100.0))
    outcomes: set[object] = set()
    for seed in range(60):
        try:
            outcomes.add(len(resample_stretches(table, seed).arrival_s) > 0)
        except ConfigError as error:
            outcomes.add(str(error).split(";")[0])
    assert any("hold no request" in str(outcome) for outcome in outcomes)
    assert False not in outcomes
