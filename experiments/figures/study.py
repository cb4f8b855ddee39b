"""Runs prepared for drawing: which line, and which point of it, each of them belongs to.

A *series* is drawn as one line: a policy, or a policy under one of several variants (another model,
another batch limit). A *setting* is one load; its runs differ only by seed and replication.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.figures.errors import FigureError
from experiments.figures.looks import LINES, Look, looks_of
from experiments.figures.units import load_text
from experiments.results.load import Run, without_copies
from experiments.results.metrics_frame import CLOSED_LOOP, is_plain, metrics_frame

if TYPE_CHECKING:
    import pandas as pd

LOAD_KEYS = (
    "trace.load",
    "trace.rate_per_s",
    "trace.rate_scale",
    "trace.copies",
    "trace.concurrency",
    "trace.replay_concurrency",
    "trace.arrivals.concurrency",
)
"""Varying keys that move a run along its line instead of making another line."""

REGIMES = ("stable", "closed_loop", "backlogged", "overloaded")
"""From the best to the worst."""

SHAKY = ("backlogged", "overloaded")
"""Regimes whose averages depend on where the trace stops."""


@dataclass(frozen=True)
class Study:
    """Runs of a comparison that ended well.

    Attributes:
        runs: the jobs, in the given order.
        rows: one per (run, replication): the columns of `metrics_frame` and `index` (into `runs`),
            `variant` (text, empty where there is one), `series`, `is_closed` (a fixed number of
            users sends the requests), `setting` (an integer by rising offered rate, then by rising
            number of users).
        attrs: of the metrics frame: lists of its columns. Not with the rows, since pandas copies
            them in every operation.
        looks: of every series.
        notes: what was left out, a line each.
        placebos: rows of runs with another order of ties, which tell what is noise; None if there
            are none. They are not drawn.
    """

    runs: list[Run]
    rows: "pd.DataFrame"
    attrs: dict[str, Any]
    looks: dict[str, Look]
    notes: list[str] = field(default_factory=list)
    placebos: "pd.DataFrame | None" = None

    @cached_property
    def series(self) -> list[str]:
        """All series, in the order of the runs."""
        return list(dict.fromkeys(self.rows["series"]))

    @cached_property
    def settings(self) -> list[int]:
        """All settings, by rising offered rate, then by rising number of users."""
        return sorted(set(self.rows["setting"]))

    @cached_property
    def is_closed(self) -> bool:
        """Whether a fixed number of users sends the requests in all runs: no rate is offered."""
        return bool(self.rows["is_closed"].all())

    def over_load(self) -> tuple["Study", list[str]]:
        """The runs that a figure over the load can show, and notes on those left out.

        Without those of a closed loop where others offer a rate: they have none.
        """
        is_closed = self.rows["is_closed"]
        if self.is_closed or not is_closed.any():
            return self, []
        names = ", ".join(dict.fromkeys(self.rows.loc[is_closed, "series"]))
        number = self.rows.loc[is_closed, "index"].nunique()
        note = f"{number} runs with a fixed number of users offer no rate: not drawn ({names})"
        return replace(self, rows=self.rows[~is_closed]), [note]

    def offered_rate(self, setting: int) -> float:
        """Mean offered rate of a setting, requests/s; NaN where it is not known."""
        rates = self.rows.loc[self.rows["setting"] == setting, "offered_rate_per_s"]
        return float(rates.mean())

    def users(self, setting: int) -> float:
        """Number of users in a closed loop; NaN where a setting is none."""
        return float(self.rows.loc[self.rows["setting"] == setting, "users"].mean())

    def title_of(self, setting: int) -> str:
        """Which load a setting is, for the head of a figure."""
        text = load_text(self.offered_rate(setting), self.users(setting))
        if not text:
            return ""
        return f"At {text}" if np.isfinite(self.users(setting)) else f"At {text} offered"

    def regime(self, series: str, setting: int | None = None) -> str | None:
        """Worst regime of a series, in one setting or in all."""
        rows = self.rows[self.rows["series"] == series]
        if setting is not None:
            rows = rows[rows["setting"] == setting]
        return worst(rows["regime"].tolist())

    def runs_of(self, series: str, setting: int) -> list[Run]:
        """Jobs of a series in a setting."""
        rows = self.rows[(self.rows["series"] == series) & (self.rows["setting"] == setting)]
        return [self.runs[index] for index in dict.fromkeys(rows["index"])]

    def pick(self, rate: float | None) -> int:
        """The setting whose offered rate (in a closed loop: number of users) is nearest to `rate`.

        None picks the highest at which no run is backlogged or overloaded, or the lowest of all.
        Where runs with and without a closed loop are mixed, it is one without.
        """
        open_ones = set(self.rows.loc[~self.rows["is_closed"], "setting"])
        settings = [one for one in self.settings if one in open_ones] or self.settings
        level = self.users if self.is_closed else self.offered_rate
        if rate is not None:
            aim = rate
            return min(settings, key=lambda one: np.nan_to_num(abs(level(one) - aim), nan=np.inf))
        steady = [
            setting
            for setting in settings
            if not any(self.regime(series, setting) in SHAKY for series in self.series)
        ]
        return steady[-1] if steady else settings[0]


def worst(regimes: Sequence[str | None]) -> str | None:
    """Worst of some regimes; None if none is known."""
    known = [regime for regime in regimes if regime in REGIMES]
    return max(known, key=REGIMES.index, default=None)


def study_of(
    runs: Sequence[Run], policy_keys: Sequence[str] = (), unit_keys: Sequence[str] = ()
) -> Study:
    """Sort runs into series and settings.

    Args:
        runs: the jobs.
        policy_keys: keys such as ``"engine.max_num_seqs"`` that make different policies.
        unit_keys: keys such as ``"trace.window_s"`` whose values are observations of one setting.

    Raises:
        FigureError: none of the runs ended well.
    """
    kept, copies = without_copies(runs)
    done = [run for run in kept if run.status == "ok"]
    if not done:
        raise FigureError(f"none of the {len(runs)} runs given ended well: nothing to draw")
    notes = [_left_out(len(kept) - len(done), len(kept))] if len(done) < len(kept) else []
    if copies:
        notes.append(f"{len(copies)} of {len(runs)} runs repeat another one and are drawn once")
    rows = metrics_frame(done, policy_keys, unit_keys).copy()  # in one piece: columns are added
    is_drawn = is_plain(rows)
    attrs, rows.attrs = {str(key): value for key, value in rows.attrs.items()}, {}
    keys = attrs["settings"]
    by_run = {name: index for index, name in enumerate(dict.fromkeys(rows["run"]))}
    rows["index"] = rows["run"].map(by_run)
    variants = _variants(rows, [key for key in keys if key not in LOAD_KEYS])
    rows["variant"] = variants
    rows["series"] = [
        f"{policy}, {variant}" if variant else policy
        for policy, variant in zip(rows["policy"], variants, strict=True)
    ]
    rows["is_closed"] = rows["users"].notna() | (rows["regime"] == CLOSED_LOOP)
    rows["setting"] = _settings(rows, [key for key in keys if key in LOAD_KEYS])
    looks = _looks(rows, variants)
    if is_drawn.all():
        return Study(done, rows, attrs, looks, notes)
    notes.append("placebos (routing.tie_shift) tell what is noise and are not drawn")
    return Study(done, rows[is_drawn], attrs, looks, notes, rows[~is_drawn])


def _left_out(number: int, whole: int) -> str:
    return f"{number} of {whole} runs failed, were infeasible or were interrupted: not drawn"


def _variants(rows: "pd.DataFrame", keys: list[str]) -> list[str]:
    """Texts of the settings that are no loads, one per row."""
    names = [key.rpartition(".")[2] for key in keys]
    titles = [
        name if names.count(name) == 1 else key for key, name in zip(keys, names, strict=True)
    ]
    columns = [
        ["" if _is_absent(value) else f"{title}={_text(value)}" for value in rows[key]]
        for key, title in zip(keys, titles, strict=True)
    ]
    texts = [", ".join(filter(None, parts)) for parts in zip(*columns, strict=True)]
    return texts or [""] * len(rows)


def _is_absent(value: object) -> bool:
    """Whether a run has no such setting at all, as one without roles has no decode router."""
    return isinstance(value, float) and np.isnan(value)


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _settings(rows: "pd.DataFrame", keys: list[str]) -> list[int]:
    """Numbers of the loads, by rising offered rate, then by rising users, one per row."""
    columns = ["is_closed", "users", *keys]
    loads = list(zip(*(rows[key].astype(str) for key in columns), strict=True))
    levels: dict[tuple[str, ...], tuple[bool, float]] = {}
    for load in dict.fromkeys(loads):
        same = rows.loc[[one == load for one in loads]]
        is_closed = bool(same["is_closed"].iloc[0])
        level = float(same["users" if is_closed else "offered_rate_per_s"].mean())
        levels[load] = is_closed, float(np.nan_to_num(level, nan=np.inf))
    order = sorted(levels, key=lambda load: (levels[load], load))
    return [order.index(load) for load in loads]


def _looks(rows: "pd.DataFrame", variants: list[str]) -> dict[str, Look]:
    """Colour and marker by policy; where there are variants, the line tells them apart."""
    by_policy = looks_of(rows["policy"].tolist())
    places = {variant: place for place, variant in enumerate(dict.fromkeys(variants))}
    looks: dict[str, Look] = {}
    for series, policy, variant in zip(rows["series"], rows["policy"], variants, strict=True):
        look = by_policy[policy]
        line = LINES[places[variant] % len(LINES)] if len(places) > 1 else look.line
        looks[series] = replace(look, line=line)
    return looks
