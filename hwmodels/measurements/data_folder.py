"""Where each device's tables are inside a folder of measurements."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceTables:
    """Files of one device, relative to the folder; None where nothing was measured.

    Attributes:
        gemm: dense matrix products.
        generation_attention: decode attention.
        context_attention: prefill attention.
        moe: mixture-of-experts layers.
        custom_all_reduce: CUDA-graph all-reduce.
        nccl: NCCL collectives.
        small_ops: per-operator times.
        l2_bandwidth: read rates against data-set size.
        l2_gpu: name of the device in that table.
        shared_prefix: prefix trees.
    """

    gemm: str
    generation_attention: str
    context_attention: str
    moe: str | None = None
    custom_all_reduce: str
    nccl: str
    small_ops: tuple[str, ...] = ()
    l2_bandwidth: str | None = None
    l2_gpu: str = ""
    shared_prefix: str | None = None


def _tables(folder: str, engine: str, nccl: str, **others: str | tuple[str, ...]) -> DeviceTables:
    base = f"kernels/{folder}"
    return DeviceTables(
        gemm=f"{base}/{engine}/gemm.parquet",
        generation_attention=f"{base}/{engine}/generation_attention.parquet",
        context_attention=f"{base}/{engine}/context_attention.parquet",
        custom_all_reduce=f"{base}/{engine}/custom_allreduce.parquet",
        nccl=f"{base}/{nccl}/nccl.parquet",
        **others,  # type: ignore[arg-type]
    )


_L2 = "kernels/l2_bandwidth_vs_data_set.csv"

TABLES: dict[str, DeviceTables] = {
    "a100_sxm_80gb": _tables(
        "a100_sxm",
        "vllm-0.14.0",
        "nccl-2.27.3",
        moe="kernels/a100_sxm/vllm-0.14.0/moe.parquet",
        small_ops=(
            "vidur/a100/Llama-2-7b-hf/mlp.csv",
            "vidur/a100/Meta-Llama-3-8B/mlp.csv",
            "vidur/a100/Llama-2-70b-hf/mlp.csv",
        ),
        l2_bandwidth=_L2,
        l2_gpu="a100_80",
        shared_prefix="kernels/shared_prefix/a100_prefix_trees.csv",
    ),
    "h100_sxm": _tables(
        "h100_sxm",
        "vllm-0.24.0",
        "nccl-2.29.2",
        small_ops=("vidur/h100/Llama-2-7b-hf/mlp.csv",),
    ),
    "h200_sxm": _tables("h200_sxm", "vllm-0.24.0", "nccl-2.29.2", l2_bandwidth=_L2, l2_gpu="h200"),
}
"""Tables by name of the device profile."""
