"""`feather_one_prefix`: all requests behind one prefix, against what somebody else measured."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from experiments.stats.intervals import Interval
from experiments.studies.ada_cascade.anchor import ANCHORS
from experiments.studies.base import Bench, Study
from experiments.studies.feather.cell import DECIDES, Cell
from experiments.studies.feather.found import Found, run_cells
from experiments.studies.feather.load import Load
from experiments.studies.feather.measures import BATCH, OUTPUT, TPOT
from experiments.studies.feather.rows import SeriesRow, claim_row, measured_row, ratio_title
from experiments.studies.feather.sweep import series_rows
from experiments.studies.feather.variants import FCFS, FEATHER, RADIX_COST, Variant
from experiments.studies.findings import Findings, Row, Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MEASURED: Mapping[tuple[int, Variant], float] = {
    (100, FCFS): 1763.6,
    (100, RADIX_COST): 1715.8,
    (100, FEATHER): 1752.6,
    (500, FCFS): 2668.0,
    (500, RADIX_COST): 2449.0,
    (500, FEATHER): 2621.0,
}
"""Output tokens/s by maximal batch and policy. Source: POLICIES 1.6 (a third party's runs of the
authors' fork on vLLM 0.14)."""

BATCHES = (100, 500)
VARIANTS = (FCFS, RADIX_COST, FEATHER)

_LOAD = Load(num_groups=1, prefix_tokens=10_000, rate_per_s=None)
_RATIO_LIMIT, _LEVEL_LIMIT = 0.02, 0.1
_ROUNDS = {"quick": 4, "full": 12}
"""Requests per user; the first two of each count in no figure."""

_OUTPUT_TITLE = "output against the measured runs"
PLAIN_TITLE = "measures"


class FeatherOnePrefix(Study):
    """One prefix of 10,000 tokens, a fixed number of users."""

    name = "feather_one_prefix"
    question = "Is Feather, behind one shared prefix, as near to first come as was measured?"
    sizes: Mapping[str, str] = {
        "quick": "100 and 500 users, 4 requests each, 3 policies, with and without a front end",
        "full": "the same 12 jobs with 12 requests per user",
    }
    decides = (*DECIDES, "frontend.enabled")

    def run(self, bench: Bench) -> Findings:
        """Simulate and compare; nothing is fitted here."""
        keys = [
            (batch, variant, has_frontend)
            for has_frontend in (False, True)
            for batch in BATCHES
            for variant in VARIANTS
        ]
        rounds = _ROUNDS[bench.size]
        found = run_cells(bench, [_cell(rounds * key[0], *key) for key in keys])
        table = dict(zip(keys, found, strict=True))
        ratios: list[Row] = []
        levels: list[Row] = []
        tpots: list[Row] = []
        for has_frontend in (False, True):
            for batch in BATCHES:
                setting = _setting(batch, has_frontend)
                fcfs = table[batch, FCFS, has_frontend]
                for variant in VARIANTS:
                    one = table[batch, variant, has_frontend]
                    if variant is not FCFS:
                        ratios.append(_ratio_row(setting, batch, one, fcfs))
                    levels.append(_level_row(setting, batch, one))
                if not has_frontend:
                    tpots += _tpot_rows(setting, batch, fcfs)
        plain = [
            measured_row(one, measure, _setting(batch, has_frontend), batch)
            for measure in (OUTPUT, TPOT, BATCH)
            for (batch, _, has_frontend), one in table.items()
        ]
        return Findings(
            verdicts=(),
            sections=(
                Section(title="claims: policy over fcfs", rows=tuple(ratios)),
                Section(title=_OUTPUT_TITLE, rows=tuple(levels)),
                Section(title="time per output token of fcfs", rows=tuple(tpots)),
                Section(title=PLAIN_TITLE, rows=tuple(plain), is_printed=False),
            ),
            notes=(f"size={bench.size}: {self.sizes[bench.size]}", *_NOTES),
        )

    def pictures(self, findings: Findings) -> "Mapping[str, Figure]":
        """Output by policy, simulated and measured."""
        from experiments.studies.feather.figure import dots_figure

        rows = [row for row in series_rows(findings, PLAIN_TITLE) if row.quantity == OUTPUT.title]
        dots = [
            replace(
                row,
                setting=row.series,
                series="simulated, front end" if "front end" in row.setting else "simulated",
            )
            for row in rows
        ]
        panels = {
            f"{batch} users": [
                *(dot for row, dot in zip(rows, dots, strict=True) if row.at == batch),
                *_measured_dots(batch),
            ]
            for batch in BATCHES
        }
        return {self.name: dots_figure(panels)}


def _setting(batch: int, has_frontend: bool) -> str:
    return f"{batch} users{', front end' if has_frontend else ''}"


def _cell(num_requests: int, batch: int, variant: Variant, has_frontend: bool) -> Cell:
    return Cell(
        load=_LOAD,
        variant=variant,
        machine={
            "trace.replay_concurrency": str(batch),
            "trace.warmup_requests": str(1 + 2 * batch),
            "engine.max_num_seqs": str(batch),
            "frontend.enabled": str(has_frontend).lower(),
        },
        place=f"{batch}{'-frontend' if has_frontend else ''}",
        num_requests=num_requests,
    )


def _ratio_row(setting: str, batch: int, one: Found, fcfs: Found) -> Row:
    measured = MEASURED[batch, one.cell.variant] / MEASURED[batch, FCFS]
    return claim_row(
        *(setting, ratio_title(one, fcfs, OUTPUT), (measured, measured)),
        *(one.ratio(fcfs, OUTPUT), "[independent]"),
        limit_ratio=_RATIO_LIMIT,
    )


def _level_row(setting: str, batch: int, one: Found) -> Row:
    measured = MEASURED[batch, one.cell.variant]
    return claim_row(
        *(setting, one.cell.variant.label, (measured, measured)),
        *(one.interval(OUTPUT), "[independent]"),
        limit_ratio=_LEVEL_LIMIT,
        unit=OUTPUT.unit,
    )


def _tpot_rows(setting: str, batch: int, fcfs: Found) -> Sequence[Row]:
    """Beside the measured rows with cascade attention (docs/validation.md)."""
    return [
        claim_row(
            *(setting, TPOT.title, anchor.tpot_ms, fcfs.interval(TPOT), "[independent]"),
            limit_ratio=_LEVEL_LIMIT,
            unit=TPOT.unit,
        )
        for anchor in ANCHORS
        if anchor.has_cascade and anchor.num_users == batch
    ]


def _measured_dots(batch: int) -> list[SeriesRow]:
    return [
        SeriesRow(
            setting=variant.label,
            quantity=OUTPUT.title,
            unit=OUTPUT.unit,
            claim=None,
            simulated=Interval(value, value, value, 1),
            series="measured",
        )
        for (users, variant), value in MEASURED.items()
        if users == batch
    ]


_NOTES = (
    "[independent]: a third party's runs (RTX 6000 Ada, Llama-3.1-8B, the authors' fork on vLLM "
    "0.14); that as many users as the batch holds were kept busy is taken from its FCFS rows",
    "all lengths are fixed and all users start at once: there is nothing random, and ± is 0",
    "levels are held to 10 %, ratios of policies to 2 points: the author calls 2 % no difference",
    "the default front end has the constants of another server (docs/frontend.md); the policies' "
    "own CPU time is not priced",
)
