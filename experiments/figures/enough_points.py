"""Figures that say little of a single load, or of a single point, are refused."""

from experiments.figures.errors import FigureError
from experiments.figures.study import Study

NEED_LOADS = ("latency_vs_rate", "goodput_vs_rate", "heatmap")
"""Figures over the offered rate, or over the number of users of a closed loop."""


def check_points(name: str, study: Study, has_measured: bool) -> None:
    """Refuse a figure that would hold too little to be read.

    Args:
        name: of the figure.
        study: the runs.
        has_measured: whether measured runs are drawn beside them.

    Raises:
        FigureError: there is no load or but one for a figure over it, or one point of a curve.
    """
    if name in NEED_LOADS:
        _check_loads(study.over_load()[0], has_measured)
    is_alone = len(study.settings) == len(study.series) == 1
    if name == "frontier" and is_alone and not has_measured:
        raise FigureError("there is one point: it takes several loads or policies")


def _check_loads(study: Study, has_measured: bool) -> None:
    what = "number of users" if study.is_closed else "offered rate"
    if study.rows["users" if study.is_closed else "offered_rate_per_s"].isna().all():
        needs = "" if study.is_closed else " with arrivals at several times"
        raise FigureError(f"no {what}: it takes requests.parquet{needs}")
    if len(study.settings) == 1 and not has_measured:
        raise FigureError(f"all runs have the same {what}")
