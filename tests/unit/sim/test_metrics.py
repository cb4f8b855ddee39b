"""The figures of a run, on cases small enough to compute by hand."""

import numpy as np
import pytest

from sim.interfaces import AdmissionPolicy
from sim.metrics import Metrics, makespan_of, prefix_hit_ratio, summarize, tokens_generated, tpot_of
from sim.records import SimulationResult
from sim.request import Request
from tests.engine_runs import run_engine
from tests.twin.stories import Ask, workload_of


def figures(result: SimulationResult, ttft_s: float = 2.0, tpot_s: float = 1.0) -> Metrics:
    return summarize(result, slo_ttft_s=ttft_s, slo_tpot_s=tpot_s)


@pytest.fixture
def three() -> SimulationResult:
    """Two seats. Request 0: tokens at 1, 2, 3; request 1: token at 2; request 2: at 3 and 4."""
    return run_engine(workload_of([Ask(0, 4, 3), Ask(0.5, 8, 1), Ask(0.75, 4, 2)]), seats=2)


def test_counts_and_rates(three: SimulationResult) -> None:
    found = figures(three)
    assert [found[f"num_{n}"] for n in ("requests", "finished", "rejected", "unfinished")] == [
        3,
        3,
        0,
        0,
    ]
    assert found["makespan_s"] == 4.0
    assert found["request_rate_per_s"] == 0.75
    assert found["output_tokens_per_s"] == 6 / 4
    assert found["total_tokens_per_s"] == (6 + 16) / 4
    assert found["num_gpu_blocks"] == 101
    assert found["num_preemptions"] == 0


def test_latencies_are_counted_from_the_arrival(three: SimulationResult) -> None:
    found = figures(three)
    ttft, e2e, queue = [1.0, 1.5, 2.25], [3.0, 1.5, 3.25], [0.0, 0.5, 1.25]
    for name, values in (("ttft", ttft), ("e2e", e2e), ("queue", queue)):
        assert found[f"{name}_mean_s"] == pytest.approx(np.mean(values), rel=1e-12)
        for p in (50, 90, 99):
            assert found[f"{name}_p{p}_s"] == pytest.approx(np.percentile(values, p), rel=1e-12)


def test_tpot_leaves_one_token_outputs_out(three: SimulationResult) -> None:
    found = figures(three)
    assert np.isnan(tpot_of(three)[1])
    assert tpot_of(three)[[0, 2]].tolist() == [1.0, 1.0]
    assert [found["tpot_mean_s"], found["tpot_p99_s"]] == [1.0, 1.0]


@pytest.mark.parametrize(
    ("ttft_s", "tpot_s", "good"),
    [(3, 1, 3), (2.25, 1, 3), (2.2, 1, 2), (1.0, 1, 1), (0.9, 1, 0), (3, 0.99, 1)],
)
def test_goodput_counts_requests_that_meet_all_their_slos_and_one_token_meets_tpot(
    three: SimulationResult, ttft_s: float, tpot_s: float, good: int
) -> None:
    found = figures(three, ttft_s, tpot_s)
    assert found["goodput_per_s"] == good / 4
    assert found["slo_attainment_ratio"] == pytest.approx(good / 3)


def test_the_batch_is_weighted_by_step_time(three: SimulationResult) -> None:
    # Steps of 1 s with 1, 2, 2 and 1 requests.
    assert figures(three)["mean_batch_size"] == 6 / 4


def test_an_idle_time_is_in_the_makespan_but_not_in_the_batch() -> None:
    found = figures(run_engine(workload_of([Ask(1, 4, 1), Ask(9, 4, 1)])))
    assert (found["makespan_s"], found["mean_batch_size"]) == (9.0, 1.0)


def test_the_hit_ratio_counts_first_admissions() -> None:
    asks = [Ask(0, 8, 1, (0,)), Ask(5, 12, 1, (0,))]
    assert prefix_hit_ratio(run_engine(workload_of(asks, [(-1, 8)]))) == 8 / 20
    preempted = run_engine(workload_of([Ask(0, 8, 2), Ask(0, 16, 2)]), usable_blocks=6)
    assert preempted.requests.num_preemptions.sum() == 1
    assert prefix_hit_ratio(preempted) == 0.0  # its hits at the second admission do not count


def test_tokens_of_a_preempted_request_are_the_sum_of_its_intervals() -> None:
    result = run_engine(workload_of([Ask(0, 8, 3)] * 3), usable_blocks=6)
    assert tokens_generated(result).tolist() == [3, 3, 3]
    assert tpot_of(result).tolist() == [1.0, 1.0, 2.0]  # steps 1, 4 and 5


class Nobody(AdmissionPolicy):
    def admit(self, request: Request, now_s: float) -> bool:
        return False


@pytest.mark.parametrize("kind", ["all refused", "none offered"])
def test_figures_without_requests_behind_them_are_none_and_never_nan(kind: str) -> None:
    workload = workload_of([Ask(0, 4, 3), Ask(2, 4, 1)] if kind == "all refused" else [])
    result = run_engine(workload, admission=Nobody(), num_instances=2)
    found = figures(result)
    assert found["num_rejected"] == found["num_requests"] == workload.num_requests
    counts = {k: v for k, v in found.items() if v is not None}
    assert counts.keys() == {
        *(
            f"num_{n}"
            for n in ("requests", "finished", "rejected", "unfinished", "warmup_requests")
        ),
        *(("slo_attainment_ratio",) if workload.num_requests else ()),
        *("makespan_s", "hbm_bytes", "num_gpu_blocks", "num_preemptions"),
    }
    assert not any(isinstance(v, float) and np.isnan(v) for v in found.values())
    assert found["makespan_s"] == 0.0


def test_a_refused_request_fails_its_slo_but_is_in_no_latency() -> None:
    workload = workload_of([Ask(0, 4, 3), Ask(0, 999, 1)])
    found = figures(run_engine(workload))
    assert (found["num_rejected"], found["slo_attainment_ratio"]) == (1, 0.5)
    assert (found["ttft_mean_s"], found["e2e_mean_s"]) == (1.0, 3.0)
    assert found["total_tokens_per_s"] == (4 + 3) / 3


def test_unfinished_requests_are_in_throughput_of_tokens_but_in_no_latency() -> None:
    workload = workload_of([Ask(0, 4, 2), Ask(0, 4, 50)])
    result = run_engine(workload, horizon_s=4.5)
    found = figures(result)
    assert makespan_of(result) == found["makespan_s"] == 4.5
    assert (found["num_finished"], found["num_unfinished"]) == (1, 1)
    assert found["output_tokens_per_s"] == (2 + 4) / 4.5
    assert found["e2e_p99_s"] == 2.0
    assert found["goodput_per_s"] == 1 / 4.5


def test_one_token_outputs_alone_have_no_tpot_and_no_itl() -> None:
    found = figures(run_engine(workload_of([Ask(0, 4, 1)] * 3)))
    assert found["num_finished"] == 3
    for name in ("tpot", "itl"):
        assert [found[f"{name}_{k}_s"] for k in ("mean", "p50", "p90", "p99")] == [None] * 4


def test_the_keys_come_in_a_fixed_order_and_do_not_depend_on_the_run(
    three: SimulationResult,
) -> None:
    empty = run_engine(workload_of([]))
    assert list(figures(three)) == list(figures(empty))
