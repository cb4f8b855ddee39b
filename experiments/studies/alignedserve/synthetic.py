"""`alignedserve_mixes`: short and long requests in several proportions, OPT-2.7B to 30B."""

from collections.abc import Mapping, Sequence

from experiments.studies.alignedserve.cell import Setting
from experiments.studies.alignedserve.comparison import AT_ONCE, LOADED, Comparison, Grid
from experiments.studies.alignedserve.measures import (
    BUBBLE,
    MIXED,
    OUTPUT,
    READY,
    TPOT_BATCH_P99,
    TPOT_P99,
    TTFT,
    WAIT_LONG,
    WAIT_SHORT,
)
from experiments.studies.alignedserve.mixes import synthetic
from experiments.studies.alignedserve.notes import sizes_of
from experiments.studies.alignedserve.systems import ALIGNED, DISTSERVE, FASTGEN, VLLM
from experiments.studies.findings import Row

MODELS = {
    "opt_2_7b": "OPT-2.7B",
    "opt_6_7b": "OPT-6.7B",
    "opt_13b": "OPT-13B",
    "opt_30b": "OPT-30B",
}
SHARES = (95, 90, 80, 70)


class AlignedserveMixes(Comparison):
    """Models and shares of short requests."""

    name = "alignedserve_mixes"
    question = "Does a batch of similar KV lengths serve a mix of short and long requests faster?"
    sizes: Mapping[str, str] = sizes_of(
        "OPT-2.7B to 30B with 95 % short, OPT-13B with 70 to 95 %: 56 jobs",
        "the same, every model with 70 to 95 %: 128 jobs",
    )
    axis = "Short requests (%), OPT-13B"
    printed = (
        *(OUTPUT, TPOT_P99, TPOT_BATCH_P99, TTFT, READY, WAIT_SHORT, WAIT_LONG),
        *(BUBBLE, MIXED),
    )

    def settings(self, size: str) -> Sequence[Setting]:
        """Models and shares; the figure shows OPT-13B alone."""
        return [
            Setting(
                label=f"{title}, {share} % short",
                at=share if model == "opt_13b" else None,
                mix=synthetic(share),
                model=model,
            )
            for model, title in MODELS.items()
            for share in SHARES
            if size == "full" or share == SHARES[0] or model == "opt_13b"
        ]

    def claims(self, grid: Grid, settings: Sequence[Setting]) -> Sequence[Row]:
        """Throughput of the smallest model, and the tail of the time per token."""
        first = settings[0]
        rows: list[Row] = [
            grid.ratio_row((factor, factor), "[note]", of=(ALIGNED, other), at=(AT_ONCE, first))
            for other, factor in ((VLLM, 1.32), (DISTSERVE, 1.35), (FASTGEN, 1.85))
        ]
        for setting in settings:
            rows.append(
                grid.ratio_row(
                    *((1.0, 1.98), "[paper] up to"),
                    of=(ALIGNED, DISTSERVE),
                    at=(AT_ONCE, setting),
                    limit_ratio=0,
                )
            )
        rows += [
            grid.ratio_row(
                *((1.74, 3.05), "[note]"),
                of=(DISTSERVE, ALIGNED),
                at=(LOADED, setting),
                measure=measure,
            )
            for measure in (TPOT_P99, TPOT_BATCH_P99)
            for setting in settings
        ]
        return rows
