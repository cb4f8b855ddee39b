"""`alignedserve_pool`: how large the pool must be, and what waiting in it costs."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from experiments.studies.alignedserve.cell import Setting
from experiments.studies.alignedserve.comparison import AT_ONCE, LOADED, Comparison, Grid
from experiments.studies.alignedserve.measures import (
    ALIGNED_SHARE,
    OUTPUT,
    POOL_MAX,
    POOL_MEAN,
    READY,
    TPOT_BATCH_P99,
    TPOT_P99,
    TTFT,
    TTFT_MAX,
    WAIT_LONG,
)
from experiments.studies.alignedserve.mixes import synthetic
from experiments.studies.alignedserve.notes import sizes_of
from experiments.studies.alignedserve.systems import ALIGNED, BOUNDED, NO_LENGTHS
from experiments.studies.findings import Row
from experiments.studies.measured import Measure

SIZES_GB = (10, 20, 50, 100, 250, 800)


class AlignedservePool(Comparison):
    """Sizes of the pool."""

    name = "alignedserve_pool"
    question = "How large must the pool on the host be, and what does waiting in it cost?"
    sizes: Mapping[str, str] = sizes_of("6 sizes, 3 systems: 42 jobs", "the same: 42 jobs")
    axis = "Pool (GB), OPT-13B, 90 % short"
    systems = (ALIGNED, NO_LENGTHS, BOUNDED)
    printed = (
        *(OUTPUT, TPOT_P99, TPOT_BATCH_P99, TTFT, TTFT_MAX, READY, WAIT_LONG),
        *(ALIGNED_SHARE, POOL_MEAN, POOL_MAX),
    )
    drawn: ClassVar[Mapping[str, Measure]] = {AT_ONCE: OUTPUT}

    def settings(self, size: str) -> Sequence[Setting]:
        """One mix, several pools."""
        return [
            Setting(
                label=f"{size_gb} GB",
                at=size_gb,
                mix=synthetic(90),
                pool_options=(f"cluster.host_pool_bytes={size_gb}000000000",),
                place=f"{size_gb}gb",
            )
            for size_gb in SIZES_GB
        ]

    def claims(self, grid: Grid, settings: Sequence[Setting]) -> Sequence[Row]:
        """How much of 800 GB was used."""
        return [
            grid.value_row(
                *((20.0, 250.0), "[note] in use"),
                system=ALIGNED,
                at=(arrivals, settings[-1]),
                measure=POOL_MAX,
                limit_ratio=0,
            )
            for arrivals in (AT_ONCE, LOADED)
        ]
