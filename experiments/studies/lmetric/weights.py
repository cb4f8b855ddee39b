"""`lmetric_weights`: the weights of a sum, which LMETRIC's product does without."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

from experiments.studies.feather.rows import SeriesRow
from experiments.studies.findings import Findings, Row, Section
from experiments.studies.lmetric.comparison import Comparison, Plan, Table
from experiments.studies.lmetric.measures import TPOT, TTFT, TTFT_P50
from experiments.studies.lmetric.rows import ClaimedRow, measured_row
from experiments.studies.lmetric.setting import MODELS, Scale, Setting
from experiments.studies.lmetric.sources import AGENT, CONVERSATION, SYNTHETIC
from experiments.studies.lmetric.variants import LMETRIC, Variant, with_weight

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WEIGHTS = (0.1, 0.25, 0.4, 0.55, 0.7, 0.85)
"""Of the hit. Steps of 0.15, as the claim has it, through the optima that the paper found."""

CURVE_TITLE = "TTFT p50 over the weight of the hit"
STEPS_TITLE = "TTFT p50: change by a step of 0.15 in the weight (%)"

_STEP_CLAIM = 44.0


class LmetricWeights(Comparison):
    """A weighted sum over its weights."""

    name = "lmetric_weights"
    question = (
        "How much hangs on the weights of a linear router, and does LMETRIC, which has none, match "
        "the best ones?"
    )
    sizes: Mapping[str, str] = {
        "quick": "weights 0.1 to 0.85, conversation and synthetic, load 0.5, Qwen2.5-7B: 16 jobs "
        "(one minute on two free cores)",
        "full": "and agent, and Qwen3-30B-A3B: 60 jobs of whole traces",
    }
    scales: ClassVar[Mapping[str, Scale]] = {
        "quick": Scale(size="quick", num_seeds=3, num_warm=300),
        "full": Scale(size="full", num_seeds=5, num_warm=300),
    }
    printed = (TTFT, TTFT_P50, TPOT)
    own_notes = (
        "the hit has the weight, free seats and free tokens share the rest; the paper's search "
        "(0.7 best for its chats, 0.55 for its API trace) may have split the rest otherwise",
        "claim: a change of 0.15 moves TTFT p50 by 44 %; held against the largest change between "
        "neighbours of the grid, whichever way",
    )

    def plan(self, size: str) -> Plan:
        """All weights, at half capacity."""
        is_full = size == "full"
        sources = (CONVERSATION, SYNTHETIC, AGENT) if is_full else (CONVERSATION, SYNTHETIC)
        return {
            Setting(source=source, load=0.5, model=model): tuple(map(with_weight, WEIGHTS))
            for model in (MODELS if is_full else ("7B",))
            for source in sources
        }

    def claims(self, table: Table, plan: Plan) -> Sequence[Row]:
        """The largest change between two neighbouring weights."""
        rows = []
        for setting in plan:
            steps = {pair: table.change(setting, *pair, TTFT_P50) for pair in _steps()}
            pair = max(steps, key=lambda one: abs(steps[one].mean))
            sign = 1.0 if steps[pair].mean > 0 else -1.0
            claim = sign * _STEP_CLAIM
            rows.append(
                ClaimedRow(
                    setting=setting.title,
                    quantity=f"{TTFT_P50.title}: {pair[0].label} against {pair[1].label}",
                    unit="%",
                    claim=(claim, claim),
                    simulated=steps[pair],
                    role="[note]",
                    limit_ratio=0.25,
                    floor_ratio=table.floor_ratio(setting, TTFT_P50),
                )
            )
        return rows

    def more(self, table: Table, plan: Plan) -> Sequence[Section]:
        """Every step, and the curve for the figure."""
        steps = [
            measured_row(
                f"{setting.title}: {_weight(other):g} to {_weight(mine):g}",
                "linear",
                TTFT_P50.title,
                "%",
                table.change(setting, mine, other, TTFT_P50),
                _weight(mine),
            )
            for setting in plan
            for mine, other in _steps()
        ]
        curve = [
            measured_row(
                setting.title,
                series,
                TTFT_P50.title,
                TTFT_P50.unit,
                table.at(setting, variant).interval(TTFT_P50),
                weight,
            )
            for setting in plan
            for weight in WEIGHTS
            for series, variant in (("linear", with_weight(weight)), ("lmetric", LMETRIC))
        ]
        return [
            Section(title=STEPS_TITLE, rows=tuple(steps)),
            Section(title=CURVE_TITLE, rows=tuple(curve), is_printed=False),
        ]

    def pictures(self, findings: Findings) -> "Mapping[str, Figure]":
        """The median time to first token over the weight; LMETRIC does not depend on it."""
        from experiments.studies.feather.figure import lines_figure

        panels: dict[str, list[SeriesRow]] = {}
        for row in findings.section(CURVE_TITLE).rows:
            if isinstance(row, SeriesRow):
                panels.setdefault(row.setting, []).append(row)
        label = f"{TTFT_P50.title} ({TTFT_P50.unit})"
        return {self.name: lines_figure(panels, "Weight of the hit", label=label)}


def _steps() -> list[tuple[Variant, Variant]]:
    """Neighbouring weights, the larger one first."""
    pairs = pairwise(WEIGHTS)
    return [(with_weight(upper), with_weight(lower)) for lower, upper in pairs]


def _weight(variant: Variant) -> float:
    return float(variant.options["hit_weight"])
