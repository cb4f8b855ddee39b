"""Two profiles side by side: rows of constants, kernel times and the reference step."""

import csv
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass, fields

from experiments.calibrate.named_kernels import NamedProfile
from experiments.calibrate.reference_grid import STEP_TEXT, points, step_terms, times_s
from hwmodels.device import CONSTANT_UNITS
from hwmodels.fitting.rows_recipes import numbers_of
from hwmodels.kernels.models import KERNEL_CLASSES

CONSTANT, TIME, STEP = "constant", "kernel time", "reference step"
SAME = 0.01
"""Relative difference below which two constants count as alike on the terminal."""

HEADER = ("kind", "kernel", "name", "first", "second", "ratio")
"""Columns of the CSV."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One number of both profiles.

    Attributes:
        kind: constant, kernel time (s) or term of the reference step (s).
        kernel: which it belongs to; `device` for a device's own constants.
        name: of the constant with its unit, the size, or the term.
        first: None where the profile lacks it.
        second: the same of the other profile.
    """

    kind: str
    kernel: str
    name: str
    first: float | None
    second: float | None

    @property
    def ratio(self) -> float | None:
        """Second over first; None where one lacks it or the first is 0."""
        if self.first is None or self.second is None or not self.first:
            return None
        return self.second / self.first

    @property
    def is_same(self) -> bool:
        """Whether both are there and alike, or neither is."""
        if self.first is None or self.second is None:
            return self.first is self.second
        return math.isclose(self.first, self.second, rel_tol=SAME)


def pairs_of(first: NamedProfile, second: NamedProfile) -> list[Pair]:
    """All numbers of two profiles.

    Raises:
        ConfigError: one lacks a kernel of a decode step.
    """
    return [*_device(first, second), *_kernels(first, second), *_times(first, second)]


def _device(first: NamedProfile, second: NamedProfile) -> Iterator[Pair]:
    for name, unit in CONSTANT_UNITS.items():
        text = name if name.endswith(f"_{unit}") else f"{name} ({unit})"
        values = (float(getattr(one.device, name)) for one in (first, second))
        yield Pair(CONSTANT, "device", text.replace(" (bytes/s)", ""), *values)


def _kernels(first: NamedProfile, second: NamedProfile) -> Iterator[Pair]:
    for kernel, model_class in KERNEL_CLASSES.items():
        siblings = frozenset(item.name for item in fields(model_class)) & KERNEL_CLASSES.keys()
        found = [
            {} if model is None else numbers_of(model, siblings)
            for model in (getattr(one.models, kernel) for one in (first, second))
        ]
        for name in dict.fromkeys([*found[0], *found[1]]):
            yield Pair(CONSTANT, kernel, name, found[0].get(name), found[1].get(name))


def _times(first: NamedProfile, second: NamedProfile) -> Iterator[Pair]:
    for point, one, other in zip(
        points(), times_s(first.models), times_s(second.models), strict=True
    ):
        yield Pair(TIME, point.kernel, point.text, one, other)
    terms, others = step_terms(first.device), step_terms(second.device)
    for term, value in terms.items():
        yield Pair(STEP, STEP_TEXT, term, value, others[term])


def csv_text(pairs: list[Pair]) -> str:
    """All numbers as CSV; columns are `HEADER`, SI units."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADER)
    for pair in pairs:
        numbers = (pair.first, pair.second, pair.ratio)
        shown = ("" if number is None else f"{number:.6g}" for number in numbers)
        writer.writerow([pair.kind, pair.kernel, pair.name, *shown])
    return text.getvalue()
