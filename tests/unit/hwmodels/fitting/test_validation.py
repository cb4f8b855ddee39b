"""Which rows count, what is predicted for them, and how comparisons are summed up."""

from pathlib import Path

import numpy as np
import pytest

from hwmodels.device import load_profile
from hwmodels.fitting.device_plan import plan_of
from hwmodels.fitting.recipes.decode_attention import predict_decode_s
from hwmodels.fitting.validation import compare, worst_shapes
from hwmodels.kernels.models import KernelModels, load_kernels
from sim.errors import ConfigError

A100 = load_profile("a100_sxm_80gb")


def test_decode_rows_are_batches_of_equal_lengths() -> None:
    model = load_kernels("a100_sxm_80gb").decode_attention
    assert model is not None
    columns = {
        "batch_size": np.array([1.0, 64.0, 7.0]),
        "context_tokens": np.array([4096.0, 1000.0, 130.0]),
        "num_heads": np.array([32.0, 32.0, 8.0]),
        "num_kv_heads": np.array([8.0, 8.0, 8.0]),
    }
    expected = [
        float(model.lengths_time_s(np.full(int(batch), context), int(heads), int(kv_heads)))
        for batch, context, heads, kv_heads in zip(*columns.values(), strict=True)
    ]
    assert predict_decode_s(model, columns) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("kernel", "columns", "expected"),
    [
        ("gemm", {"n": [768, 767, 4096], "k": [4096, 4096, 768]}, [True, False, True]),
        ("prefill_attention", {"chunk_tokens": [127, 128]}, [False, True]),
        (
            "decode_attention",
            {"batch_size": [512, 513, 1], "context_tokens": [128, 128, 127]},
            [True, False, False],
        ),
        ("nccl", {"num_gpus": [2, 16, 8], "num_bytes": [2**26, 64, 2**27]}, [True, False, False]),
        # 16 to 31 tokens in quarters of an octave: 16-19, 20-22, 23-26, 27-31
        (
            "small_ops",
            {"num_tokens": [16, 18, 20, 22, 24, 26, 28, 31, 16]},
            [True, False, True, False, True, False, True, False, True],
        ),
    ],
)
def test_rows_in_the_range_of_a_fit(
    kernel: str, columns: dict[str, list[int]], expected: list[bool]
) -> None:
    in_scope = plan_of(A100, kernel).recipe.in_scope
    arrays = {name: np.array(values, dtype=np.float64) for name, values in columns.items()}
    assert in_scope(arrays).tolist() == expected


def test_the_worst_shapes_come_first() -> None:
    columns = {"n": np.array([1.0, 1.0, 2.0, 3.0]), "k": np.array([5.0, 5.0, 5.0, 5.0])}
    predicted = np.array([1.1, 0.9, 1.5, 0.8])
    found = worst_shapes(columns, ("n", "k"), predicted, np.ones(4), num_shapes=2)
    assert [shape for shape, _ in found] == ["n=2 k=5", "n=3 k=5"]
    assert [error for _, error in found] == pytest.approx([0.5, 0.2])


def test_a_device_without_tables_and_a_missing_folder_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no measurements of 'l40s'; devices: a100_sxm_80gb"):
        compare(KernelModels(device="l40s"), tmp_path)
    with pytest.raises(ConfigError, match="no such folder of measurements"):
        compare(load_kernels("a100_sxm_80gb"), tmp_path / "none")
