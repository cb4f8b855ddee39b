"""Requests of the warm-up count in no figure of requests."""

import numpy as np
import pytest

from sim.metrics import counted_requests, summarize
from sim.records import SimulationResult
from sim.workload import Workload
from tests.engine_runs import LinearCost, run_engine


def three_in_turn() -> SimulationResult:
    """Steps of 1 s, one request at a time: at 0, 10 and 20 s, of 2, 3 and 5 output tokens."""
    return run_engine(
        Workload.without_sharing(
            arrival_s=np.array([0.0, 10.0, 20.0]),
            prompt_tokens=np.array([8, 12, 16]),
            output_tokens=np.array([2, 3, 5]),
        )
    )


@pytest.mark.parametrize(
    ("warmup_s", "warmup_requests", "counted"),
    [
        (0.0, 0, [True, True, True]),
        (10.0, 0, [False, True, True]),
        (10.1, 0, [False, False, True]),
        (0.0, 2, [False, False, True]),
        (10.1, 1, [False, False, True]),
        (0.0, 3, [False, False, False]),
    ],
)
def test_what_arrives_earlier_or_is_among_the_first_does_not_count(
    warmup_s: float, warmup_requests: int, counted: list[bool]
) -> None:
    assert counted_requests(three_in_turn(), warmup_s, warmup_requests).tolist() == counted


def test_figures_by_hand() -> None:
    result = three_in_turn()
    whole = summarize(result, slo_ttft_s=1, slo_tpot_s=1)
    m = summarize(
        result, slo_ttft_s=1, slo_tpot_s=1, is_counted=counted_requests(result, warmup_s=10.0)
    )
    assert (m["num_requests"], m["num_finished"], m["num_warmup_requests"]) == (2, 2, 1)
    assert (whole["num_requests"], whole["num_warmup_requests"]) == (3, 0)
    # From the arrival at 10 s to the last token at 25 s; before, from 0 s.
    assert (m["makespan_s"], whole["makespan_s"]) == (15, 25)
    assert m["request_rate_per_s"] == 2 / 15
    assert m["output_tokens_per_s"] == 8 / 15
    assert m["total_tokens_per_s"] == (8 + 12 + 16) / 15
    assert (m["e2e_mean_s"], whole["e2e_mean_s"]) == (4, 10 / 3)
    assert m["goodput_per_s"] == 2 / 15
    assert m["slo_attainment_ratio"] == 1
    for name in ("mean_batch_size", "num_preemptions", "kv_usage_mean_ratio", "hbm_bytes"):
        assert m[name] == whole[name]


def test_gaps_between_tokens_are_those_of_requests_that_count() -> None:
    """The first request waits for the second one's long prefill steps; the second has one gap."""
    result = run_engine(
        Workload.without_sharing(
            arrival_s=np.array([0.0, 0.001]),
            prompt_tokens=np.array([8, 64]),
            output_tokens=np.array([9, 2]),
        ),
        budget=16,
        seats=2,
        cost=LinearCost(),
    )
    requests = result.requests
    gap_s = requests.finish_s[1] - requests.first_token_s[1]
    whole = summarize(result, slo_ttft_s=9, slo_tpot_s=9)
    second = summarize(
        result, slo_ttft_s=9, slo_tpot_s=9, is_counted=counted_requests(result, 0.0, 1)
    )
    assert second["itl_mean_s"] == second["itl_p99_s"] == gap_s
    assert whole["itl_p99_s"] is not None
    assert whole["itl_p99_s"] > gap_s
    assert second["ttft_mean_s"] == requests.first_token_s[1] - 0.001


def test_nothing_that_counts_gives_no_figure() -> None:
    result = three_in_turn()
    m = summarize(result, slo_ttft_s=1, slo_tpot_s=1, is_counted=counted_requests(result, 0.0, 3))
    assert (m["num_requests"], m["num_warmup_requests"], m["makespan_s"]) == (0, 3, 0)
    assert m["ttft_mean_s"] is None
    assert m["itl_p99_s"] is None
    assert m["request_rate_per_s"] is None
    assert m["slo_attainment_ratio"] is None
    assert m["prefix_hit_ratio"] is None
