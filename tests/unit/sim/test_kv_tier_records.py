"""Records and figures of the tiers behind the prefix cache, as `simulate()` hands them back."""

import pytest

from sim.metrics import counted_requests, summarize
from tests.engine_runs import run_engine
from tests.tiered_runs import run_tiered
from tests.twin.stories import Ask, workload_of

WORKLOAD = workload_of([Ask(0, 13, 1, (0,)), Ask(2, 16, 1), Ask(5, 13, 1, (0,))], [(-1, 12)])
"""The second request evicts the prefix of the first one, the third one loads it from the host."""


def test_hits_and_traffic_are_told_tier_by_tier() -> None:
    result = run_tiered(WORKLOAD, usable_blocks=4)
    metrics = summarize(result, slo_ttft_s=2, slo_tpot_s=1)
    assert metrics["prefix_hit_ratio"] == 0
    assert metrics["prefix_hit_host_ratio"] == metrics["prefix_hit_total_ratio"] == 12 / 42
    assert metrics["prefix_hit_remote_ratio"] == 0
    assert metrics["load_wait_mean_s"] == metrics["load_wait_p99_s"] == pytest.approx(0.003)
    assert (metrics["num_kv_loads"], metrics["kv_host_loaded_bytes"]) == (1, 3)
    assert metrics["kv_host_written_bytes"] == metrics["kv_host_resident_bytes"] == 7
    assert (metrics["kv_remote_loaded_bytes"], metrics["kv_dropped_bytes"]) == (0, 0)


def test_figures_of_requests_leave_the_warm_up_out() -> None:
    result = run_tiered(WORKLOAD, usable_blocks=4)
    counted = counted_requests(result, warmup_requests=2)
    metrics = summarize(result, slo_ttft_s=2, slo_tpot_s=1, is_counted=counted)
    assert metrics["prefix_hit_host_ratio"] == 12 / 13
    metrics = summarize(result, slo_ttft_s=2, slo_tpot_s=1, is_counted=~counted)
    assert (metrics["prefix_hit_host_ratio"], metrics["load_wait_mean_s"]) == (0, None)


def test_without_tiers_there_are_no_such_figures() -> None:
    result = run_engine(WORKLOAD, usable_blocks=4)
    assert result.tiers is None
    metrics = summarize(result, slo_ttft_s=2, slo_tpot_s=1)
    assert not [name for name in metrics if name.startswith(("kv_host", "load_wait"))]
