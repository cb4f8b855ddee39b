"""LRU keys and the FCFS order."""

import numpy as np

from policies.batching.fcfs import FCFS
from policies.eviction.lru import LRU
from policies.routing.round_robin import RoundRobin
from sim.cluster_spec import ClusterSpec
from sim.interfaces import EvictionPolicy
from sim.prefix_tree import PrefixTree
from sim.records import SimulationResult
from sim.simulation import simulate
from sim.vllm_v1 import VllmV1
from sim.workload import Workload
from tests.engine_runs import ConstantCost
from tests.unit.policies.clusters import play


class KeyedLRU(LRU):
    """LRU that the engine has to ask for keys."""

    is_release_order = False


def grouped(groups: list[int], eviction: type[EvictionPolicy] | None) -> SimulationResult:
    """One request at a time, each of a group with 4 shared blocks; the cache has 10 blocks."""
    n = len(groups)
    workload = Workload(
        arrival_s=np.arange(0, 10 * n, 10, dtype=np.float64),
        prompt_tokens=np.full(n, 65),
        output_tokens=np.ones(n, dtype=np.int64),
        path_offsets=np.arange(n + 1),
        path_nodes=np.array(groups),
        tree=PrefixTree.from_parents(np.full(9, -1), np.full(9, 64)),
    )
    spec = ClusterSpec(
        num_instances=1,
        num_gpu_blocks=11,
        rules=VllmV1(1, 1000),
        cost=ConstantCost(),
        batching=lambda _: FCFS(),
        router=RoundRobin(),
        eviction=eviction,
        check=True,
    )
    return simulate(workload, spec)


def test_lru_keys_grow_with_every_release_and_with_nothing_else() -> None:
    keys = [LRU().key(owner, 7 - i, 3, i) for i, owner in enumerate([5, -1, 5, 2])]
    assert keys == [0.0, 1.0, 2.0, 3.0]


def test_lru_keeps_the_prefix_used_last() -> None:
    # Two prefixes of 4 blocks fit 10 blocks beside the private one. Group 0 is used again before
    # group 2 comes, so group 1 has to go.
    result = grouped([0, 1, 0, 2, 0, 1], LRU)
    assert result.requests.cached_tokens.tolist() == [0, 0, 64, 0, 64, 0]


def test_lru_by_release_order_by_key_and_by_default_are_one() -> None:
    groups = np.random.default_rng(0).integers(0, 4, 300).tolist()
    cached = [
        grouped(groups, policy).requests.cached_tokens.tolist() for policy in (LRU, KeyedLRU, None)
    ]
    assert cached[0] == cached[1] == cached[2]
    assert 0 < sum(cached[0]) < 64 * 299


def test_fcfs_admits_in_order_of_arrival() -> None:
    # One seat, outputs of 3, 1, 2 seconds.
    result = play(RoundRobin(), [0.0, 0.2, 0.4], outputs=[3, 1, 2], num_instances=1)
    assert result.requests.admitted_s.tolist() == [0.0, 3.0, 4.0]


def test_fcfs_lets_nobody_overtake_a_head_that_does_not_fit() -> None:
    # 10 blocks: request 0 holds 6 until 4 s; request 1 needs 6, request 2 only 1.
    result = play(
        RoundRobin(),
        [0.0, 0.5, 0.6],
        prompts=[90, 90, 8],
        outputs=[4, 1, 1],
        num_instances=1,
        max_num_seqs=8,
        num_gpu_blocks=11,
    )
    assert result.requests.admitted_s.tolist() == [0.0, 4.0, 4.0]


def test_fcfs_takes_a_preempted_request_before_later_arrivals() -> None:
    # 4 blocks, prompts of 2 full ones. The first decode needs a block each, so request 1 loses its
    # KV and then needs 3. Request 2 needs one, which is free, but waits behind it until 6 s.
    result = play(
        RoundRobin(),
        [0.0, 0.0, 0.5],
        prompts=[32, 32, 8],
        outputs=[6, 6, 1],
        num_instances=1,
        max_num_seqs=2,
        num_gpu_blocks=5,
    )
    requests = result.requests
    assert requests.num_preemptions.tolist() == [0, 1, 0]
    assert requests.admitted_s.tolist() == [0.0, 0.0, 6.0]
    assert requests.finish_s.tolist() == [6.0, 11.0, 7.0]
