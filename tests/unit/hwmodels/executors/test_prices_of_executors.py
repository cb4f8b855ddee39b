"""Steps under executors, worked out by hand from the roofline's own prices."""

from typing import Any

import pytest

from hwmodels.executors.cuda_graph import CudaGraph
from hwmodels.executors.eager import Eager
from hwmodels.executors.executor import Executor, Fitting
from hwmodels.executors.fixed_graphs import padded_chunk
from hwmodels.executors.kernel_prices import padding_times
from hwmodels.executors.kv_rm import KvRm
from hwmodels.executors.static_graph import StaticGraph
from hwmodels.executors.uniform_batch import NOTHING, UniformBatch
from sim.interfaces import PrefillChunk
from sim.records import SimulationResult
from tests.engine_runs import run_engine
from tests.twin.stories import Ask, workload_of
from tests.unit.hwmodels.executors.sites import site_of

SITE = site_of("qwen2_5_0_5b")
COST = SITE.cost
HOST_S = 1e-3
LAYERS = 24
BATCH = UniformBatch(10, 300)
CHUNK = PrefillChunk(100, 200, True)


def test_a_step_of_few_flops_waits_for_its_launches() -> None:
    cost = Eager(launch_s=1e-4).fit(SITE).cost
    launches_s = (LAYERS * 11 + 10) * 1e-4
    assert cost.decode_step_s(BATCH) == pytest.approx(HOST_S - 10e-6 + launches_s)
    parallel = Eager(launch_s=1e-4).fit(site_of("qwen2_5_0_5b", tensor_parallel=2)).cost
    assert parallel.decode_step_s(BATCH) == pytest.approx(
        HOST_S - 10e-6 + (LAYERS * 13 + 10) * 1e-4
    )


def test_a_step_with_prefills_is_launched_in_pieces_or_eagerly() -> None:
    piece_s = 1e-3
    options: dict[str, Any] = {"piece_s": piece_s, "launch_s": 1e-4}
    cost = CudaGraph(**options).fit(SITE).cost  # 110 tokens: captured as 112
    assert cost.mixed_step_s(BATCH, [CHUNK]) == pytest.approx(HOST_S - 10e-6 + LAYERS * piece_s)
    small = CudaGraph(capture_sizes=[8, 16], **options).fit(SITE).cost
    launches_s = (LAYERS * 11 + 10) * 1e-4
    assert small.mixed_step_s(BATCH, [CHUNK]) == pytest.approx(HOST_S - 10e-6 + launches_s)
    hidden = CudaGraph(piece_s=0.0).fit(SITE).cost.mixed_step_s(BATCH, [CHUNK])
    padding_s = padding_times(COST, 110, 112).total_s
    assert hidden == pytest.approx(COST.mixed_step_s(BATCH, [CHUNK]) + padding_s - 10e-6)


def test_a_replay_takes_the_place_of_the_one_in_the_host_time() -> None:
    cost = CudaGraph(capture_sizes=[10], replay_s=60e-6).fit(SITE).cost
    assert cost.decode_step_s(BATCH) == pytest.approx(COST.decode_step_s(BATCH) + 50e-6)


def test_a_static_step_reads_all_slots_over_the_window_of_the_longest() -> None:
    static = StaticGraph(num_slots=40, smallest_bucket_tokens=256).fit(SITE).cost
    for context, window in ((1, 256), (256, 256), (257, 512), (3000, 4096)):
        gpu_s = COST.decode_step_s(UniformBatch(40, window)) - HOST_S
        switch_s = 0.0 if window == 256 else 50e-6  # a graph that is not loaded at start
        step_s = static.decode_step_s(UniformBatch(3, context))
        assert step_s == pytest.approx(HOST_S + gpu_s + switch_s)


def test_prefills_of_fixed_shape_run_one_by_one_padded_to_powers_of_two() -> None:
    assert padded_chunk(CHUNK) == (128, 256, True)
    assert padded_chunk(PrefillChunk(64, 0, False)) == (64, 0, False)
    static = StaticGraph(num_slots=40, smallest_bucket_tokens=512).fit(SITE).cost
    decode_s = COST.decode_step_s(UniformBatch(40, 512)) - HOST_S
    prefill_s = COST.mixed_step_s(NOTHING, [PrefillChunk(128, 256, True)]) - HOST_S
    mixed_s = static.mixed_step_s(BATCH, [CHUNK, CHUNK])
    assert mixed_s == pytest.approx(HOST_S + decode_s + 2 * prefill_s + 20e-6)
    assert static.mixed_step_s(NOTHING, [CHUNK]) == pytest.approx(HOST_S + prefill_s)


def test_a_staged_step_reads_all_slots_over_the_near_window_and_commits() -> None:
    staged = KvRm(num_slots=40, near_window_tokens=512, far_view_tokens=64).fit(SITE).cost
    gpu_s = COST.decode_step_s(UniformBatch(40, 576)) - HOST_S
    assert staged.decode_step_s(BATCH) == pytest.approx(HOST_S + gpu_s + 15e-6)


