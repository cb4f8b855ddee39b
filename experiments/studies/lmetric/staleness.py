"""`lmetric_staleness`: how old the router's view is."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from experiments.studies.feather.rows import SeriesRow
from experiments.studies.findings import Findings, Section
from experiments.studies.lmetric.comparison import Comparison, Plan, Table
from experiments.studies.lmetric.measures import HITS, IMBALANCE, TTFT
from experiments.studies.lmetric.rows import measured_row
from experiments.studies.lmetric.setting import Setting
from experiments.studies.lmetric.sources import CONVERSATION, SYNTHETIC
from experiments.studies.lmetric.variants import JSQ, LMETRIC, LPWL, Variant

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AGES_S = (0.02, 0.1, 0.5, 2.0)
"""From a quick report to one that is older than a prefill; vLLM publishes every 0.1 s."""

CURVE_TITLE = "TTFT mean over the age of the view"

LIVE_S = 0.005
"""Abscissa of the live view, whose age is 0, on a logarithmic axis."""

_KINDS: Mapping[str, str] = {"delay": "view_delay_s", "period": "publish_period_s"}


def aged(of: Variant, kind: str, age_s: float, *, assumes: bool) -> Variant:
    """A router whose view is delayed, or published at a period.

    Args:
        of: the router.
        kind: delay or period.
        age_s: seconds.
        assumes: whether it counts what it has sent itself meanwhile.
    """
    options = {_KINDS[kind]: f"{age_s:g}", "assume_dispatches": str(assumes).lower()}
    words = f"{of.label}, {kind} {age_s:g} s{', assumed' if assumes else ''}"
    return Variant(words, of.routing, {**of.options, **options})


class LmetricStaleness(Comparison):
    """Delays and periods, with and without counting one's own dispatches."""

    name = "lmetric_staleness"
    question = "How fresh must LMETRIC's view of the instances be?"
    sizes: Mapping[str, str] = {
        "quick": "delays and periods of 0.02 to 2 s, conversation at load 0.5 and 0.9, "
        "Qwen2.5-7B, 2 runs: 48 jobs (one minute on two free cores)",
        "full": "and synthetic, 5 runs of whole traces: 104 jobs",
    }
    plain = (TTFT, HITS, IMBALANCE)
    own_notes = (
        "delay: counters and cache events arrive so much later; period: all instances are seen as "
        "they were at its last multiple; assumed: the router adds what it has sent itself since "
        "(its prompts, its hits), but sees no end of a request before the report",
        "arrivals are made Poisson: recorded ones come several at a time (steps of 3 s), and all "
        "of them would see the same old view however short the delay",
        "the paper's router hears of every step with its tokens and mirrors cache events exactly; "
        "what it does in between it says nothing of",
    )

    def plan(self, size: str) -> Plan:
        """All ages; two other routers with the longest period."""
        oldest = AGES_S[-1]
        routers = tuple(
            aged(LMETRIC, kind, age_s, assumes=assumes)
            for kind in _KINDS
            for assumes in (False, True)
            for age_s in AGES_S
        )
        others = tuple(
            variant
            for of in (JSQ, LPWL)
            for variant in (
                of,
                *(aged(of, "period", oldest, assumes=assumes) for assumes in (False, True)),
            )
        )
        sources = (CONVERSATION, SYNTHETIC) if size == "full" else (CONVERSATION,)
        return {
            Setting(
                source=source, load=load, trace={"trace.poissonise": "true"}, place="Poisson"
            ): (*routers, *others)
            for source in sources
            for load in (0.5, 0.9)
        }

    def more(self, table: Table, plan: Plan) -> Sequence[Section]:
        """Points of the figure."""
        rows = [
            measured_row(
                setting.title,
                f"{kind}{', assumed' if assumes else ''}",
                TTFT.title,
                TTFT.unit,
                table.at(setting, variant).interval(TTFT),
                at,
            )
            for setting in plan
            for kind in _KINDS
            for assumes in (False, True)
            for at, variant in (
                (LIVE_S, LMETRIC),
                *((age_s, aged(LMETRIC, kind, age_s, assumes=assumes)) for age_s in AGES_S),
            )
        ]
        return [Section(title=CURVE_TITLE, rows=tuple(rows), is_printed=False)]

    def pictures(self, findings: Findings) -> "Mapping[str, Figure]":
        """Time to first token over the age; the leftmost points are the live view."""
        from experiments.studies.feather.figure import lines_figure

        panels: dict[str, list[SeriesRow]] = {}
        for row in findings.section(CURVE_TITLE).rows:
            if isinstance(row, SeriesRow):
                panels.setdefault(row.setting, []).append(row)
        axis = f"Age of the view (s; {LIVE_S:g}: live)"
        return {self.name: lines_figure(panels, axis, label=f"{TTFT.title} ({TTFT.unit})")}
