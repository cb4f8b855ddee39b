"""What executors take from the KV memory, reserve, and refuse."""

import numpy as np
import pytest

from hwmodels.executors.as_measured import AsMeasured
from hwmodels.executors.cuda_graph import CudaGraph
from hwmodels.executors.eager import Eager
from hwmodels.executors.kv_rm import KvRm
from hwmodels.executors.static_graph import StaticGraph
from sim.errors import CapacityError, ConfigError
from sim.units import GIB
from tests.unit.hwmodels.executors.sites import site_of

TOKEN_BYTES = 2 * 32 * 8 * 128 * 2
"""Of Llama 3 8B: keys and values of 32 layers x 8 heads x 128, two bytes each (128 KiB)."""

BLOCK_BYTES = 16 * TOKEN_BYTES


def test_as_measured_and_eager_take_nothing() -> None:
    site = site_of()
    for executor in (AsMeasured(), Eager()):
        fitting = executor.fit(site)
        assert (fitting.num_gpu_blocks, fitting.max_num_seqs) == (site.num_gpu_blocks, 256)
        assert (fitting.taken_bytes, fitting.standing_bytes) == (0, 0)
        reserved = fitting.reserved_bytes(np.array([0.0, 10.0]), BLOCK_BYTES)
        assert reserved.tolist() == [0, 10 * BLOCK_BYTES]
    assert AsMeasured().fit(site).cost is site.cost


