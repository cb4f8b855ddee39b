"""Shared-prefix models of three GPUs, with published constants in SI units."""

from dataclasses import replace

from hwmodels.kernels.decode_attention import DecodeAttentionModel
from hwmodels.kernels.l2_curve import L2Curve
from hwmodels.kernels.packed import PackedModel
from hwmodels.kernels.prefill_attention import PrefillAttentionModel
from hwmodels.kernels.shared_prefix import SharedPrefixModel

MIB = 2**20

A100_L2 = L2Curve(
    midpoint_bytes=37.97 * MIB, log_width=0.123, l2_bytes_per_s=5427e9, hbm_bytes_per_s=1794e9
)
H200_L2 = L2Curve(
    midpoint_bytes=54.31 * MIB, log_width=0.1, l2_bytes_per_s=10073e9, hbm_bytes_per_s=3890e9
)
ADA_L2 = L2Curve(
    midpoint_bytes=105.28 * MIB, log_width=0.023, l2_bytes_per_s=5214e9, hbm_bytes_per_s=820e9
)

A100_DECODE = DecodeAttentionModel(
    num_sms=108,
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
H200_DECODE = DecodeAttentionModel(
    num_sms=132,
    launch_s=8.87e-6,
    hbm_bytes_per_s=4173e9,
    wave_s=2.813e-6,
    combine_s=1.61e-6,
    head_swap_s=0.0,
    cta_gqa_bytes_per_s=None,
    cta_mha_bytes_per_s=None,
    straggler_bytes_per_s=38e9,
    split_slots=132,
    can_split_mha=True,
)
# Kernel constants of the A100, transferred. Memory rates scale with measured streams: 1794 GB/s on
# the A100, and 820 of 864 GB/s on an L40, whose die this GPU has, with memory of 960 GB/s.
# The rate of one thread block is the only constant fitted to this GPU.
ADA_MEMORY_RATIO = 820 / 864 * 960 / 1794
ADA_COMPUTE_RATIO = 364.2 / 312
ADA_DECODE = replace(
    A100_DECODE,
    num_sms=142,
    hbm_bytes_per_s=1588e9 * ADA_MEMORY_RATIO,
    cta_gqa_bytes_per_s=13.2e9,
    cta_mha_bytes_per_s=13.2e9,
    straggler_bytes_per_s=13.2e9,
    split_slots=284,
)

A100_PREFILL = PrefillAttentionModel(
    num_sms=108,
    launch_s=10.236e-6,
    flops_per_s=188.493e12,
    tail_weight=0.823,
    io_bytes_per_s=843.5e9,
)
ADA_PREFILL = replace(
    A100_PREFILL,
    num_sms=142,
    flops_per_s=188.493e12 * ADA_COMPUTE_RATIO,
    io_bytes_per_s=843.5e9 * ADA_MEMORY_RATIO,
)

A100_PACKED = PackedModel(
    launch_s=12.15e-6,
    hbm_bytes_per_s=1750e9,
    flops_per_s=165.2e12,
    p_norm=1.68,
    merge_bytes_per_s=3121e9,
)

A100 = SharedPrefixModel(
    hbm_bytes_per_s=1750e9,
    launch_s=12e-6,
    p_norm=3.6,
    flash_pat_gqa_bytes_per_s=2945e9,
    flash_pat_mha_bytes_per_s=2556e9,
    flashinfer_gqa_bytes_per_s=4610e9,
    flashinfer_mha_bytes_per_s=5627e9,
    cta_slots=216,
    drift_tokens=128.0,
    packed=A100_PACKED,
    l2=A100_L2,
    decode_attention=A100_DECODE,
    prefill_attention=A100_PREFILL,
)
H200 = replace(A100, l2=H200_L2, decode_attention=H200_DECODE)
ADA = replace(
    A100, cta_slots=284, l2=ADA_L2, decode_attention=ADA_DECODE, prefill_attention=ADA_PREFILL
)
