"""Invariants 13 and 14 find records and states that cannot be."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sim import simulation
from sim.disaggregation.cluster import DisaggregatedCluster
from sim.disaggregation.handover import Handover
from sim.disaggregation.outcome import handover_records
from sim.disaggregation.prefill_instance import PrefillInstance
from sim.disaggregation.records import HandoverRecords
from sim.errors import InvariantError
from sim.transfer_network import Transfer
from tests.disaggregated_runs import run_disaggregated
from tests.twin.stories import Ask, workload_of

ASKS = (Ask(0.0, 8, 3), Ask(0.5, 5, 4))


def play() -> None:
    run_disaggregated(workload_of(ASKS), bytes_per_s=8.0)


Change = Callable[[HandoverRecords], dict[str, Any]]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda r: {"decode_start_s": r.transfer_end_s - 0.1}, "13: decodes before its KV"),
        (lambda r: {"transfer_end_s": r.transfer_end_s - 5.0}, "13: its KV was moved before"),
        (lambda r: {"decode_start_s": r.decode_start_s + 99.0}, "13: ends before it decodes"),
        (lambda r: {"decode_start_s": np.full(2, np.nan)}, "13: decodes without a hand-over"),
        (lambda r: {"received_bytes": (0, 17)}, "14: 16 bytes sent, 17 received"),
        (lambda r: {"transfer_bytes": r.transfer_bytes + 4}, "14: KV of 24 bytes"),
    ],
)
def test_records_that_cannot_be(monkeypatch: pytest.MonkeyPatch, change: Change, why: str) -> None:
    def broken(cluster: DisaggregatedCluster, end_s: float) -> HandoverRecords:
        records = handover_records(cluster, end_s)
        return replace(records, **change(records))

    monkeypatch.setattr(simulation, "handover_records", broken)
    with pytest.raises(InvariantError, match=why):
        play()


def test_a_link_that_loses_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Transfer, "_count", lambda self, now_s: None)
    with pytest.raises(InvariantError, match="14: a link carried 0"):
        play()


def test_kv_that_is_never_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    def keep(self: PrefillInstance, request: Any, now_s: float) -> None:
        pass

    monkeypatch.setattr(PrefillInstance, "release_held", keep)
    with pytest.raises(InvariantError, match="14: KV is left on instance 0"):
        play()


def test_a_request_that_is_counted_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Handover, "_count", lambda self, change, now_s: None)
    with pytest.raises(InvariantError, match="10: sojourn times"):
        play()
