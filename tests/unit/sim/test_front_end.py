"""The front end, by hand: both ways, hashing, closed loops, and what the figures make of it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from policies.routing.round_robin import RoundRobin
from sim.errors import ConfigError, InvariantError
from sim.front_end import FrontEnd
from sim.front_end_metrics import FrontEndLoad, front_end_load
from sim.front_end_records import engine_view, user_view
from sim.inter_token import token_gaps
from sim.interfaces import ClusterView, Router
from sim.invariants import check_result
from sim.metrics import summarize
from sim.records import FrontEndRecords, SimulationResult
from sim.request import Request
from sim.simulation import simulate
from sim.workload import Workload
from tests.engine_runs import cluster_of, run_engine

NAN = float("nan")


def workload_of(*asks: tuple[float, int, int], **columns: Any) -> Workload:
    """Requests (arrival in seconds, prompt tokens, output tokens)."""
    arrivals, prompts, outputs = (np.array(values) for values in zip(*asks, strict=True))
    return Workload.without_sharing(arrivals.astype(float), prompts, outputs, **columns)


def records_of(result: SimulationResult) -> FrontEndRecords:
    assert result.front_end is not None
    return result.front_end


def test_both_ways_and_hashing_of_three_requests() -> None:
    workload = workload_of((0.0, 4, 3), (0.0, 8, 2), (0.5, 4, 1))
    front_end = FrontEnd(
        delay_s=0.25, request_s=0.5, token_s=0.125, hash_block_s=0.5, output_token_s=0.25
    )
    result = run_engine(workload, front_end=front_end)
    records = records_of(result)
    # The API server is done at 1, 2.5 and 3.5, the router has them 0.25 later; hashing takes 0.5,
    # 1 (two blocks) and 0.5.
    assert records.engine_arrival_s.tolist() == [1.75, 3.75, 4.25]
    assert result.requests.arrival_s.tolist() == [0.0, 0.0, 0.5]
    assert result.requests.admitted_s.tolist() == [1.75, 3.75, 4.75]
    # Steps make 1, 1, 2 and 2 tokens; the last two are handed out one after the other.
    assert result.instances[0].step_end_s.tolist() == [2.75, 3.75, 4.75, 5.75]
    assert records.step_delivered_s[0].tolist() == [3.0, 4.0, 5.25, 6.25]
    assert records.first_token_s.tolist() == [3.0, 5.25, 6.25]
    assert records.finish_s.tolist() == [5.25, 6.25, 6.25]
    assert (records.work_in_s, records.work_out_s) == (3.5, 1.5)


def test_the_figures_are_those_of_the_users_and_the_parts_sum_to_ttft() -> None:
    workload = workload_of((0.0, 4, 3), (0.0, 8, 2), (0.5, 4, 1))
    front_end = FrontEnd(request_s=0.5, token_s=0.125, hash_block_s=0.5, output_token_s=0.25)
    result = run_engine(workload, front_end=front_end)
    figures: dict[str, Any] = dict(summarize(result, slo_ttft_s=9, slo_tpot_s=9))
    records = records_of(result)
    ttft_s = records.first_token_s - workload.arrival_s
    assert figures["ttft_mean_s"] == pytest.approx(ttft_s.mean())
    assert figures["e2e_mean_s"] == pytest.approx((records.finish_s - workload.arrival_s).mean())
    parts = ("frontend_in", "queue", "prefill", "frontend_out")
    assert sum(figures[f"{name}_mean_s"] for name in parts) == pytest.approx(ttft_s.mean())
    assert figures["makespan_s"] == records.finish_s.max()
    assert figures["frontend_in_busy_ratio"] == pytest.approx(3.5 / records.finish_s.max())
    assert figures["frontend_out_busy_ratio"] == pytest.approx(1.5 / records.finish_s.max())
    assert figures["frontend_busy_ratio"] == pytest.approx(5.0 / records.finish_s.max())


def test_without_a_front_end_there_are_no_such_figures() -> None:
    result = run_engine(workload_of((0.0, 4, 3)))
    assert result.front_end is None
    assert user_view(result) is engine_view(result) is result
    figures = summarize(result, slo_ttft_s=9, slo_tpot_s=9)
    assert not [name for name in figures if name.startswith(("frontend", "prefill_"))]
    assert front_end_load(result) is None


def test_gaps_are_those_between_deliveries() -> None:
    # Steps end at 1, 2 and 3; the tokens of the first ones take 1.5 s each.
    result = run_engine(workload_of((0.0, 4, 3)), front_end=FrontEnd(output_token_s=1.5))
    assert records_of(result).step_delivered_s[0].tolist() == [2.5, 4.0, 5.5]
    gaps_s, counts = token_gaps(user_view(result))
    assert np.repeat(gaps_s, counts).tolist() == [1.5, 1.5]
    assert token_gaps(result)[0].tolist() == [1.0, 1.0]
    tpot_s = summarize(result, slo_ttft_s=9, slo_tpot_s=9)["tpot_mean_s"]
    assert tpot_s == 1.5


def test_one_server_hands_out_the_tokens_of_all_instances() -> None:
    workload = workload_of((0.0, 4, 1), (0.0, 4, 1), (0.0, 4, 1))
    result = run_engine(
        workload, front_end=FrontEnd(output_token_s=0.25), num_instances=3, router=RoundRobin()
    )
    # All steps end at 1; the lower instance comes first.
    assert records_of(result).finish_s.tolist() == [1.25, 1.5, 1.75]


def test_every_engine_hashes_its_own_prompts() -> None:
    workload = workload_of((0.0, 8, 1), (0.0, 8, 1), (0.0, 8, 1))
    result = run_engine(
        workload, front_end=FrontEnd(hash_block_s=1.0), num_instances=2, router=RoundRobin()
    )
    assert records_of(result).engine_arrival_s.tolist() == [2.0, 2.0, 4.0]


def test_a_prompt_without_a_full_block_is_not_hashed() -> None:
    result = run_engine(workload_of((0.5, 3, 1)), front_end=FrontEnd(hash_block_s=1.0))
    assert records_of(result).engine_arrival_s.tolist() == [0.5]


def test_an_engine_does_not_wait_for_the_way_out() -> None:
    slow = run_engine(workload_of((0.0, 4, 9)), front_end=FrontEnd(output_token_s=100.0))
    assert slow.instances[0].step_end_s.tolist() == [float(k) for k in range(1, 10)]


class Watching(Router):
    """Notes what it sees of the only instance."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, int, int, int]] = []

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        counters = (cluster.num_requests, cluster.num_waiting, cluster.queued_prefill_tokens)
        requests, waiting, tokens = (counter[0] for counter in counters)
        self.seen.append((now_s, requests, waiting, tokens))
        return 0


