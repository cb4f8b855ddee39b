"""From the name of a figure to its module, and from runs to its table and its picture."""

import inspect
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol, cast

import pandas as pd
from matplotlib.figure import Figure

from experiments.figures import NAMES
from experiments.figures.enough_points import check_points
from experiments.figures.errors import FigureError
from experiments.figures.looks import Look
from experiments.figures.study import Study, study_of
from experiments.figures.style import styled
from experiments.results.load import Run

POLICY_KEYS = "policy_keys"
UNIT_KEYS = "unit_keys"
"""Options of every figure: see `study_of`."""

LISTS = (POLICY_KEYS, UNIT_KEYS, "quantities", "statistics", "metrics")
"""Options of several names; one alone need not stand in a list."""


class FigureModule(Protocol):
    """What the module of a figure offers."""

    def data(self, study: Study, **options: Any) -> pd.DataFrame:
        """Exactly what is drawn: a tidy table in SI base units.

        Raises:
            FigureError: the runs do not hold the data, or an option is wrong.
        """
        ...

    def draw(self, data: pd.DataFrame, looks: Mapping[str, Look]) -> Figure:
        """The picture of the table. Reads nothing else and changes neither argument."""
        ...


def module_of(name: str) -> FigureModule:
    """The module of a figure.

    Raises:
        FigureError: there is none of that name.
    """
    if name not in NAMES:
        raise FigureError(f"unknown figure {name!r}: must be one of {', '.join(NAMES)}")
    return cast(FigureModule, import_module(f"experiments.figures.{name}"))


def figure_data(name: str, runs: Sequence[Run], options: Mapping[str, Any]) -> pd.DataFrame:
    """Table of a figure; `attrs["notes"]` says what was left out."""
    module, study, options = _prepared(name, runs, options)
    return data_of(module, study, options)


def draw_figure(name: str, runs: Sequence[Run], options: Mapping[str, Any]) -> Figure:
    """Picture of a figure."""
    module, study, options = _prepared(name, runs, options)
    check_points(name, study, has_measured=options.get("measured") is not None)
    return picture_of(module, data_of(module, study, options), study)


def _prepared(
    name: str, runs: Sequence[Run], options: Mapping[str, Any]
) -> tuple[FigureModule, Study, dict[str, Any]]:
    """Module, study, and the options that are the figure's own."""
    module = module_of(name)
    given = {
        key: (value,) if key in LISTS and isinstance(value, str) else value
        for key, value in options.items()
    }
    own = {key: value for key, value in given.items() if key not in (POLICY_KEYS, UNIT_KEYS)}
    _check_options(name, module, own)
    study = study_of(runs, given.get(POLICY_KEYS, ()), given.get(UNIT_KEYS, ()))
    return module, study, own


def data_of(module: FigureModule, study: Study, options: Mapping[str, Any]) -> pd.DataFrame:
    """Table of a prepared study."""
    data = module.data(study, **options)
    data.attrs["notes"] = [*study.notes, *data.attrs.get("notes", [])]
    return data


def picture_of(module: FigureModule, data: pd.DataFrame, study: Study) -> Figure:
    """Picture of a table, in our style."""
    with styled():
        return module.draw(data, study.looks)


def options_of(module: FigureModule) -> list[str]:
    """Names of the options that a figure takes."""
    return [key for key in inspect.signature(module.data).parameters if key != "study"]


def _check_options(name: str, module: FigureModule, options: Mapping[str, Any]) -> None:
    """Refuse options that the figure does not take.

    Raises:
        FigureError: there is one.
    """
    taken = options_of(module)
    for key in options:
        if key not in taken:
            allowed = ", ".join([*taken, POLICY_KEYS, UNIT_KEYS])
            raise FigureError(f"figure {name} has no option {key!r}: must be one of {allowed}")