def test_graphs_take_a_gibibyte_unless_blocks_were_given_or_room_was_left() -> None:
    assert CudaGraph().fit(site_of()).num_gpu_blocks == 31 * GIB // BLOCK_BYTES
    half = CudaGraph(graph_memory_bytes=GIB // 2).fit(site_of())
    assert half.num_gpu_blocks == 63 * GIB // 2 // BLOCK_BYTES
    for site in (site_of(kv_bytes=None), site_of(has_own_graph_memory=True)):
        assert CudaGraph().fit(site).num_gpu_blocks == site.num_gpu_blocks
    with pytest.raises(ConfigError, match="graph_memory_bytes=1 has no effect when"):
        CudaGraph(graph_memory_bytes=1).fit(site_of(kv_bytes=None))
    with pytest.raises(CapacityError, match=r"executor=cuda_graph takes 40\.00 GiB of 32\.00 GiB"):
        CudaGraph(graph_memory_bytes=40 * GIB).fit(site_of())


def test_static_slots_take_whole_contexts_whatever_runs() -> None:
    fitting = StaticGraph().fit(site_of())  # 8,192 tokens: 1 GiB each
    assert fitting.max_num_seqs == 32
    assert fitting.num_gpu_blocks == 32 * 512 + 1
    assert fitting.standing_bytes == 32 * GIB
    assert fitting.reserved_bytes(np.array([0.0, 99.0]), BLOCK_BYTES).tolist() == [32 * GIB] * 2
    assert not fitting.shares_prefixes
    assert StaticGraph().fit(site_of(max_model_len=1024)).max_num_seqs == 256
    assert StaticGraph(max_context_tokens=2048).fit(site_of()).max_num_seqs == 128
    assert StaticGraph().fit(site_of(max_num_seqs=7)).max_num_seqs == 7
    assert StaticGraph(num_slots=5).fit(site_of()).max_num_seqs == 5
    with pytest.raises(CapacityError, match="33 slots of 8,192 tokens"):
        StaticGraph(num_slots=33).fit(site_of())
    with pytest.raises(CapacityError, match="1 slots of 1,000,000 tokens"):
        StaticGraph(max_context_tokens=1_000_000).fit(site_of())


def test_static_windows_double_up_to_a_whole_slot() -> None:
    assert StaticGraph().windows(8192) == [512, 1024, 2048, 4096, 8192]
    assert StaticGraph(smallest_bucket_tokens=1000).windows(3500) == [1000, 2000, 3500]
    assert StaticGraph().windows(300) == [300]
    assert StaticGraph(rebuckets=False).windows(8192) == [8192]


def test_staging_takes_slots_times_window_twice() -> None:
    fitting = KvRm().fit(site_of())  # 4,096 tokens twice: 1 GiB a slot, half of 32 GiB
    assert fitting.max_num_seqs == 16
    assert fitting.standing_bytes == fitting.taken_bytes == 16 * GIB
    assert fitting.num_gpu_blocks == 16 * GIB // BLOCK_BYTES
    reserved = fitting.reserved_bytes(np.array([0.0, 3.0]), BLOCK_BYTES)
    assert reserved.tolist() == [16 * GIB, 16 * GIB + 3 * BLOCK_BYTES]
    assert KvRm(has_double_buffer=False).fit(site_of()).max_num_seqs == 32
    assert KvRm(staging_ratio=0.25).fit(site_of()).max_num_seqs == 8
    assert KvRm(far_view_tokens=4096).fit(site_of()).max_num_seqs == 8
    one = KvRm(gather="full", staged_layers="one").fit(site_of())
    assert (one.max_num_seqs, one.standing_bytes) == (256, 256 * GIB // 32)
    given = KvRm(num_slots=4).fit(site_of(kv_bytes=None))
    assert (given.max_num_seqs, given.taken_bytes, given.standing_bytes) == (4, 0, 4 * GIB)
    assert given.num_gpu_blocks == site_of().num_gpu_blocks
    with pytest.raises(CapacityError, match=r"executor=kv_rm takes 32\.00 GiB of 32\.00 GiB"):
        KvRm(num_slots=32).fit(site_of())
    with pytest.raises(CapacityError, match=r"not one slot of 25\.00 GiB"):
        KvRm(near_window_tokens=102_400).fit(site_of())


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda: Eager(launch_s=-1.0), "executor.launch_s=-1: must be 0 to 1 seconds"),
        (lambda: Eager(launches_per_layer=-1), "executor.launches_per_layer=-1: must be 0 to"),
        (lambda: Eager(all_reduce="ring"), "executor.all_reduce=ring: must be null, nccl or"),
        (lambda: Eager(all_reduce="nccl").fit(site_of()), "cluster.tensor_parallel=1 reduces"),
        (
            lambda: Eager(all_reduce="nccl").fit(site_of(tensor_parallel=2)),
            "hardware.fidelity=roofline knows one all-reduce",
        ),
        (lambda: CudaGraph(capture_sizes=[]), r"executor.capture_sizes=\[\]: must be"),
        (lambda: CudaGraph(capture_sizes=[4, 2]), "each larger than the one before"),
        (lambda: CudaGraph(capture_sizes=[64]).fit(site_of(max_num_seqs=8)), "exceeds the 8 seats"),
        (lambda: CudaGraph(replay_s=2.0), "executor.replay_s=2: must be"),
        (lambda: StaticGraph(num_slots=0), "executor.num_slots=0: must be 1 to"),
        (lambda: StaticGraph(switch_s=float("nan")), "executor.switch_s=nan: must be"),
        (
            lambda: StaticGraph(rebuckets=False, switch_s=1e-3),
            "executor.switch_s=0.001 has no effect with executor.rebuckets=false",
        ),
        (
            lambda: StaticGraph(rebuckets=False, smallest_bucket_tokens=64),
            "executor.smallest_bucket_tokens=64 has no effect",
        ),
        (
            lambda: Eager(launches_per_layer_parallel=3).fit(site_of()),
            "executor.launches_per_layer_parallel=3 has no effect with cluster.tensor_parallel=1",
        ),
        (
            lambda: CudaGraph(launches_per_layer_parallel=3).fit(site_of()),
            "executor.launches_per_layer_parallel=3 has no effect",
        ),
        (lambda: KvRm(gather="half"), "executor.gather=half: must be delta or full"),
        (lambda: KvRm(staged_layers="one"), "needs executor.gather=full"),
        (lambda: KvRm(hbm_ratio=0.0), "executor.hbm_ratio=0: must be at least 1e-06"),
        (lambda: KvRm(hbm_ratio=1e-320), "must be at least 1e-06 and at most 1"),
        (lambda: KvRm(staging_ratio=0.0), "executor.staging_ratio=0: must be above 0"),
        (lambda: KvRm(num_slots=4, staging_ratio=0.5), "staging_ratio=0.5 has no effect when"),
        (lambda: KvRm(allocator="random"), "executor.allocator=random: must be one of"),
        (lambda: KvRm(merge_max_gap_blocks=-1), "executor.merge_max_gap_blocks=-1: must be"),
    ],
)
def test_a_mistake_is_one_line(make: object, line: str) -> None:
    assert callable(make)
    with pytest.raises(ConfigError, match=line):
        make()