@pytest.mark.parametrize("view", [{}, {"view_delay_s": 0.25}, {"publish_period_s": 0.25}])
def test_a_router_counts_requests_that_are_being_hashed_once(view: dict[str, float]) -> None:
    router = Watching()
    workload = workload_of((0.0, 8, 1), (0.5, 4, 1), (2.75, 4, 1), (9.0, 4, 1))
    run_engine(workload, front_end=FrontEnd(hash_block_s=1.0), router=router, **view)
    # The first is hashed at 2 and runs until 3; the second is hashed at 3.
    assert router.seen == [(0.0, 0, 0, 0), (0.5, 1, 1, 8), (2.75, 2, 1, 4), (9.0, 0, 0, 0)]


def test_a_follow_up_starts_from_the_delivery_and_passes_the_way_in() -> None:
    workload = workload_of((0.0, 4, 2), (0.0, 4, 1), after=np.array([-1, 0]))
    front_end = FrontEnd(delay_s=0.125, request_s=0.5, hash_block_s=0.25, output_token_s=0.0625)
    result = run_engine(replace(workload, delay_s=np.array([0.0, 3.0])), front_end=front_end)
    records = records_of(result)
    assert records.engine_arrival_s[0] == 0.875
    assert result.requests.finish_s[0] == 2.875
    assert records.finish_s[0] == 2.9375
    assert result.requests.arrival_s[1] == 5.9375
    assert records.engine_arrival_s[1] == 5.9375 + 0.875


def test_users_wait_for_the_delivery_and_take_requests_in_its_order() -> None:
    # Two users. The first answer is handed out from 1 to 2, the second from 2 to 3; the third
    # request is the first user's.
    workload = workload_of((0.0, 4, 1), (0.0, 4, 1), (0.0, 4, 1), concurrency=2)
    result = run_engine(
        workload, front_end=FrontEnd(output_token_s=1.0), num_instances=2, router=RoundRobin()
    )
    assert result.requests.arrival_s.tolist() == [0.0, 0.0, 2.0]
    assert records_of(result).finish_s.tolist() == [2.0, 3.0, 4.0]


