"""`alignedserve_gqa`: models with grouped queries, and kernels that cut the work otherwise."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from experiments.studies.alignedserve.cell import Setting
from experiments.studies.alignedserve.comparison import AT_ONCE, Comparison, Grid, dots_of
from experiments.studies.alignedserve.measures import (
    BATCH,
    BUBBLE,
    BUBBLE_HEAD,
    BUBBLE_PADDED,
    BUBBLE_SPLIT,
    OUTPUT,
    STEP,
    TPOT_BATCH_P99,
    TPOT_P99,
)
from experiments.studies.alignedserve.mixes import synthetic
from experiments.studies.alignedserve.notes import sizes_of
from experiments.studies.alignedserve.systems import ALIGNED, DISTSERVE, NO_LENGTHS
from experiments.studies.feather.rows import SeriesRow
from experiments.studies.findings import Findings, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODELS = {"opt_6_7b": "OPT-6.7B", "llama3_8b": "Llama-3-8B", "qwen2_5_7b": "Qwen2.5-7B"}
FAMILIES = ("split_kv", "per_head", "padded")


class AlignedserveGqa(Comparison):
    """MHA and GQA on every kernel family."""

    name = "alignedserve_gqa"
    question = "Does the gain survive grouped queries, and kernels that split contexts or pad them?"
    sizes: Mapping[str, str] = sizes_of(
        "3 models, 3 kernel families, 3 systems: 27 jobs", "the same: 27 jobs"
    )
    systems = (ALIGNED, NO_LENGTHS, DISTSERVE)
    arrivals = (AT_ONCE,)
    printed = (
        OUTPUT,
        TPOT_P99,
        TPOT_BATCH_P99,
        STEP,
        BATCH,
        BUBBLE,
        BUBBLE_SPLIT,
        BUBBLE_HEAD,
        BUBBLE_PADDED,
    )
    own_notes = (
        "four times as many requests on models with grouped queries, whose KV is a quarter to a "
        "ninth of OPT's, so that it does not all fit at once",
        "lengths as in alignedserve_mixes with 90 % short; a bubble is what a step waits for its "
        "longest member; 'bubble if FAMILY' prices the batches that ran with that family",
    )

    def settings(self, size: str) -> Sequence[Setting]:
        """Models and families."""
        return [
            Setting(
                label=f"{title}, {family}",
                at=None,
                mix=synthetic(90),
                model=model,
                options=("kernel=flash", f"kernel.family={family}"),
                place=family,
                times=1 if model == "opt_6_7b" else 4,
            )
            for model, title in MODELS.items()
            for family in FAMILIES
        ]

    def claims(self, grid: Grid, settings: Sequence[Setting]) -> Sequence[Row]:
        """Nobody claimed anything for these; the published factor is the yardstick."""
        return [
            grid.ratio_row(
                *((1.0, 1.98), "[paper] up to, on OPT"),
                of=(ALIGNED, other),
                at=(AT_ONCE, setting),
                limit_ratio=0,
            )
            for other in (DISTSERVE, NO_LENGTHS)
            for setting in settings
        ]

    def pictures(self, findings: Findings) -> "Mapping[str, Figure]":
        """Output, a row per family, a panel per model."""

        def place(row: SeriesRow) -> tuple[str, str]:
            model, _, family = row.setting.partition(":")[0].partition(", ")
            return model, family

        return {self.name: dots_of(findings, OUTPUT, place)}
