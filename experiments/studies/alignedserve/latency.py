"""`alignedserve_latency`: what a few long requests do to a decode iteration, from prices alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from experiments.chosen_device import chosen_device
from experiments.stats.intervals import Interval
from experiments.studies.alignedserve.cell import Cell, Setting
from experiments.studies.alignedserve.mixes import SCALES, synthetic
from experiments.studies.alignedserve.systems import VLLM
from experiments.studies.base import Bench, Study
from experiments.studies.feather.rows import SeriesRow, claim_row
from experiments.studies.findings import Findings, Row, Section
from hwmodels.attention.choice import Family, KernelChoice
from hwmodels.calibrated import CalibratedCost
from hwmodels.iteration_bubbles import FAMILIES, Lengths, bubbles_s
from hwmodels.model_catalogue import load_model

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NUM_REQUESTS, NUM_LONG, SHORT_TOKENS = 64, 4, 500
"""6.25 % long requests in a batch. Source: AlignedServe, figure 1; the batch and its short contexts
are those of the forms' expectation."""

LONG_TOKENS = (500, 1000, 2000, 4000, 8000, 10_000)

MODELS = {"opt_13b": "OPT-13B", "llama3_8b": "Llama-3-8B"}

CLAIMED_TOKENS = 8000

_STEP = "iteration over one of short contexts alone"
_BUBBLE = "bubble in that iteration"


@dataclass(frozen=True, slots=True)
class _Batch:
    """What a cost model reads of a batch; nothing is shared."""

    long_tokens: int

    @property
    def contexts(self) -> list[int]:
        """Contexts of all requests."""
        return [SHORT_TOKENS] * (NUM_REQUESTS - NUM_LONG) + [self.long_tokens] * NUM_LONG

    @property
    def num_requests(self) -> int:
        """Requests."""
        return NUM_REQUESTS

    @property
    def context_tokens(self) -> int:
        """Sum of the contexts."""
        return sum(self.contexts)

    @property
    def context_tokens_squared(self) -> int:
        """Sum of their squares."""
        return sum(tokens * tokens for tokens in self.contexts)

    @property
    def max_context_tokens(self) -> int:
        """The longest."""
        return max(self.contexts)

    @property
    def tree(self) -> None:
        """What they share."""
        return

    @property
    def lengths(self) -> Lengths:
        """The same as an array of one step."""
        sums = (self.num_requests, self.context_tokens, self.context_tokens_squared)
        size, total, squares, longest = (
            np.array([float(value)]) for value in (*sums, self.max_context_tokens)
        )
        return Lengths(num_requests=size, context_tokens=total, squares=squares, longest=longest)


class AlignedserveLatency(Study):
    """Length of the long requests in a batch of 64, on each kernel family."""

    name = "alignedserve_latency"
    question = "How much longer does a decode iteration take with 6.25 % long requests in it?"
    sizes: Mapping[str, str] = dict.fromkeys(
        SCALES, "2 models, 3 kernel families, 6 lengths; no simulation (seconds)"
    )
    decides: tuple[str, ...] = ("trace", "cluster", "model", "kernel", "replications", "experiment")

    def run(self, bench: Bench) -> Findings:
        """Price the batches."""
        setting = Setting(label="", at=0.0, mix=synthetic(95))
        job = bench.runner.job(Cell(setting=setting, system=VLLM).case(SCALES[bench.size]))
        device = chosen_device(job.hardware)
        sections = []
        claims: list[Row] = []
        for model, title in MODELS.items():
            costs: dict[Family, CalibratedCost] = {
                family: CalibratedCost(
                    device, load_model(model), kernel=KernelChoice(family=family)
                )
                for family in FAMILIES
            }
            rows = _rows(costs)
            sections.append(Section(title=f"{_STEP}, {title}", rows=rows))
            sections.append(Section(title=f"{_BUBBLE}, {title}", rows=_bubble_rows(costs)))
            if model == "opt_13b":
                claims = _claims(rows)
        notes = (
            f"{NUM_REQUESTS} requests that decode, {NUM_LONG} of them long, the others with "
            f"{SHORT_TOKENS} tokens of KV; OPT's 40 KV heads are beyond what was measured",
            "most of the rise is the bytes of the long requests: the bubble is what is left if the "
            "same bytes were spread evenly",
            "tags: [note] a third party's summary, [forms] what our own formulas were expected to "
            "give",
        )
        first = Section(title="claims", rows=tuple(claims))
        return Findings(verdicts=(), sections=(first, *sections), notes=notes)

    def pictures(self, findings: Findings) -> "Mapping[str, Figure]":
        """The factor over the length of the long requests, a line per family, a panel per model."""
        from experiments.studies.feather.figure import lines_figure

        panels: dict[str, Sequence[SeriesRow]] = {}
        for title in MODELS.values():
            rows = findings.section(f"{_STEP}, {title}").rows
            panels[title] = [row for row in rows if isinstance(row, SeriesRow)]
        return {self.name: lines_figure(panels, "KV of the long requests (tokens)")}


def _rows(costs: Mapping[Family, CalibratedCost]) -> tuple[SeriesRow, ...]:
    return tuple(
        _row(
            family,
            tokens,
            "iteration",
            _step_s(cost, tokens) / _step_s(cost, SHORT_TOKENS),
            "x",
        )
        for family, cost in costs.items()
        for tokens in LONG_TOKENS
    )


def _bubble_rows(costs: Mapping[Family, CalibratedCost]) -> tuple[SeriesRow, ...]:
    return tuple(
        _row(
            family,
            tokens,
            "bubble",
            100 * float(bubbles_s(cost, _Batch(tokens).lengths, family)[0]) / _step_s(cost, tokens),
            "% of the iteration",
        )
        for family, cost in costs.items()
        for tokens in LONG_TOKENS
    )


def _step_s(cost: CalibratedCost, long_tokens: int) -> float:
    return cost.decode_step_s(_Batch(long_tokens))


def _row(family: str, tokens: int, quantity: str, value: float, unit: str) -> SeriesRow:
    return SeriesRow(
        setting=f"{family}, {tokens:,} tokens",
        quantity=quantity,
        unit=unit,
        claim=None,
        simulated=_exactly(value),
        at=tokens,
        series=family,
    )


def _exactly(value: float) -> Interval:
    """A value that is not drawn."""
    return Interval(mean=value, low=value, high=value, num_values=1)


def _claims(rows: Sequence[SeriesRow]) -> list[Row]:
    found = next(row for row in rows if row.series == "split_kv" and row.at == CLAIMED_TOKENS)
    setting = f"OPT-13B, split_kv, {CLAIMED_TOKENS:,} tokens"
    return [
        claim_row(setting, "iteration", (rise, rise), found.simulated, tag, limit_ratio=0.1)
        for rise, tag in ((1.61, "[note]"), (1.47, "[forms]"))
    ]