def test_users_learn_of_a_rejection_at_the_router() -> None:
    # The second request fits no cache; it is rejected when the way in has served it.
    workload = workload_of((0.0, 4, 1), (0.0, 4000, 1), (0.0, 4, 1), concurrency=2)
    result = run_engine(workload, front_end=FrontEnd(request_s=0.25, output_token_s=1.0))
    assert result.num_rejected == 1
    assert records_of(result).engine_arrival_s.tolist() == [0.25, 0.5, 0.75]
    assert result.requests.arrival_s.tolist() == [0.0, 0.0, 0.5]


def test_what_a_horizon_finds_in_the_front_end_has_arrived_and_is_unfinished() -> None:
    workload = workload_of((0.0, 4, 1), (0.0, 4, 1), (1.0, 4, 1), (9.0, 4, 1))
    spec = cluster_of(front_end=FrontEnd(request_s=2.0, hash_block_s=0.5))
    result = simulate(workload, spec, horizon_s=4.25)
    assert result.num_unfinished == 3
    assert str(result.requests.arrival_s.tolist()) == str([0.0, 0.0, 1.0, NAN])
    assert str(records_of(result).engine_arrival_s.tolist()) == str([2.5, NAN, NAN, NAN])
    assert records_of(result).work_in_s == 2.0


def test_load_is_work_per_second_of_what_comes() -> None:
    asks = [(k * 0.5, 4, 2) for k in range(21)]
    result = run_engine(
        workload_of(*asks), front_end=FrontEnd(request_s=0.25, output_token_s=0.125)
    )
    load = front_end_load(result)
    assert load is not None
    steps_s = result.instances[0].step_end_s
    assert load.offered_in_ratio == 21 * 0.25 / 10
    assert load.offered_out_ratio == 42 * 0.125 / (steps_s[-1] - steps_s[0])
    assert not load.is_saturated
    flood = replace(result, requests=replace(result.requests, arrival_s=np.zeros(21)))
    at_once = front_end_load(flood)
    assert at_once is not None
    assert at_once.offered_in_ratio == float("inf")
    assert at_once.is_saturated


@pytest.mark.parametrize(
    ("num_requests", "offered_in", "offered_out", "busy_out", "is_saturated"),
    [
        (20, 0.9, 0.9, 0.5, False),
        (20, 0.95, 0.1, 0.1, True),
        (20, 0.1, 1.5, 0.1, True),
        (20, 0.1, 0.1, 0.75, True),
        (19, 9.0, 9.0, 9.0, False),
    ],
)
def test_saturated_is_95_percent_of_either_way_or_of_one_process_for_both(
    num_requests: int, offered_in: float, offered_out: float, busy_out: float, is_saturated: bool
) -> None:
    load = FrontEndLoad(num_requests, offered_in, offered_out, 0.25, busy_out)
    assert load.is_saturated == is_saturated


@pytest.mark.parametrize("value", [-1e-9, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["delay_s", "request_s", "token_s", "output_token_s"])
def test_a_constant_must_be_finite_and_not_negative(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"^frontend.{name}={value}: must be finite and >= 0$"):
        run_engine(workload_of((0.0, 4, 1)), front_end=FrontEnd(**{name: value}))


def test_hashing_without_a_prefix_cache_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"frontend\.hash_block_s=1 has no effect"):
        run_engine(
            workload_of((0.0, 4, 1)), front_end=FrontEnd(hash_block_s=1), prefix_caching=False
        )


@pytest.mark.parametrize(
    ("column", "value", "rule"),
    [
        ("engine_arrival_s", np.array([-1.0]), "12: passed on before its arrival"),
        ("engine_arrival_s", np.array([9.0]), "3: admitted before arrival"),
        ("step_delivered_s", (np.array([0.5, 3.0]),), "12: instance 0 has tokens delivered"),
        ("step_delivered_s", (np.array([3.0, 2.5]),), "12: instance 0 has tokens overtake"),
    ],
)
def test_12_a_front_end_that_breaks_causality_is_found(column: str, value: Any, rule: str) -> None:
    result = run_engine(workload_of((0.0, 4, 2)), front_end=FrontEnd(output_token_s=0.25))
    broken = replace(result, front_end=replace(records_of(result), **{column: value}))
    options: dict[str, Any] = {
        "max_num_batched_tokens": 64,
        "max_model_len": None,
        "admits_in_arrival_order": True,
    }
    check_result(result, **options)
    with pytest.raises(InvariantError, match=rule):
        check_result(broken, **options)
