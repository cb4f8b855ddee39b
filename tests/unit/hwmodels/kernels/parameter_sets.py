"""Reference parameters of two GPUs, and toy models whose times are easy to work out by hand."""

from typing import Any

from hwmodels.kernels import KernelModels, Provenance
from hwmodels.kernels.all_reduce import AllReduceGroup, AllReduceModel
from hwmodels.kernels.decode_attention import DecodeAttentionModel
from hwmodels.kernels.gemm import GemmModel, Tile
from hwmodels.kernels.l2_curve import L2Curve
from hwmodels.kernels.mixed_attention import MixedAttentionModel
from hwmodels.kernels.moe import MoeModel
from hwmodels.kernels.parameters import parameter_names
from hwmodels.kernels.prefill_attention import PrefillAttentionModel
from hwmodels.kernels.small_ops import SmallOpsModel

A100_SMS, H100_SMS = 108, 132
A100_FLOPS, A100_HBM = 312e12, 2.039e12
H100_FLOPS, H100_HBM = 989.4e12, 3.35e12
"""Datasheet peaks, FLOP/s and bytes/s."""

A100_GEMM = GemmModel(
    num_sms=A100_SMS,
    tiles=(Tile(m=64, n=64, efficiency=1.0),),
    wave_ceil_weight=0.5,
    flops_per_s=279.9e12,
    hbm_bytes_per_s=1726e9,
    launch_s=3.69e-6,
    p_norm=1.705,
    split_k_s=1.29e-6,
    prologue_s=0.823e-6,
)
A100_TWO_TILES = GemmModel(
    num_sms=A100_SMS,
    tiles=(Tile(m=64, n=128, efficiency=0.78), Tile(m=128, n=256, efficiency=1.0)),
    wave_ceil_weight=1.0,
    flops_per_s=289.5e12,
    hbm_bytes_per_s=1495e9,
    launch_s=1.16e-6,
    p_norm=4.035,
    split_k_s=1.17e-6,
    prologue_s=4.722e-6,
)
H100_GEMM = GemmModel(
    num_sms=H100_SMS,
    tiles=(Tile(m=64, n=64, efficiency=1.0),),
    wave_ceil_weight=0.5,
    flops_per_s=843.8e12,
    hbm_bytes_per_s=2929e9,
    launch_s=2.97e-6,
    p_norm=3.746,
    split_k_s=1.44e-6,
    prologue_s=0.189e-6,
)
A100_DECODE = DecodeAttentionModel(
    num_sms=A100_SMS,
    launch_s=7.76e-6,
    hbm_bytes_per_s=1588e9,
    wave_s=1.507e-6,
    combine_s=6.26e-6,
    head_swap_s=4.36e-6,
    cta_gqa_bytes_per_s=18.23e9,
    cta_mha_bytes_per_s=22.49e9,
    straggler_bytes_per_s=22.5e9,
    split_slots=216,
    can_split_mha=False,
)
H100_DECODE = DecodeAttentionModel(
    num_sms=H100_SMS,
    launch_s=9.15e-6,
    hbm_bytes_per_s=3014e9,
    wave_s=2.396e-6,
    combine_s=1.37e-6,
    head_swap_s=0.0,
    cta_gqa_bytes_per_s=None,
    cta_mha_bytes_per_s=None,
    straggler_bytes_per_s=38e9,
    split_slots=132,
    can_split_mha=True,
)
A100_PREFILL = PrefillAttentionModel(
    num_sms=A100_SMS,
    launch_s=10.236e-6,
    flops_per_s=188.493e12,
    tail_weight=0.823,
    io_bytes_per_s=843.5e9,
)
H100_PREFILL = PrefillAttentionModel(
    num_sms=H100_SMS,
    launch_s=12.419e-6,
    flops_per_s=706.578e12,
    tail_weight=0.653,
    io_bytes_per_s=1384.9e9,
)
A100_MIXED = MixedAttentionModel(
    block_s=5.595e-6,
    idle_block_s=0.326e-6,
    longest_weight=0.683,
    l2_reach_bytes=56.4e6,
    packs_queries=False,
    resident_weight=0.243,
)
H100_MIXED = MixedAttentionModel(
    block_s=5.595e-6,
    idle_block_s=0.326e-6,
    longest_weight=0.683,
    l2_reach_bytes=70.5e6,
    packs_queries=True,
    resident_weight=0.243,
)
A100_MOE = MoeModel(
    launch_s=35.4e-6,
    hbm_bytes_per_s=2061e9,
    flops_per_s=153.3e12,
    p_norm=1.097,
    expert_s=0.026e-6,
    activation_weight=2.154,
)
A100_ALL_REDUCE = AllReduceModel(
    groups=(
        AllReduceGroup(num_gpus=2, base_s=4.95e-6, bytes_per_s=158.2e9, root_s=0.0),
        AllReduceGroup(num_gpus=4, base_s=5.06e-6, bytes_per_s=110.1e9, root_s=4.35e-6),
        AllReduceGroup(num_gpus=8, base_s=5.5e-6, bytes_per_s=93.7e9, root_s=9.1e-6),
    )
)
SLOW_NCCL = AllReduceModel(
    groups=(AllReduceGroup(num_gpus=2, base_s=25e-6, bytes_per_s=100e9, root_s=0.0),)
)
A100_SMALL_OPS = SmallOpsModel(
    layer_s=11e-6, bytes_per_s=1e12, sampling_s=40e-6, sampling_bytes_per_s=1e12
)
A100_L2 = L2Curve(
    midpoint_bytes=37.97 * 2**20,
    log_width=0.123,
    l2_bytes_per_s=5427e9,
    hbm_bytes_per_s=1794e9,
)

TOY_GEMM = GemmModel(
    num_sms=4,
    tiles=(Tile(m=64, n=64, efficiency=1.0),),
    wave_ceil_weight=1.0,
    flops_per_s=4e12,
    hbm_bytes_per_s=1e12,
    launch_s=1e-6,
    p_norm=100.0,
    split_k_s=0.3e-6,
    prologue_s=0.0,
)
TOY_DECODE = DecodeAttentionModel(
    num_sms=4,
    launch_s=1e-6,
    hbm_bytes_per_s=1e9,
    wave_s=0.125e-6,
    combine_s=0.5e-6,
    head_swap_s=0.25e-6,
    cta_gqa_bytes_per_s=None,
    cta_mha_bytes_per_s=None,
    straggler_bytes_per_s=1e9,
    split_slots=4,
    can_split_mha=False,
)


def provenance_of(model: Any, **changes: Any) -> Provenance:
    """A record for a model, no standard error known."""
    values: dict[str, Any] = {
        "standard_errors": dict.fromkeys(parameter_names(model)),
        "num_rows": 12,
        "heldout_mape": 0.07,
        "source": "hand-made",
        "valid": {"m": (1.0, 8192.0)},
    }
    return Provenance(**(values | changes))


def a100_kernels(**changes: Any) -> KernelModels:
    """Kernels of a device called `mine`, with a provenance for each."""
    models: dict[str, Any] = {
        "gemm": A100_GEMM,
        "decode_attention": A100_DECODE,
        "prefill_attention": A100_PREFILL,
        "mixed_attention": A100_MIXED,
        "moe": A100_MOE,
        "all_reduce": A100_ALL_REDUCE,
        "nccl": SLOW_NCCL,
        "small_ops": A100_SMALL_OPS,
        "l2": A100_L2,
    } | changes
    known = {name: model for name, model in models.items() if model is not None}
    provenance = {name: provenance_of(model) for name, model in known.items()}
    return KernelModels(device="mine", date="2026-01-31", provenance=provenance, **known)
