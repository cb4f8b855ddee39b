"""Points of lines: means over seeds and replications, with their intervals."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from experiments.figures.errors import FigureError
from experiments.figures.study import Study, worst
from experiments.stats.intervals import mean_interval

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    "kind",
    "metric",
    "series",
    "setting",
    "offered_rate_per_s",
    "users",
    "value",
    "low",
    "high",
    "num_runs",
    "regime",
)
"""Of a table of points; `value`, `low` and `high` in the unit of the metric's suffix."""

RATE_TITLE, USERS_TITLE = "Offered rate (requests/s)", "Users"


def points_of(study: Study, metrics: Iterable[str]) -> "pd.DataFrame":
    """One row per metric, series and setting: mean and 95 % t interval over its runs.

    `low` and `high` are NaN for a single run, everything is NaN where a run has no value.

    Raises:
        FigureError: a metric that no run has.
    """
    import pandas as pd

    names, known = list(metrics), study.attrs["metrics"]
    for metric in names:
        if metric not in known:
            raise FigureError(
                f"no metric {metric!r} in the runs: must be one of {', '.join(known)}"
            )
    groups = dict(iter(study.rows.groupby(["series", "setting"])))
    points = [
        (series, setting, groups[series, setting])
        for series in study.series
        for setting in study.settings
        if (series, setting) in groups
    ]
    found: list[tuple[object, ...]] = []
    samples = [_independent(rows, known) for _, _, rows in points]
    for metric in names:
        for (series, setting, rows), sample in zip(points, samples, strict=True):
            interval = mean_interval(sample[metric].to_numpy())
            load = (float(rows["offered_rate_per_s"].mean()), float(rows["users"].mean()))
            bounds = (interval.mean, interval.low, interval.high, interval.num_values)
            regime = worst(rows["regime"].tolist())
            found.append(("simulated", metric, series, setting, *load, *bounds, regime))
    return pd.DataFrame(found, columns=list(COLUMNS))


def _independent(rows: "pd.DataFrame", metrics: list[str]) -> "pd.DataFrame":
    """The rows; one of them where all are the very same, since a seed that decides nothing repeats
    one observation.
    """
    values = rows[metrics].to_numpy(dtype=float)
    is_same = (values == values[0]) | (np.isnan(values) & np.isnan(values[0]))
    return rows.iloc[:1] if is_same.all() else rows


def absent_metrics(study: Study, metrics: Iterable[str]) -> list[str]:
    """Those of the metrics that no run has a value of."""
    known = study.attrs["metrics"]
    return [name for name in metrics if name not in known or study.rows[name].isna().all()]


def load_axis(points: "pd.DataFrame") -> tuple[str, str]:
    """Column of the load of points, and its title: users in a closed loop, else a rate."""
    if points["users"].notna().any():
        return "users", USERS_TITLE
    return "offered_rate_per_s", RATE_TITLE
