"""What is known of GPUs whose kernels nobody measured, besides their datasheets.

By the name of the device profile. Not modelled: clocks, which profiles do not state.
"""

from hwmodels.kernels.l2_curve import L2Curve

STREAMS_BYTES_PER_S: dict[str, float] = {
    "a100_sxm_80gb": 1794e9,
    "h200_sxm": 3890e9,
    "l40s": 820e9,
    "rtx6000_ada": 820e9 * 960 / 864,
}
"""Rate at which all processors read a data set far larger than the L2 cache.

Source: L2 cache benchmark results of RRZE-HPC/gpu-benches (numbers restated), last term of the
fitted L2 curves. L40S: an L40, which has the same die and memory. RTX 6000 Ada: the same share of
its memory's peak, 960 instead of 864 GB/s.
"""

BLOCK_BYTES_PER_S: dict[str, float] = {"l40s": 13.2e9, "rtx6000_ada": 13.2e9}
"""Rate at which one thread block of decode attention reads.

Source: fitted to step times of vLLM on an RTX 6000 Ada with and without cascade attention (one
shared prefix of 10,000 tokens, 100 requests; docs/l2_locality.md). The L40S has the same die.
"""

L40_PEAK_BYTES_PER_S = 864e9
L40_CURVE = L2Curve(
    midpoint_bytes=110390000.0,
    log_width=0.022586,
    l2_bytes_per_s=5216300000000.0,
    hbm_bytes_per_s=819310000000.0,
)
L40_RANGE_BYTES = (6291456.0, 4999086080.0)
L40_SOURCE = (
    "midpoint, width and L2 rate of an L40, which has the same die; its memory rate by the ratio "
    "of datasheet peaks. There: GPU L2 cache benchmark results of RRZE-HPC/gpu-benches (numbers "
    "restated), fitted on 76 rows, held-out error 0.087. The midpoint, 105 MiB, lies above the "
    "96 MB of the cache and rests on two rows of the knee."
)
"""Hit curve of an L40 as the recipe of `hwmodels.fitting.recipes.l2` fits it (midpoint 105.28 MiB),
the data sets that were measured, and where it comes from."""

L40_DIES = frozenset({"l40s", "rtx6000_ada"})
"""Profiles of the die of the L40 (AD102)."""

L2_DONORS: dict[str, str] = {"h20": "h200_sxm"}
"""Profile -> the one whose L2 curve it takes, where that is not the donor of all else.

H20: the CUDA runtime reports an L2 cache of 60 MB for both, and of 50 MB for the H100. Assumed; no
curve of an H20 is public.
"""
