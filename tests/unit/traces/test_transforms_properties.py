"""Every transform on random tables: still a workload, and what it must keep is kept."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim.errors import ConfigError
from tests.unit.traces.token_oracle import (
    runs_of,
    same_workload,
    session_tables,
    shared_prompt_tokens,
    shared_runs,
    tables,
)
from traces.prefix_compress import compress
from traces.schema import TraceTable
from traces.transforms import Transforms, transform

quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

FACTORS = st.sampled_from([0.01, 0.25, 0.5, 0.73, 1.0, 1.5, 2.0, 3.3])

OPTIONS: dict[str, st.SearchStrategy[Any]] = {
    "window_s": st.sampled_from([2.0, [0.25, 3.0]]),
    "sample": st.sampled_from([0.3, 0.8]),
    "limit": st.integers(1, 5),
    "scale_prompt": FACTORS,
    "scale_output": FACTORS,
    "max_output_tokens": st.integers(1, 20),
    "max_prompt_tokens": st.integers(1, 60),
    "strip_prefixes": st.booleans(),
    "copies": st.integers(1, 3),
    "poissonise": st.booleans(),
    "rate_scale": st.sampled_from([0.5, 1.0, 2.0]),
    "shift_s": st.sampled_from([0.0, 2.5]),
    "anonymise": st.booleans(),
}


def applied(table: TraceTable, options: Mapping[str, Any]) -> TraceTable | None:
    """The transformed table; None if nothing is left, or has no rate, and the error says so."""
    try:
        return transform(table, seed=3, **options)
    except ConfigError as error:
        message = str(error)
        if "leaves no" not in message and "must have starts" not in message:
            raise
        return None


@quick
@given(tables, st.fixed_dictionaries({}, optional=OPTIONS))
def test_any_combination_gives_a_workload(table: TraceTable, options: dict[str, Any]) -> None:
    after, again = applied(table, options), applied(table, options)
    if after is None or again is None:
        assert after is again
        return
    compress(after).validate()
    asked = Transforms(**options).names
    assert set(asked) <= set(after.provenance.get("transforms", {}))
    assert again.arrival_s.tolist() == after.arrival_s.tolist()


@quick
@given(tables, st.sampled_from([1, 2]), st.floats(0, 5))
def test_a_replay_at_fixed_concurrency_is_a_workload(
    table: TraceTable, num_users: int, think_time_s: float
) -> None:
    options: dict[str, Any] = {"replay_concurrency": num_users, "replay_think_time_s": think_time_s}
    workload = compress(transform(table, **options))
    workload.validate()
    assert workload.concurrency == num_users


@quick
@given(tables)
def test_identities_change_nothing(table: TraceTable) -> None:
    same: dict[str, Any] = {
        "sample": 1.0,
        "scale_prompt": 1,
        "scale_output": 1.0,
        "copies": 1,
        "rate_scale": 1,
    }
    assert transform(table, **same, shift_s=0, limit=None) is table


@quick
@given(tables, FACTORS, FACTORS)
def test_scaled_lengths_keep_the_sharing_run_by_run(
    table: TraceTable, scale_prompt: float, scale_output: float
) -> None:
    after = transform(table, scale_prompt=scale_prompt, scale_output=scale_output)
    assert shared_runs(after) == shared_runs(table)
    outputs = np.maximum(np.rint(table.output_tokens * scale_output), 1)
    is_free = np.ones(len(outputs), bool) if table.output_run is None else table.output_run < 0
    assert after.output_tokens[is_free].tolist() == outputs[is_free].tolist()
    # rounding moves a prompt by half a token; a run is never shorter than one
    num_runs = [len(runs_of(table, row)) for row in range(table.num_requests)]
    error = after.prompt_tokens - scale_prompt * table.prompt_tokens
    if scale_prompt == scale_output or table.output_run is None:
        assert (error >= -0.5 - 1e-9).all()
        assert (error <= 0.5 + np.array(num_runs) + 1e-9).all()


@quick
@given(tables, st.integers(1, 20))
def test_capped_outputs_keep_the_sharing_run_by_run(table: TraceTable, cap: int) -> None:
    after = transform(table, max_output_tokens=cap)
    assert shared_runs(after) == shared_runs(table)
    assert after.output_tokens.tolist() == np.minimum(table.output_tokens, cap).tolist()


@quick
@given(tables, st.integers(1, 60))
def test_capped_prompts_share_their_beginnings(table: TraceTable, cap: int) -> None:
    after = transform(table, max_prompt_tokens=cap)
    assert after.prompt_tokens.tolist() == np.minimum(table.prompt_tokens, cap).tolist()
    expected = [[min(tokens, cap) for tokens in row] for row in shared_prompt_tokens(table)]
    assert shared_prompt_tokens(after) == expected


@quick
@given(tables)
def test_stripped_prompts_share_nothing(table: TraceTable) -> None:
    workload = compress(transform(table, strip_prefixes=True))
    assert workload.shared_tokens().sum() == 0
    assert workload.output_node is None


@quick
@given(tables)
def test_anonymised_is_the_same_workload(table: TraceTable) -> None:
    before, after = compress(table), compress(transform(table, anonymise=True))
    but = ["provenance", "tenant"]
    same_workload(before, after, but=[*but, "session_id"])
    if before.tenant is not None:
        assert after.tenant is not None
        rows = range(table.num_requests)
        names = {(before.tenant.name_of(i), after.tenant.name_of(i)) for i in rows}
        assert len(names) == len({old for old, _ in names}) == len({new for _, new in names})
        assert all((old is None) == (new is None) for old, new in names)
    if before.session_id is not None:
        assert after.session_id is not None
        pairs = set(zip(before.session_id.tolist(), after.session_id.tolist(), strict=True))
        assert len(pairs) == len({old for old, _ in pairs}) == len({new for _, new in pairs})


@quick
@given(session_tables(), st.sampled_from([0.3, 0.6]))
def test_a_sample_keeps_whole_sessions(table: TraceTable, share: float) -> None:
    whole = sizes_of(table)
    kept, more = (sizes_of(applied(table, {"sample": part})) for part in (share, share + 0.3))
    assert kept.items() <= more.items() <= whole.items()


def sizes_of(table: TraceTable | None) -> dict[int, int]:
    """Rows of each session."""
    if table is None:
        return {}
    assert table.session_id is not None
    names, sizes = np.unique(table.session_id, return_counts=True)
    return dict(zip(names.tolist(), sizes.tolist(), strict=True))


@quick
@given(tables, st.integers(2, 4), st.sampled_from(["even", "random"]))
def test_each_copy_shares_in_itself_what_the_trace_shares(
    table: TraceTable, copies: int, offsets: str
) -> None:
    many = transform(table, copies=copies, copy_offsets=offsets, seed=5)
    n = table.num_requests
    assert many.num_requests == copies * n
    lengths = np.repeat(np.sort(table.prompt_tokens), copies)
    assert np.sort(many.prompt_tokens).tolist() == lengths.tolist()
    compress(many).validate()
    # All that an infinite cache finds: every copy as much as the trace, and what is common to all
    # prompts is found once more in each copy but the first.
    again = (copies - 1) * common_tokens(table)
    assert distinct_prefix_tokens(many) == copies * distinct_prefix_tokens(table) - again


def prefixes(table: TraceTable, row: int) -> list[tuple[tuple[int, int], ...]]:
    pairs = runs_of(table, row)
    return [tuple(pairs[: k + 1]) for k in range(len(pairs))]


def distinct_prefix_tokens(table: TraceTable) -> int:
    """Tokens of all different beginnings: what an infinite cache holds of the prompts' runs."""
    known = {prefix for row in range(table.num_requests) for prefix in prefixes(table, row)}
    return sum(prefix[-1][1] for prefix in known)


def common_tokens(table: TraceTable) -> int:
    """Tokens that all prompts begin with."""
    common = set.intersection(*(set(prefixes(table, row)) for row in range(table.num_requests)))
    return sum(prefix[-1][1] for prefix in common)
