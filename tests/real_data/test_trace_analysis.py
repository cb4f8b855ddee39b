"""Reuse in the public Mooncake traces: the published ratios, and single caches block by block.

The ratios with an unlimited cache were counted with an independent per-block trie.
"""

import numpy as np
import pytest

from sim.workload import Workload
from tests.data_path import real_data_file
from tests.unit.traces.analysis.test_reuse_curve import hits_of_a_cache
from traces.analysis.reuse import reuse_ratio
from traces.analysis.reuse_curve import reuse_curve
from traces.build import build_workload
from traces.readers.mooncake import MooncakeTrace

pytestmark = pytest.mark.real_data

RATIOS = {"conversation": 0.373617, "synthetic": 0.651214}


def workload_of(name: str) -> Workload:
    path = real_data_file(f"traces/mooncake/{name}_trace.jsonl")
    return build_workload(MooncakeTrace(path), seed=0)


@pytest.mark.parametrize("name", RATIOS)
def test_an_unlimited_cache_finds_the_published_share(name: str) -> None:
    workload = workload_of(name)
    assert reuse_ratio(workload, 16) == pytest.approx(RATIOS[name], abs=5e-7)
    curve = reuse_curve(workload)
    assert curve.reuse_ratio[-1] == pytest.approx(RATIOS[name], abs=5e-7)
    assert (np.diff(curve.reuse_ratio) >= 0).all()


@pytest.mark.parametrize("num_blocks", [20_000])
def test_a_limited_cache_finds_what_single_blocks_say(num_blocks: int) -> None:
    workload = workload_of("synthetic")
    found = reuse_curve(workload, cache_blocks=np.array([num_blocks])).reuse_ratio[0]
    hits = hits_of_a_cache(workload, 16, num_blocks)
    assert found == pytest.approx(hits * 16 / int(workload.prompt_tokens.sum()), abs=1e-12)


def test_a_sampled_curve_is_within_three_of_its_errors() -> None:
    workload = workload_of("conversation")
    sampled = reuse_curve(workload, max_uses=10_000, num_certain=200)
    exact = reuse_curve(workload, cache_blocks=sampled.cache_blocks)
    off = np.abs(sampled.reuse_ratio - exact.reuse_ratio)
    # at the largest sizes the last hits may be of nodes of which the sample has none
    assert (off <= 3 * sampled.standard_error + 1e-3).all()
    assert off.max() < 0.05
