"""`feather_deviating`: what one request with another prefix costs a batch."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from experiments.stats.intervals import Interval
from experiments.studies.base import Bench, Study
from experiments.studies.feather.cell import DECIDES
from experiments.studies.feather.measures import MAKESPAN, OUTPUT, TPOT
from experiments.studies.feather.rows import SeriesRow, claim_row
from experiments.studies.feather.single_batch import batch_case
from experiments.studies.feather.sweep import series_rows
from experiments.studies.findings import Findings, Section
from experiments.studies.measured import Measure
from experiments.studies.runs import Simulated

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BATCHES = {"quick": (20, 100), "full": (20, 50, 100, 200, 500)}
PREFIXES = {"quick": (5000, 10_000), "full": (1000, 2000, 5000, 10_000)}
KERNELS = {"cascade on": "flash_cascade", "cascade off": "flash"}

SLOWDOWN_TITLE = "decode time with one deviating request / without"
EXPECTED = {(20, 5000): 1.2, (100, 5000): 2.0, (100, 10_000): 2.9}
"""What the forms were expected to give, by batch and prefix tokens. Source: POLICIES 0."""

_CLAIMED_RATIO = 2.0
_CLAIMED_FOR = (100, 5000)


class FeatherDeviating(Study):
    """Batches with and without a deviating request, cascade attention on and off."""

    name = "feather_deviating"
    question = "How much slower does one request with another prefix make a batch that shares one?"
    sizes: Mapping[str, str] = {
        "quick": "20 or 100 requests, prefixes of 5,000 or 10,000 tokens: 19 jobs (20 seconds)",
        "full": "20 to 500 requests, prefixes of 1,000 to 10,000 tokens: 83 jobs (one minute)",
    }
    decides = DECIDES

    def run(self, bench: Bench) -> Findings:
        """Simulate and compare; nothing is fitted here."""
        shapes = [
            (batch, prefix) for batch in BATCHES[bench.size] for prefix in PREFIXES[bench.size]
        ]
        keys = [
            (shape, kernel, has_deviator)
            for shape in shapes
            for kernel in KERNELS
            for has_deviator in (False, True)
        ]
        cases = [
            batch_case(*shape, has_deviator=deviates, machine={"kernel": KERNELS[kernel]})
            for shape, kernel, deviates in keys
        ]
        policies = ("fcfs", "lpm", "feather", "oracle")
        choosing = [
            batch_case(
                *_CLAIMED_FOR,
                has_deviator=True,
                machine={"kernel": "flash_cascade", "batching": policy},
            )
            for policy in policies[1:]
        ]
        found = bench.runner.run([*cases, *choosing])
        table = dict(zip(keys, found[: len(cases)], strict=True))
        chosen = (table[_CLAIMED_FOR, "cascade on", True], *found[len(cases) :])
        slowdown = {
            (shape, kernel): _ratio(table[shape, kernel, True], table[shape, kernel, False])
            for shape in shapes
            for kernel in KERNELS
        }
        claims = [
            claim_row(
                _setting(_CLAIMED_FOR, "cascade on"),
                "TPOT: one deviates/none",
                (_CLAIMED_RATIO, _CLAIMED_RATIO),
                slowdown[_CLAIMED_FOR, "cascade on"],
                "[note]",
            ),
            *(
                claim_row(
                    _setting(shape, "cascade on"),
                    "TPOT: one deviates/none",
                    (value, value),
                    slowdown[shape, "cascade on"],
                    "[forms]",
                    limit_ratio=0.1,
                )
                for shape, value in EXPECTED.items()
            ),
        ]
        rows = [
            SeriesRow(
                setting=_setting(shape, kernel),
                quantity="TPOT: one deviates/none",
                unit="x",
                claim=None,
                simulated=value,
                at=float(shape[0]),
                series=f"{shape[1]:,} tokens, {kernel}",
            )
            for (shape, kernel), value in slowdown.items()
        ]
        times = [
            _row(_setting(shape, kernel), _what(deviates), one, TPOT)
            for (shape, kernel, deviates), one in table.items()
        ]
        by_policy = [
            _row("100 x 5,000 tokens, one deviates", policy, one, measure)
            for measure in (OUTPUT, MAKESPAN, TPOT)
            for policy, one in zip(policies, chosen, strict=True)
        ]
        return Findings(
            verdicts=(),
            sections=(
                Section(title="claims", rows=tuple(claims)),
                Section(title=SLOWDOWN_TITLE, rows=tuple(rows)),
                Section(title="what the policies make of it", rows=tuple(by_policy)),
                Section(title="decode times", rows=tuple(times), is_printed=False),
            ),
            notes=(f"size={bench.size}", *_NOTES),
        )

    def pictures(self, findings: Findings) -> "Mapping[str, Figure]":
        """How much slower, by batch."""
        from experiments.studies.feather.figure import lines_figure

        rows = series_rows(findings, SLOWDOWN_TITLE)
        panels = {
            kernel: [row for row in rows if row.series.endswith(kernel)] for kernel in KERNELS
        }
        return {self.name: lines_figure(panels, "Batch (requests)", label="TPOT ratio (x)")}


def _setting(shape: tuple[int, int], kernel: str) -> str:
    return f"{shape[0]} x {shape[1]:,}, {kernel}"


def _what(has_deviator: bool) -> str:
    return "one deviates" if has_deviator else "all share"


def _ratio(mine: Simulated, yours: Simulated) -> Interval:
    """Exact: there is nothing random."""
    ratio = mine.mean(TPOT.key) / yours.mean(TPOT.key)
    return Interval(ratio, ratio, ratio, 1)


def _row(setting: str, series: str, one: Simulated, measure: Measure) -> SeriesRow:
    return SeriesRow(
        setting=f"{setting}: {series}",
        quantity=measure.title,
        unit=measure.unit,
        claim=None,
        simulated=one.interval(measure.key, measure.factor),
        series=series,
    )


_NOTES = (
    "one batch, all requests at once, every prefix warm, 20 own and 50 output tokens; all lengths "
    "are fixed: there is nothing random, and no interval",
    "the deviating request has a warm prefix of its own, as long as that of the others",
    "[note]: a third party's summary of the paper, batch and prefix not stated, here taken as "
    "100 x 5,000; [forms]: what our own formulas were expected to give",
    "the GPU's kernels are transferred from other GPUs (docs/validation.md)",
)
