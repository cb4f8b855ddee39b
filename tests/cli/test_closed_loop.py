"""A closed loop from the command line, also with a source of one's own."""

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.conftest import TINY, Flocksim
from traces.schema import TraceTable

HERE = f"{__name__}.TwoTurns"


@dataclass(frozen=True, slots=True)
class TwoTurns:
    """Pairs of requests, the second one second after the first has ended; one user at a time."""

    num_pairs: int = 3

    def load(self, seed: int) -> TraceTable:
        n = 2 * self.num_pairs
        is_second = np.arange(n) % 2 == 1
        return TraceTable(
            arrival_s=np.zeros(n),
            prompt_tokens=np.full(n, 32),
            output_tokens=np.full(n, 4),
            after=np.where(is_second, np.arange(n) - 1, -1),
            delay_s=np.where(is_second, 1.0, 0.25),
            concurrency=1,
            provenance={"format": "two_turns"},
        )


def test_users_of_a_generator(flocksim: Flocksim) -> None:
    run = flocksim(*TINY, "trace.arrivals={kind: closed_loop, concurrency: 32}")
    result = json.loads((run.directory / "result.json").read_text())
    assert (run.code, result["regime"], result["metrics"]["num_finished"]) == (0, "closed_loop", 40)
    assert "regime: closed_loop (users wait for their answers" in run.out
    assert "note: 32 users send the requests, each the next when its last one has ended" in run.out
    rows = pq.read_table(run.directory / "requests.parquet").to_pylist()
    ends = sorted(row["finish_s"] for row in rows)
    assert [row["arrival_s"] for row in rows] == [0.0] * 32 + ends[:8]


def test_a_source_of_ones_own(flocksim: Flocksim, tmp_path: Path) -> None:
    (tmp_path / "conf" / "trace").mkdir(parents=True)
    (tmp_path / "conf" / "trace" / "two_turns.yaml").write_text(f"_target_: {HERE}\nnum_pairs: 3\n")
    run = flocksim(f"hydra.searchpath=[file://{tmp_path}/conf]", "trace=two_turns")
    assert run.code == 0, run.err
    rows = pq.read_table(run.directory / "requests.parquet").to_pylist()
    assert [row["after"] for row in rows] == [None, 0, None, 2, None, 4]
    assert rows[0]["arrival_s"] == rows[0]["nominal_arrival_s"] == 0.0
    waited = [b["arrival_s"] - a["finish_s"] for a, b in pairwise(rows)]
    assert waited == pytest.approx([1.0, 0.25, 1.0, 0.25, 1.0])
    assert "note: 1 user sends the requests that follow no other" in run.out