# -- in an engine: one prompt of 40 tokens and four of output, then the same again ----------------


def served(executor: Executor, **options: Any) -> tuple[SimulationResult, Fitting]:
    fitting = executor.fit(SITE)
    asks = [Ask(0.0, 40, 4), Ask(1.0, 40, 4)]
    result = run_engine(
        workload_of(asks, []),
        cost=fitting.cost,
        block_tokens=16,
        usable_blocks=100,
        record_costs=True,
        **options,
    )
    return result, fitting


def test_transfers_and_commits_of_a_request_by_hand() -> None:
    """Steps: prefill of 40 tokens (blocks 0-2), then three decodes (contexts 41, 42, 43)."""
    executor = KvRm(num_slots=2, group_s=1e-3, has_double_buffer=False)
    result, _ = served(executor)
    assert result.executor is not None
    records, costs = result.executor[0], result.instances[0].costs
    block_bytes, rate = SITE.block_bytes, 0.5 * COST.device.hbm_bytes_per_s
    assert records.transfer_groups is not None
    assert records.transfer_groups.tolist() == [0, 1, 1, 1] * 2
    assert records.transfer_bytes is not None
    assert (records.transfer_bytes / block_bytes).tolist() == [0, 3, 1, 1] * 2
    assert records.commit_s is not None
    assert records.commit_s.tolist() == [15e-6] * 8
    assert records.fragmentation_ratio is not None
    assert records.fragmentation_ratio.tolist() == [0.0] * 8
    assert costs.transfer_s == pytest.approx(2 * (3e-3 + 5 * block_bytes / rate))


def test_all_windows_are_moved_in_every_step_with_gather_full() -> None:
    executor = KvRm(num_slots=2, near_window_tokens=20, gather="full", has_double_buffer=False)
    result, _ = served(executor)
    assert result.executor is not None
    moved = result.executor[0].transfer_bytes
    assert moved is not None
    # Of contexts of 41, 42 and 43 tokens the last 20 begin in block 1.
    assert (moved / SITE.block_bytes).tolist() == [0, 2, 2, 2] * 2


def test_transfers_hide_behind_the_kernels_of_a_step_with_two_buffers() -> None:
    result, _ = served(KvRm(num_slots=2))
    assert result.executor is not None
    assert result.instances[0].costs.transfer_s == 0
    slow, _ = served(KvRm(num_slots=2, group_s=0.1))
    gpu_s = COST.decode_step_s(UniformBatch(2, 4096)) - HOST_S
    moved = [3, 1, 1]
    rate = 0.5 * COST.device.hbm_bytes_per_s
    waits = [0.1 + n * SITE.block_bytes / rate - gpu_s for n in moved]
    assert slow.instances[0].costs.transfer_s == pytest.approx(2 * sum(waits))


def test_two_requests_in_turn_lie_in_each_others_way() -> None:
    """Blocks of 16 tokens; both decode and take the lowest free block in turn."""
    asks = [Ask(0.0, 16, 40), Ask(0.0, 16, 40)]
    fitting = KvRm(num_slots=2).fit(SITE)
    result = run_engine(
        workload_of(asks, []), cost=fitting.cost, block_tokens=16, usable_blocks=100
    )
    assert result.executor is not None
    fragmentation = result.executor[0].fragmentation_ratio
    assert fragmentation is not None
    # Tables 0, 2, 4 and 1, 3, 5: no two neighbours follow one another.
    assert (fragmentation[0], fragmentation[1], fragmentation.max()) == (0.0, 1.0, 1.0)
    gaps = KvRm(num_slots=2, merge_max_gap_blocks=0).fit(SITE)
    assert result.executor[0].transfer_groups is not None
    assert result.executor[0].transfer_groups.tolist()[1:3] == [1, 1]  # blocks 2 and 3
    assert gaps.needs_block_tables


def test_a_bucket_is_changed_when_the_longest_context_needs_it() -> None:
    """Contexts 41 to 43 in a window of 42: one change, and one back for the next request."""
    executor = StaticGraph(num_slots=2, smallest_bucket_tokens=42, max_context_tokens=84)
    result, _ = served(executor, prefix_caching=False)
    assert result.executor is not None
    switches = result.executor[0].num_switches
    assert switches is not None
    assert switches.sum() == 3
    longer = COST.decode_step_s(UniformBatch(2, 84)) - HOST_S
    steps = result.instances[0].step_end_s[:4]
    assert steps[3] - steps[2] == pytest.approx(HOST_S + longer + 50e-6)


def test_requests_longer_than_a_slot_are_refused_and_counted() -> None:
    executor = StaticGraph(num_slots=2, max_context_tokens=43)
    result, _ = served(executor, prefix_caching=False)
    assert result.requests.status.tolist() == [2, 2]
    fits, _ = served(StaticGraph(num_slots=2, max_context_tokens=44), prefix_caching=False)
    assert fits.requests.status.tolist() == [1, 1]
