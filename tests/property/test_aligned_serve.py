"""AlignedServe over random workloads: exact macro-stepping, conservation, nobody left behind."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.batching.aligned.controller import AlignedServe
from sim.disaggregation.spec import LinkSpec
from sim.interfaces import CostModel
from sim.records import SimulationResult
from tests.disaggregated_runs import run_disaggregated
from tests.engine_runs import ConstantCost, LinearCost
from tests.property.test_disaggregated_macro_stepping import columns
from tests.twin.workloads import random_workload

options = st.fixed_dictionaries(
    {
        "k_min": st.sampled_from([1, 2, 3, 6]),
        "batch_ratio": st.sampled_from([0.3, 0.4, 1.0]),
        "leaf_tokens": st.sampled_from([1, 4, 16]),
        "fills": st.sampled_from(["node", "widen"]),
        "forms": st.sampled_from(["k_min", "at_once"]),
        "switch_below": st.sampled_from([None, 1, 4]),
        "candidate_requests_ratio": st.sampled_from([0.0, 0.2, 0.6]),
        "prefetch": st.booleans(),
        "length_aware": st.booleans(),
        "max_wait_s": st.sampled_from([None, 0.01, 1.0]),
    }
)
costs: st.SearchStrategy[CostModel] = st.sampled_from([ConstantCost(0.01), LinearCost()])


def run(seed: int, feeder: dict[str, Any], **more: Any) -> tuple[SimulationResult, AlignedServe]:
    """A run, and the controller that it had."""
    workload, limits = random_workload(seed, structured=True, step_s=0.01)
    usable = limits["num_gpu_blocks"] - 1
    made: list[AlignedServe] = []

    def make() -> AlignedServe:
        made.append(AlignedServe(**feeder))
        return made[-1]

    # Bytes as tokens; a small pool holds one request of the largest size.
    pool = 10**9 if more.pop("large_pool") else 16 * usable
    buffer, rate = more.pop("buffer"), more.pop("rate")
    if not feeder["prefetch"]:
        buffer, feeder = 0, {**feeder, "candidate_requests_ratio": None}
    if not feeder["length_aware"]:
        feeder = {**feeder, "leaf_tokens": None, "fills": None}
    result = run_disaggregated(
        workload,
        feeder=make,
        usable_blocks=usable,
        decode_blocks=int(more.pop("room") * usable),
        seats=limits["max_num_seqs"],
        budget=limits["max_num_batched_tokens"],
        block_tokens=16,
        bytes_per_s=4 * rate,
        parts={
            "host_link": LinkSpec(latency_s=0.001, bytes_per_s=rate),
            "host_pool_bytes": pool,
            "prefill_buffer_bytes": buffer,
        },
        **more,
    )
    return result, made[-1]


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    feeder=options,
    cost=costs,
    num_prefill=st.sampled_from([1, 1, 2]),
    num_decode=st.sampled_from([1, 1, 3]),
    large_pool=st.booleans(),
    buffer=st.sampled_from([120, 10**6]),
    rate=st.sampled_from([1e12, 1e4, 1e2]),
    room=st.sampled_from([1.0, 1.3, 6.0]),
    seats=st.sampled_from([2, 64]),
)
def test_macro_steps_on_and_off_give_bitwise_the_same_and_all_requests_finish(
    seed: int,
    feeder: dict[str, Any],
    cost: CostModel,
    num_prefill: int,
    num_decode: int,
    large_pool: bool,
    buffer: int,
    rate: float,
    room: float,
    seats: int,
) -> None:
    found = []
    for macro_steps in (True, False):
        result, controller = run(
            seed,
            feeder,
            cost=cost,
            num_prefill=num_prefill,
            num_decode=num_decode,
            large_pool=large_pool,
            buffer=buffer,
            rate=rate,
            room=room,
            decode_seats=seats,
            macro_steps=macro_steps,
        )
        log = controller.log
        assert not result.num_unfinished
        assert result.handover is not None
        moved = np.flatnonzero(result.handover.is_handed_over)
        assert sorted(log.batch_of) == moved.tolist()
        assert log.num_batch_requests + log.num_topped_up == len(moved) + log.num_evicted
        assert log.pool_bytes == 0
        found.append((columns(result), log.batch_of, log.first_asked_s, log.pool_byte_seconds))
    assert found[0] == found[1]
