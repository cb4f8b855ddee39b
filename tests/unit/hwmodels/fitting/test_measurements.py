"""Readers of measured tables: units, filters and what they report as left out."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hwmodels.measurements.all_reduce import load_custom_all_reduce, load_nccl_all_reduce
from hwmodels.measurements.attention import load_context_attention, load_generation_attention
from hwmodels.measurements.gemm import load_gemm
from hwmodels.measurements.l2_bandwidth import load_l2_bandwidth
from hwmodels.measurements.moe import load_moe
from hwmodels.measurements.rows import LeftOut, MeasuredRows, joined, median_of_repeats
from hwmodels.measurements.shared_prefix import load_shared_prefix
from hwmodels.measurements.small_ops import load_small_ops
from hwmodels.measurements.unequal_lengths import (
    load_decode_batches,
    load_mixed_steps,
    load_unequal_lengths,
)
from sim.errors import ConfigError


def parquet(folder: Path, rows: list[dict[str, object]]) -> Path:
    path = folder / "table.parquet"
    pd.DataFrame(rows).to_parquet(path)
    return path


def csv(folder: Path, rows: list[dict[str, object]]) -> Path:
    path = folder / "table.csv"
    pd.DataFrame(rows).to_csv(path, index=False)
    return path


def attention(**changes: object) -> dict[str, object]:
    row: dict[str, object] = {
        "kernel_source": "vllm_flash_attn",
        "batch_size": 4,
        "isl": 1,
        "step": 1023,
        "num_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "attn_dtype": "bfloat16",
        "kv_cache_dtype": "bfloat16",
        "latency": 0.05,
    }
    return row | changes


def test_gemm_times_are_seconds_and_repeats_become_their_median(tmp_path: Path) -> None:
    base: dict[str, object] = {"gemm_dtype": "bfloat16", "m": 1, "n": 4096, "k": 2048}
    path = parquet(
        tmp_path,
        [
            base | {"latency": 0.010},
            base | {"latency": 0.030},
            base | {"latency": 0.011},
            base | {"m": 16, "latency": 0.020},
            base | {"gemm_dtype": "fp8", "latency": 0.001},
            base | {"m": 32, "latency": 0.0},
        ],
    )
    rows = load_gemm(path)
    assert rows.columns["m"].tolist() == [1.0, 16.0]
    assert rows.time_s == pytest.approx([1.1e-5, 2e-5])
    assert {(entry.num_rows, entry.reason.split(";")[0]) for entry in rows.left_out} == {
        (1, "not bfloat16"),
        (1, "a time that is not above zero, or a number missing"),
        (2, "repeats of a shape"),
    }
    assert len(rows.sha256) == 64


def test_decode_rows_add_prompt_and_step_and_drop_the_impossible(tmp_path: Path) -> None:
    fast = {"batch_size": 64, "step": 8191, "latency": 0.5}  # 1.07 GB in 0.5 ms: 2.1 TB/s
    path = parquet(
        tmp_path,
        [
            attention(),
            attention(head_dim=64),
            attention(kernel_source="vllm_flash_attn_fa4"),
            attention(attn_dtype="fp8"),
            attention(kv_cache_dtype="fp8"),
            attention(window_size=128),
            attention(**fast),
        ],
    )
    frame = pd.read_parquet(path)
    frame["window_size"] = frame["window_size"].fillna(0)
    frame.to_parquet(path)
    rows = load_generation_attention(path, hbm_bytes_per_s=2.039e12, l2_bytes=4e7)
    assert rows.columns["context_tokens"].tolist() == [1024.0]
    assert rows.columns["num_kv_heads"].tolist() == [8.0]
    assert rows.time_s.tolist() == pytest.approx([5e-5])
    assert [entry.num_rows for entry in rows.left_out] == [1, 1, 1, 1, 1, 1]
    assert rows.left_out[-1].reason == "faster than the memory's peak"


def test_a_small_batch_may_read_faster_than_the_memory(tmp_path: Path) -> None:
    path = parquet(tmp_path, [attention(latency=0.001)])  # 8 MB from L2 at 8 TB/s
    assert load_generation_attention(path, 2.039e12, 4e7).num_rows == 1


def test_prefill_rows_have_a_chunk_and_a_prefix(tmp_path: Path) -> None:
    path = parquet(tmp_path, [attention(isl=512, step=0), attention(isl=512, step=64)])
    rows = load_context_attention(path)
    assert rows.columns["chunk_tokens"].tolist() == [512.0, 512.0]
    assert rows.columns["prefix_tokens"].tolist() == [0.0, 64.0]


def test_experts_are_as_wide_as_one_gpu_holds(tmp_path: Path) -> None:
    base: dict[str, object] = {
        "moe_dtype": "bfloat16",
        "num_tokens": 8,
        "hidden_size": 4096,
        "inter_size": 14336,
        "topk": 2,
        "num_experts": 8,
        "moe_tp_size": 4,
        "moe_ep_size": 1,
        "latency": 0.2,
    }
    path = parquet(tmp_path, [base, base | {"moe_ep_size": 2}])
    rows = load_moe(path)
    assert rows.columns["intermediate_size"].tolist() == [3584.0]
    assert rows.left_out == (LeftOut(1, "expert parallel"),)


def test_all_reduce_sizes_are_bytes_of_two_byte_elements(tmp_path: Path) -> None:
    base: dict[str, object] = {
        "allreduce_dtype": "bfloat16",
        "kernel_source": "vLLM_custom_graph",
        "num_gpus": 2,
        "message_size": 1024,
        "latency": 0.005,
    }
    path = parquet(
        tmp_path,
        [
            base,
            base | {"message_size": 4 * 2**20},
            base | {"message_size": 4 * 2**20 - 1},
            base | {"kernel_source": "vLLM_custom_eager"},
        ],
    )
    rows = load_custom_all_reduce(path)
    assert rows.columns["num_bytes"].tolist() == [2048.0, 2.0**23 - 2]
    assert [entry.num_rows for entry in rows.left_out] == [1, 1]


def test_nccl_rows_are_all_reduces_of_two_byte_elements(tmp_path: Path) -> None:
    base: dict[str, object] = {
        "op_name": "all_reduce",
        "nccl_dtype": "half",
        "num_gpus": 8,
        "message_size": 256,
        "latency": 0.02,
    }
    others = [base | {"op_name": "all_gather"}, base | {"nccl_dtype": "int8"}]
    rows = load_nccl_all_reduce(parquet(tmp_path, [base, *others]))
    assert rows.columns["num_bytes"].tolist() == [512.0]
    assert rows.time_s.tolist() == pytest.approx([2e-5])


def test_l2_rows_are_times_of_one_pass_above_the_first_level_caches(tmp_path: Path) -> None:
    path = csv(
        tmp_path,
        [
            {"gpu": "a", "data_set_kib": 5 * 1024, "effective_gb_per_s": 9000},
            {"gpu": "a", "data_set_kib": 8 * 1024, "effective_gb_per_s": 5000},
            {"gpu": "b", "data_set_kib": 8 * 1024, "effective_gb_per_s": 7000},
        ],
    )
    rows = load_l2_bandwidth(path, "a")
    assert rows.columns["data_set_bytes"].tolist() == [2.0**23]
    assert rows.time_s.tolist() == pytest.approx([2**23 / 5e12])
    with pytest.raises(ConfigError, match="no curve of 'c'; it has a, b"):
        load_l2_bandwidth(path, "c")


def test_small_operators_are_summed_over_a_layer_and_know_their_bytes(tmp_path: Path) -> None:
    row: dict[str, object] = {
        "time_stats.input_layernorm.median": 0.005,
        "time_stats.attn_rope.median": 0.004,
        "time_stats.post_attention_layernorm.median": 0.005,
        "time_stats.mlp_act.median": 0.010,
        "time_stats.add.median": 0.002,
        "num_tokens": 8,
        "n_embd": 4096,
        "n_head": 32,
        "n_kv_head": 8,
        "n_expanded_embd": 14336,
        "num_tensor_parallel_workers": 2,
    }
    rows = load_small_ops(csv(tmp_path, [row]))
    assert rows.time_s.tolist() == pytest.approx([28e-6])  # the addition counts twice
    # 8 rows of 4096; 2 x 128 x 40 / 2 of rotary; 3 x 14336 / 2 of activation; 2 bytes each
    assert rows.columns["token_bytes"].tolist() == [2 * (32768 + 5120 + 21504)]


def test_small_operators_below_the_resolution_are_left_out(tmp_path: Path) -> None:
    names = ("input_layernorm", "attn_rope", "post_attention_layernorm", "mlp_act", "add")
    row: dict[str, object] = {f"time_stats.{name}.median": 0.0005 for name in names}
    row |= dict.fromkeys(("num_tokens", "num_tensor_parallel_workers"), 1)
    row |= {"n_embd": 64, "n_head": 1, "n_kv_head": 1, "n_expanded_embd": 64}
    rows = load_small_ops(csv(tmp_path, [row]))
    assert rows.num_rows == 0
    assert rows.left_out == (LeftOut(1, "below the profiler's resolution"),)


UNEQUAL: dict[str, object] = {
    "regime": "pure",
    "n": 64,
    "nb": 4,
    "pc": 0,
    "kp": 0,
    "kvs": 512,
    "kv_big": 2048,
    "kv_mean": 608,
    "t_mean_us": 60.0,
    "t_max_us": 120.0,
    "t_skew_us": 66.0,
}


def test_unequal_lengths_are_times_of_one_run(tmp_path: Path) -> None:
    rows = load_unequal_lengths(csv(tmp_path, [UNEQUAL, UNEQUAL | {"regime": "mixed"}]))
    assert rows.time_s.tolist() == pytest.approx([22e-6])
    assert rows.columns["equal_mean_s"].tolist() == pytest.approx([20e-6])
    assert rows.columns["equal_longest_s"].tolist() == pytest.approx([40e-6])
    assert "equal_mean_us" not in rows.columns
    assert rows.left_out == (LeftOut(1, "mixed prefill and decode"),)


def test_every_row_of_unequal_lengths_holds_three_batches(tmp_path: Path) -> None:
    again = UNEQUAL | {"nb": 8, "kv_mean": 704, "t_max_us": 126.0}
    rows = load_decode_batches(csv(tmp_path, [UNEQUAL, again, UNEQUAL | {"regime": "mixed"}]))
    found = dict(zip(zip(*rows.columns.values(), strict=True), rows.time_s.tolist(), strict=True))
    assert list(rows.columns) == [
        "batch_size",
        "num_long",
        "context_tokens",
        "longest_tokens",
        "sum_squares",
    ]
    assert found == {
        (64, 4, 4 * 2048 + 60 * 512, 2048, 4 * 2048**2 + 60 * 512**2): pytest.approx(22e-6),
        (64, 8, 8 * 2048 + 56 * 512, 2048, 8 * 2048**2 + 56 * 512**2): pytest.approx(22e-6),
        (64, 0, 64 * 608, 608, 64 * 608**2): pytest.approx(20e-6),
        (64, 0, 64 * 704, 704, 64 * 704**2): pytest.approx(20e-6),
        (64, 0, 64 * 2048, 2048, 64 * 2048**2): pytest.approx(41e-6),  # median of 40 and 42
    }
    assert [entry.num_rows for entry in rows.left_out] == [1, 1]


def test_mixed_steps_have_a_chunk_after_its_prefix(tmp_path: Path) -> None:
    mixed = UNEQUAL | {"regime": "mixed", "pc": 256, "kp": 1024}
    rows = load_mixed_steps(csv(tmp_path, [UNEQUAL, mixed]))
    assert rows.num_rows == 3
    assert set(rows.columns["chunk_tokens"].tolist()) == {256.0}
    assert set(rows.columns["prefix_tokens"].tolist()) == {1024.0}
    assert rows.left_out == (LeftOut(1, "decodes alone"),)
    assert rows.sha256 == load_unequal_lengths(csv(tmp_path, [UNEQUAL, mixed])).sha256


def test_prefix_trees_are_read_level_by_level(tmp_path: Path) -> None:
    base: dict[str, object] = {"heads_q_kv": "32/8", "tree_id": 3, "tree_B_L": "1,4,256_32,64,16"}
    rows = [
        base | {"method": "PAT", "normalized_perf_pct": 100.0},
        base | {"method": "FlashAttn", "normalized_perf_pct": 40.0},
        base | {"method": "FastTree", "normalized_perf_pct": 80.0},
    ]
    trees = load_shared_prefix(csv(tmp_path, rows))
    assert [row.kernel for row in trees.rows] == ["packed", "flash_pat"]
    assert trees.rows[1].nodes_per_level == (1, 4, 256)
    assert trees.rows[1].tokens_per_level == (32, 64, 16)
    assert (trees.rows[1].num_heads, trees.rows[1].num_kv_heads) == (32, 8)
    assert trees.rows[1].performance_ratio == pytest.approx(0.4)
    assert trees.left_out == (LeftOut(1, "methods without a model"),)


def test_a_tree_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    row: dict[str, object] = {
        "heads_q_kv": "32/8",
        "tree_id": 3,
        "tree_B_L": "1,4;32",
        "method": "PAT",
        "normalized_perf_pct": 100.0,
    }
    with pytest.raises(ConfigError, match="cannot read tree '1,4;32' with heads '32/8'"):
        load_shared_prefix(csv(tmp_path, [row]))


def test_a_missing_file_and_a_missing_column_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        load_gemm(tmp_path / "none.parquet")
    broken = tmp_path / "broken.parquet"
    broken.write_text("no table")
    with pytest.raises(ConfigError, match=r"broken\.parquet: "):
        load_gemm(broken)
    path = parquet(tmp_path, [{"gemm_dtype": "bfloat16", "m": 1, "n": 2, "latency": 0.1}])
    with pytest.raises(ConfigError, match="missing column k"):
        load_gemm(path)


def rows_of(values: list[float], times_s: list[float]) -> MeasuredRows:
    return MeasuredRows(
        columns={"size": np.array(values)}, time_s=np.array(times_s), source="a", sha256="f" * 64
    )


def test_the_median_of_an_even_number_of_repeats_is_the_mean_of_the_middle_two() -> None:
    found = median_of_repeats(rows_of([2, 1, 2, 2, 2], [4.0, 9.0, 1.0, 2.0, 8.0]))
    assert found.columns["size"].tolist() == [1.0, 2.0]
    assert found.time_s.tolist() == [9.0, 3.0]
    assert found.left_out == (LeftOut(3, "repeats of a shape; the median stands for them"),)


def test_joined_tables_keep_all_rows_and_name_each_source_once() -> None:
    both = joined([rows_of([1], [1.0]), rows_of([2], [3.0])])
    assert both.columns["size"].tolist() == [1.0, 2.0]
    assert both.time_s.tolist() == [1.0, 3.0]
    assert both.source == "a"
    assert both.sha256 != "f" * 64
