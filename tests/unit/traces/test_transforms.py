"""Window, limit and rate scale: what they keep, what they record, what they refuse."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim.errors import ConfigError
from sim.workload import Labels
from traces.build import build_workload
from traces.readers.mooncake import MooncakeTrace
from traces.schema import PromptRuns, TraceTable
from traces.transforms import transform


def ten_rows() -> TraceTable:
    """Row i arrives at i seconds with i + 1 tokens; its parent is the row before."""
    row = np.arange(10)
    return TraceTable(
        arrival_s=row.astype(np.float64),
        prompt_tokens=row + 1,
        output_tokens=row + 1,
        runs=PromptRuns(
            ids=np.repeat(row, 2), offsets=np.arange(0, 21, 2), tokens=np.ones(20, int)
        ),
        parent_id=row - 1,
        tenant=Labels(row % 2, ("even", "odd")),
        priority=row,
        provenance={"format": "x", "num_rows": 10},
    )


def test_nothing_asked_is_nothing_done() -> None:
    table = ten_rows()
    assert transform(table) is table


def test_a_window_keeps_start_but_not_end_and_restarts_the_clock() -> None:
    table = transform(ten_rows(), window_s=[2.5, 6])
    assert table.arrival_s.tolist() == [0.5, 1.5, 2.5]
    assert table.prompt_tokens.tolist() == [4, 5, 6]
    assert table.runs is not None
    assert table.runs.ids.tolist() == [3, 3, 4, 4, 5, 5]
    assert table.runs.tokens is not None
    assert len(table.runs.tokens) == 6
    assert table.runs.offsets.tolist() == [0, 2, 4, 6]
    assert table.parent_id is not None
    assert table.parent_id.tolist() == [-1, 0, 1]
    assert table.tenant is not None
    assert [table.tenant.name_of(i) for i in range(3)] == ["odd", "even", "odd"]
    assert table.priority is not None
    assert table.priority.tolist() == [3, 4, 5]


def test_a_window_given_as_a_number_starts_at_zero() -> None:
    table = transform(ten_rows(), window_s=3)
    assert table.arrival_s.tolist() == [0.0, 1.0, 2.0]
    assert table.provenance["transforms"] == {"window_s": [0.0, 3.0]}


def test_limit_keeps_the_first_rows_and_more_than_all_is_all() -> None:
    assert transform(ten_rows(), limit=3).prompt_tokens.tolist() == [1, 2, 3]
    assert transform(ten_rows(), limit=99).num_requests == 10


def test_rate_scale_2_is_twice_as_fast() -> None:
    table = transform(ten_rows(), rate_scale=2)
    assert table.arrival_s.tolist() == [i / 2 for i in range(10)]
    assert table.prompt_tokens.tolist() == list(range(1, 11))


def test_order_is_window_then_limit_then_rate_and_all_is_recorded() -> None:
    table = transform(ten_rows(), rate_scale=2, limit=2, window_s=[4, 8])
    assert table.arrival_s.tolist() == [0.0, 0.5]
    assert table.prompt_tokens.tolist() == [5, 6]
    assert table.provenance == {
        "format": "x",
        "num_rows": 10,
        "transforms": {"window_s": [4.0, 8.0], "limit": 2, "rate_scale": 2.0},
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": 0}, "trace.limit=0: must be an integer >= 1"),
        ({"limit": -3}, "trace.limit=-3: must be an integer >= 1"),
        ({"limit": 2.0}, "trace.limit=2.0: must be an integer >= 1"),
        ({"limit": True}, "trace.limit=True: must be an integer >= 1"),
        ({"limit": "all"}, "trace.limit='all': must be an integer >= 1"),
        ({"rate_scale": 0}, "trace.rate_scale=0: must be a finite number >= 1e-09 and <= 1e+09"),
        ({"rate_scale": -1}, "trace.rate_scale=-1: must be a finite number >= 1e-09"),
        ({"rate_scale": float("inf")}, "trace.rate_scale=inf: must be a finite number >= 1e-09"),
        ({"rate_scale": None}, "trace.rate_scale=None: must be a finite number >= 1e-09"),
        ({"rate_scale": 1e-310}, "trace.rate_scale=1e-310: must be a finite number >= 1e-09"),
        ({"rate_scale": 10**400}, "trace.rate_scale=1000000"),
        ({"rate_scale": 10**5000}, "trace.rate_scale=<int of very many digits>: must be a finite"),
        ({"window_s": 10**400}, "trace.window_s=1000000"),
        ({"window_s": 0}, "trace.window_s=0: must be a finite number > 0"),
        ({"window_s": "60"}, "trace.window_s='60': must be a finite number > 0"),
        ({"window_s": [5]}, "trace.window_s=[5]: must be a length or [start, end], in seconds"),
        ({"window_s": [1, 2, 3]}, "trace.window_s=[1, 2, 3]: must be a length or [start, end]"),
        ({"window_s": [-1, 2]}, "trace.window_s[0]=-1: must be a finite number >= 0"),
        ({"window_s": [5, 5]}, "trace.window_s[1]=5: must be a finite number > 5"),
        ({"window_s": [5, float("nan")]}, "trace.window_s[1]=nan: must be a finite number > 5"),
        (
            {"window_s": [20, 30]},
            "trace.window_s=[20, 30]: leaves no request, arrivals span 0 to 9 s",
        ),
    ],
)
def test_bad_values_and_empty_results_are_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        transform(ten_rows(), **options)
    assert str(caught.value).startswith(message)


def mooncake(folder: Path) -> MooncakeTrace:
    path = folder / "t.jsonl"
    rows = [
        f'{{"timestamp": {1000 * i}, "input_length": 32, "output_length": 2, "hash_ids": [1, {k}]}}'
        for i, k in enumerate([2, 3, 3, 2])
    ]
    path.write_text("\n".join(rows))
    return MooncakeTrace(path, block_tokens=16)


def test_requests_that_are_left_out_share_nothing(tmp_path: Path) -> None:
    whole = build_workload(mooncake(tmp_path), seed=0)
    assert whole.shared_tokens().tolist() == [32, 32, 32, 32]
    middle = build_workload(mooncake(tmp_path), seed=0, window_s=[1, 3])
    assert middle.shared_tokens().tolist() == [32, 32]
    assert middle.tree.num_nodes == 1
    first = build_workload(mooncake(tmp_path), seed=0, limit=2, rate_scale=0.5)
    assert first.shared_tokens().tolist() == [16, 16]
    assert first.arrival_s.tolist() == [0.0, 2.0]
    assert first.provenance["transforms"] == {"limit": 2, "rate_scale": 0.5}
    assert first.provenance["num_rows"] == 4


@pytest.mark.parametrize("seed", [-1, 1.5, None, True])
def test_a_seed_is_a_whole_number(tmp_path: Path, seed: Any) -> None:
    with pytest.raises(ConfigError, match=r"^seed=.*: must be an integer >= 0$"):
        build_workload(mooncake(tmp_path), seed=seed)


@dataclass
class Table:
    """A source of one given table."""

    table: TraceTable

    def load(self, seed: int) -> TraceTable:
        return self.table


def last_arrival_at(time_s: float) -> Table:
    return Table(replace(ten_rows(), arrival_s=np.append(np.arange(9.0), time_s)))


def test_arrivals_after_31_years_are_refused_with_the_keys_to_check(tmp_path: Path) -> None:
    assert build_workload(last_arrival_at(1e9), seed=0).num_requests == 10
    with pytest.raises(ConfigError) as caught:
        build_workload(last_arrival_at(1.5e9), seed=0)
    assert str(caught.value) == (
        "trace: the last request arrives after 1.5e+09 s, allowed: at most 1e+09 s (31 years); "
        "check trace.rate_scale, trace.window_s"
    )
    with pytest.raises(ConfigError, match=r"after 3e\+09 s, .* check trace.rate_scale"):
        build_workload(mooncake(tmp_path), seed=0, rate_scale=1e-9)


@pytest.mark.parametrize("time_s", [math.nan, -1.0, 3.0])
def test_rows_that_are_no_workload_are_one_line(time_s: float) -> None:
    with pytest.raises(ConfigError, match=r"^trace: these options give no valid .*arrival_s must"):
        build_workload(last_arrival_at(time_s), seed=0)


@pytest.mark.parametrize("error", [ValueError("a\nb"), OverflowError("a b"), MemoryError("a b")])
def test_an_error_of_generation_is_one_line(error: Exception) -> None:
    class Broken:
        def load(self, seed: int) -> TraceTable:
            raise error

    with pytest.raises(ConfigError, match=r"^trace: these options give no valid workload: a b$"):
        build_workload(Broken(), seed=0)
