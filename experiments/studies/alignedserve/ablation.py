"""`alignedserve_ablation`: without prefetch, without lengths, without both, and other readings."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from experiments.studies.alignedserve.cell import Setting
from experiments.studies.alignedserve.comparison import (
    AT_ONCE,
    LOADED,
    Comparison,
    Grid,
    dots_of,
)
from experiments.studies.alignedserve.measures import (
    BATCH,
    BUBBLE,
    DONE_LONG,
    DONE_SHORT,
    EVICTED,
    FAST,
    MIXED,
    OUTPUT,
    PREPARED,
    STEP,
    TPOT_BATCH_P99,
    TPOT_P99,
    WAIT_LONG,
    WAIT_SHORT,
)
from experiments.studies.alignedserve.mixes import AZURE, synthetic
from experiments.studies.alignedserve.notes import sizes_of
from experiments.studies.alignedserve.systems import (
    ALIGNED,
    BOUNDED,
    DISTSERVE,
    DRAINED,
    FULL_BATCH,
    NEITHER,
    NO_LENGTHS,
    NO_PREFETCH,
    WIDEN,
)
from experiments.studies.findings import Findings, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MIXED_LENGTHS = synthetic(90)


class AlignedserveAblation(Comparison):
    """Parts of the mechanism switched off one by one."""

    name = "alignedserve_ablation"
    question = "Which part of AlignedServe does what: the lengths, the prefetch, the batch limit?"
    sizes: Mapping[str, str] = sizes_of("2 mixes, 9 systems: 36 jobs", "the same: 36 jobs")
    systems = (
        *(ALIGNED, NO_PREFETCH, NO_LENGTHS, NEITHER),
        *(WIDEN, FULL_BATCH, DRAINED, BOUNDED, DISTSERVE),
    )
    printed = (
        *(
            OUTPUT,
            TPOT_P99,
            TPOT_BATCH_P99,
            STEP,
            BATCH,
            FAST,
            PREPARED,
            BUBBLE,
            MIXED,
            WAIT_SHORT,
            WAIT_LONG,
        ),
        *(DONE_SHORT, DONE_LONG, EVICTED),
    )
    own_notes = (
        "widen: a batch goes on with the intervals around its own up to its limit; 80 %: a batch "
        "may take 80 % of the KV blocks; drained: the next batch is switched in when nothing runs, "
        "not below half of k_min; 10 s: our bound on the time in the pool",
    )

    def settings(self, size: str) -> Sequence[Setting]:
        """Azure-like lengths, for which there are claims, and a synthetic mix."""
        return [
            Setting(label="Azure-like, OPT-13B", at=1.0, mix=AZURE),
            Setting(label="90 % short, OPT-13B", at=2.0, mix=_MIXED_LENGTHS),
        ]

    def claims(self, grid: Grid, settings: Sequence[Setting]) -> Sequence[Row]:
        """What is lost without a part, and how fast iterations are and are prepared."""
        azure = (AT_ONCE, settings[0])
        loaded = (LOADED, settings[0])
        without = (1 - 0.1473, 1 - 0.1473)
        without_both = (without[0] - 0.2851, without[0] - 0.2851)
        return [
            grid.ratio_row(without, "[note]", of=(NO_PREFETCH, ALIGNED), at=azure),
            grid.ratio_row(without_both, "[note]", of=(NEITHER, ALIGNED), at=azure),
            grid.value_row(
                (95.0, 100.0), "[note]", system=ALIGNED, at=loaded, measure=PREPARED, limit_ratio=0
            ),
            grid.value_row(
                (90.0, 100.0), "[note]", system=ALIGNED, at=loaded, measure=FAST, limit_ratio=0
            ),
            grid.value_row(
                (0.0, 10.0), "[note]", system=NO_LENGTHS, at=loaded, measure=FAST, limit_ratio=0
            ),
        ]

    def pictures(self, findings: Findings) -> "Mapping[str, Figure]":
        """Output, a row per system, a panel per mix."""
        figure = dots_of(findings, OUTPUT, lambda row: (row.setting.partition(",")[0], row.series))
        return {self.name: figure}
