"""`alignedserve_traces`: lengths like those of ShareGPT, LongBench and Azure."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from experiments.studies.alignedserve.cell import Setting
from experiments.studies.alignedserve.comparison import AT_ONCE, LOADED, Comparison, Grid
from experiments.studies.alignedserve.measures import (
    FAST,
    MIXED,
    OUTPUT,
    POOL_MAX,
    READY,
    READY_MAX,
    TPOT_BATCH_P99,
    TPOT_P99,
    TTFT,
    WAIT_LONG,
)
from experiments.studies.alignedserve.mixes import AZURE, LONGBENCH, SHAREGPT
from experiments.studies.alignedserve.notes import sizes_of
from experiments.studies.alignedserve.systems import ALIGNED, DISTSERVE
from experiments.studies.findings import Row
from experiments.studies.measured import Measure

_PLACES = {1.0: SHAREGPT, 2.0: LONGBENCH, 3.0: AZURE}


class AlignedserveTraces(Comparison):
    """Mixes with the mean lengths of known traces."""

    name = "alignedserve_traces"
    question = "What do batches by KV length give on lengths like ShareGPT, LongBench and Azure?"
    sizes: Mapping[str, str] = sizes_of(
        "3 mixes on OPT-13B, ShareGPT and LongBench on OPT-6.7B too: 40 jobs",
        "the same: 40 jobs",
    )
    axis = "OPT-13B"
    ticks: ClassVar[Mapping[float, str]] = {place: mix.label for place, mix in _PLACES.items()}
    printed = (
        *(OUTPUT, TPOT_P99, TPOT_BATCH_P99, TTFT, READY, READY_MAX, WAIT_LONG),
        *(FAST, MIXED, POOL_MAX),
    )
    drawn: ClassVar[Mapping[str, Measure]] = {AT_ONCE: OUTPUT}

    def settings(self, size: str) -> Sequence[Setting]:
        """OPT-13B on all mixes, OPT-6.7B where the share of mixing iterations is claimed."""
        large = [
            Setting(label=f"{mix.label}, OPT-13B", at=place, mix=mix)
            for place, mix in _PLACES.items()
        ]
        small = [
            Setting(label=f"{mix.label}, OPT-6.7B", at=None, mix=mix, model="opt_6_7b")
            for mix in (SHAREGPT, LONGBENCH)
        ]
        return [*large, *small]

    def claims(self, grid: Grid, settings: Sequence[Setting]) -> Sequence[Row]:
        """Tails of the time per token, times to the first one, and how often batches meet."""
        sharegpt, longbench, azure, small_sharegpt, small_longbench = settings
        rows: list[Row] = [
            grid.ratio_row(
                *((700 / 500, 700 / 350), "[note] 700 / 350 to 500 tokens/s"),
                of=(ALIGNED, DISTSERVE),
                at=(AT_ONCE, sharegpt),
            )
        ]
        for measure in (TPOT_P99, TPOT_BATCH_P99):
            for setting, factor in ((sharegpt, 1.65), (longbench, 2.1), (azure, 7.4)):
                rows.append(
                    grid.ratio_row(
                        *((factor, factor), "[note]"),
                        of=(DISTSERVE, ALIGNED),
                        at=(LOADED, setting),
                        measure=measure,
                    )
                )
        for setting, high in ((small_sharegpt, 8.61), (small_longbench, 12.37)):
            rows.append(
                grid.value_row(
                    *((0.0, high), "[paper] at most"),
                    system=ALIGNED,
                    at=(LOADED, setting),
                    measure=MIXED,
                    limit_ratio=0,
                )
            )
        for measure in (TTFT, READY):
            for setting, mean_s in ((sharegpt, 1.49), (longbench, 2.54)):
                rows.append(
                    grid.value_row(
                        *((mean_s, mean_s), "[note]"),
                        system=ALIGNED,
                        at=(LOADED, setting),
                        measure=measure,
                    )
                )
        rows.append(
            grid.value_row(
                *((0.0, 30.0), "[note] at most about"),
                system=ALIGNED,
                at=(LOADED, longbench),
                measure=READY_MAX,
            )
        )
        return rows
