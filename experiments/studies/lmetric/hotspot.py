"""`lmetric_hotspot`: a burst of requests behind one long prefix, the detector off and on."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, fields, replace
from itertools import chain
from typing import TYPE_CHECKING, ClassVar

from experiments.stats.intervals import Interval, mean_interval
from experiments.studies.feather.rows import SeriesRow
from experiments.studies.findings import Findings, Row, Section
from experiments.studies.lmetric.comparison import Comparison, Plan, Table
from experiments.studies.lmetric.hot_class import Balance, balance_of, hot_source
from experiments.studies.lmetric.measures import (
    HOT_TPOT,
    HOT_TTFT,
    REST_TPOT,
    REST_TTFT,
    TPOT,
    TTFT,
)
from experiments.studies.lmetric.rows import measured_row
from experiments.studies.lmetric.setting import Scale, Setting
from experiments.studies.lmetric.variants import JSQ, LMETRIC, Variant

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHARES = {"quick": (0.1, 0.2, 0.4, 0.6), "full": (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)}
PREFIXES = {"quick": (1024, 10_000, 50_000), "full": (1024, 5000, 10_000, 20_000, 50_000)}
LOAD = 0.7

DETECTORS = tuple(
    Variant(f"detector {window}", "lmetric", {"hotspot": window})
    for window in ("sliding", "tumbling")
)

BALANCE_TITLE = "holders of the prefix under lmetric, detector off"
BEGIN_TITLE = "share from which the holders carry 1.25 times the others' requests"

UNEVEN_RATIO = 1.25
"""From here on the holders are called overloaded (ours)."""

_QUANTITIES = {
    "num_holders": ("|M|", "instances"),
    "condition": ("x/x_bar over |M|/|M_bar|", "x"),
    "violated": ("class arrivals at which that is above 1", "%"),
    "with_stay": ("the same times the class's longer stay", "x"),
    "load_ratio": ("requests per holder / per other", "x"),
    "stay_ratio": ("stay of the class / of the others", "x"),
    "on_holders": ("class sent to holders", "%"),
}


_SHOWN = ("num_holders", "condition", "violated", "load_ratio")


class LmetricHotspot(Comparison):
    """Shares and lengths of a hot prefix."""

    name = "lmetric_hotspot"
    question = (
        "When does a hot prefix unbalance LMETRIC, is it where x/x_bar > |M|/|M_bar|, and does its "
        "detector help?"
    )
    sizes: Mapping[str, str] = {
        "quick": "shares 0.1 to 0.6, prefixes of 1,024 to 50,000 tokens, load 0.7, Qwen2.5-7B, "
        "detector off, sliding, tumbling: 60 jobs, 2 runs of 5,000 requests (one minute on two "
        "free cores)",
        "full": "7 shares, 5 prefixes, 5 runs of 15,000 requests: 245 jobs",
    }
    scales: ClassVar[Mapping[str, Scale]] = {
        "quick": Scale(size="quick", num_seeds=2, num_warm=200),
        "full": Scale(size="full", num_seeds=5, num_warm=600),
    }
    printed = (TTFT, TPOT)
    extra = (HOT_TTFT, REST_TTFT, HOT_TPOT, REST_TPOT)
    is_joined = True
    own_notes = (
        "x: share of the class's arrivals while it lasts, from a tenth of the trace on; M: "
        "instances on which a request of the class has had its first token; others' prompts share "
        "nothing and have 4,000 tokens on average, the class's the prefix and 200 more; answers "
        "are alike, 400 tokens",
        "LMETRIC itself decides how large M becomes: a request of the class that finds the holders "
        "loaded goes elsewhere and makes one more; |M| is the mean over the class's arrivals",
        "the condition comes from a fluid model in which all of the class goes to M, nothing makes "
        "M grow, and every request weighs the same; `the class's longer stay` weighs it with the "
        "ratio of mean times in the system, which Little's law asks for; where no share of the "
        "grid does it, nothing is given",
        "the detector as in docs/policies/routing.md: class at token 1,024, 60-s window, filter "
        "from 2|M| requests in a row; the paper reports no effect of it",
    )

    def plan(self, size: str) -> Plan:
        """All shares of all prefixes."""
        return {
            Setting(
                source=hot_source(share, prefix),
                load=LOAD,
                place=f"{prefix:,} tokens, x={share:g}",
                at=share,
            ): (*DETECTORS, JSQ)
            for prefix in PREFIXES[size]
            for share in SHARES[size]
        }

    def more(self, table: Table, plan: Plan) -> Sequence[Section]:
        """Where the load of the holders leaves that of the others."""
        balances = {
            setting: [
                balance_of(run, setting.num_instances) for run in table.at(setting, LMETRIC).runs
            ]
            for setting in plan
        }
        rows = {
            name: tuple(
                measured_row(
                    setting.place,
                    _prefix(setting),
                    title,
                    unit,
                    _interval(balances[setting], name, 100.0 if unit == "%" else 1.0),
                    setting.at,
                )
                for setting in plan
            )
            for name, (title, unit) in _QUANTITIES.items()
        }
        shown = tuple(row for name in _SHOWN for row in rows[name])
        others = tuple(row for name in rows if name not in _SHOWN for row in rows[name])
        return [
            Section(title=BALANCE_TITLE, rows=shown),
            Section(title=f"{BALANCE_TITLE}, more", rows=others, is_printed=False),
            Section(title=BEGIN_TITLE, rows=tuple(_begins(balances))),
        ]

    def pictures(self, findings: Findings) -> "Mapping[str, Figure]":
        """Measured and predicted ratio of loads over the share, a panel per prefix."""
        from experiments.studies.feather.figure import lines_figure

        names = {
            _QUANTITIES["load_ratio"][0]: "measured",
            _QUANTITIES["condition"][0]: "paper's condition",
            _QUANTITIES["with_stay"][0]: "weighted by stay",
        }
        panels: dict[str, list[SeriesRow]] = {}
        found = (findings.section(f"{BALANCE_TITLE}{end}").rows for end in ("", ", more"))
        for row in chain.from_iterable(found):
            if isinstance(row, SeriesRow) and row.quantity in names:
                panels.setdefault(row.series, []).append(row)
        renamed = {
            title: [_named(row, names[row.quantity]) for row in rows]
            for title, rows in panels.items()
        }
        axis = "Share of the class"
        return {self.name: lines_figure(renamed, axis, label="Holders / others (x)")}


def _begins(balances: Mapping[Setting, Sequence[Balance]]) -> list[Row]:
    """Per prefix, the smallest share of the grid at which the holders are overloaded.

    The claim is the smallest share at which the condition says so.
    """
    by_prefix: dict[str, list[Setting]] = {}
    for setting in balances:
        by_prefix.setdefault(_prefix(setting), []).append(setting)
    rows = []
    for prefix, settings in by_prefix.items():
        said, stays, found = (
            _first(settings, balances, name, limit)
            for name, limit in (
                ("condition", 1.0),
                ("with_stay", UNEVEN_RATIO),
                ("load_ratio", UNEVEN_RATIO),
            )
        )
        for title, claim, source in (
            ("x/x_bar > |M|/|M_bar|", said, "[paper]"),
            ("with the class's stay", stays, "ours"),
        ):
            rows.append(
                Row(
                    setting=prefix,
                    quantity=f"begins at, claim: {title}",
                    unit="share",
                    claim=None if claim is None else (claim, claim),
                    simulated=_alone(found),
                    role=source,
                )
            )
    return rows


def _first(
    settings: Sequence[Setting],
    balances: Mapping[Setting, Sequence[Balance]],
    name: str,
    limit: float,
) -> float | None:
    """Smallest share at which the mean of a quantity exceeds a limit; None where none does."""
    for setting in sorted(settings, key=lambda one: one.at or 0.0):
        if _interval(balances[setting], name).mean > limit:
            return setting.at
    return None


def _interval(balances: Sequence[Balance], name: str, factor: float = 1.0) -> Interval:
    place = [item.name for item in fields(Balance)].index(name)
    return mean_interval([factor * float(astuple(one)[place]) for one in balances])


def _alone(value: float | None) -> Interval:
    nan = float("nan")
    return Interval(nan if value is None else value, nan, nan, 1)


def _prefix(setting: Setting) -> str:
    return setting.place.partition(", x=")[0]


def _named(row: SeriesRow, series: str) -> SeriesRow:
    return replace(row, series=series)
