"""The measured points of one kernel, and their form as JSON values."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwmodels.measurements.rows import MeasuredRows
from hwmodels.strict_json import as_object, as_text, check_keys, shown
from hwmodels.tables.axes import TABLED_KERNELS, Columns
from hwmodels.tables.residuals import Residuals
from sim.errors import ConfigError
from sim.interfaces import FloatArray

_KEYS = ("source", "heldout", "columns", "time_s")
_ERROR_KEYS = ("num_shapes", "num_rows", "form_mape", "table_mape")
_SHORTEST_S, _LONGEST_S = 1e-9, 10.0
"""Times of one kernel: outside, a unit was mistaken."""
_LARGEST = 1e15
_LARGEST_NUMBER = 1e300


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutErrors:
    """Errors on shapes whose points were taken away, a fifth of the shapes at a time.

    Attributes:
        num_shapes: shapes, each held out once.
        num_rows: points of these shapes.
        form_mape: mean absolute relative error of the fitted form alone, a ratio.
        table_mape: the same of the form and the points of the other shapes.
    """

    num_shapes: int
    num_rows: int
    form_mape: float
    table_mape: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPoints:
    """Measured times of one kernel at distinct points.

    Attributes:
        kernel: the field of `KernelModels`.
        columns: arguments by name, as `TABLED_KERNELS` orders them, each of shape (points,).
        time_s: measured seconds, shape (points,).
        source: where the points come from.
        heldout: how well they predict shapes that they do not hold; None with too few shapes.
    """

    kernel: str
    columns: Columns
    time_s: FloatArray
    source: str
    heldout: HeldOutErrors | None = None

    def __post_init__(self) -> None:
        _check(self)

    @property
    def num_points(self) -> int:
        """Measured points."""
        return int(self.time_s.size)

    @property
    def valid(self) -> dict[str, tuple[float, float]]:
        """Closed range of each argument over the points."""
        return {
            name: (float(column.min()), float(column.max()))
            for name, column in self.columns.items()
        }

    @property
    def is_used(self) -> bool:
        """Whether points take part in a price.

        Not where they predict held-out shapes worse than the form alone: then the residuals are
        noise, and interpolating them would carry an outlier to its neighbours.
        """
        return self.heldout is None or self.heldout.table_mape <= self.heldout.form_mape

    def where(self, keep: NDArray[np.bool_]) -> "MeasuredPoints":
        """The points under a mask, held-out errors dropped."""
        columns = {name: column[keep] for name, column in self.columns.items()}
        return replace(self, columns=columns, time_s=self.time_s[keep], heldout=None)

    def with_errors(self, heldout: HeldOutErrors | None) -> "MeasuredPoints":
        """The same points with held-out errors."""
        return replace(self, heldout=heldout)

    def residuals(self, form: Any) -> Residuals:
        """Ratios of the measured times to those of a fitted form."""
        kernel = TABLED_KERNELS[self.kernel]
        factors = self.time_s / kernel.form_s(form, self.columns)
        return Residuals(kernel.coordinates(self.columns), factors, kernel.along)

    def to_json(self) -> dict[str, object]:
        """The points as JSON values; `from_json` reads them back."""
        heldout = self.heldout
        return {
            "source": self.source,
            "heldout": heldout and {name: getattr(heldout, name) for name in _ERROR_KEYS},
            "columns": {name: _plain(column) for name, column in self.columns.items()},
            "time_s": _plain(self.time_s),
        }

    @classmethod
    def from_json(cls, where: str, kernel: str, record: Mapping[str, object]) -> "MeasuredPoints":
        """Read points; `where` names them in messages.

        Raises:
            ConfigError: a key is missing or unknown, or a value is not allowed.
        """
        check_keys(where, record, _KEYS)
        columns = as_object(f"{where}: columns", record["columns"])
        names = TABLED_KERNELS[kernel].columns
        check_keys(f"{where}: columns", columns, names)
        try:
            return cls(
                kernel=kernel,
                columns={name: _numbers(f"columns: {name}", columns[name]) for name in names},
                time_s=_numbers("time_s", record["time_s"]),
                source=as_text("source", record["source"]),
                heldout=_heldout(record["heldout"]),
            )
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from None


def points_of(kernel: str, rows: MeasuredRows) -> MeasuredPoints:
    """Points of measured rows, which hold one row per point.

    Raises:
        ConfigError: no row, or a size that is not allowed.
    """
    names = TABLED_KERNELS[kernel].columns
    return MeasuredPoints(
        kernel=kernel,
        columns={name: rows.columns[name] for name in names},
        time_s=_nine_digits(rows.time_s),
        source=rows.source,
    )


def _nine_digits(time_s: FloatArray) -> FloatArray:
    """Times as a file of nine significant digits holds them."""
    return np.array([float(f"{value:.9g}") for value in time_s.tolist()])


def _check(points: MeasuredPoints) -> None:
    kernel = TABLED_KERNELS[points.kernel]
    num_points = points.num_points
    if not num_points:
        raise ConfigError(f"{points.kernel}: must have at least one point")
    if any(column.size != num_points for column in points.columns.values()):
        found = ", ".join(f"{name} {column.size}" for name, column in points.columns.items())
        raise ConfigError(f"columns and time_s ({num_points}) must be equally long, found {found}")
    for name, column in points.columns.items():
        lowest = 0 if name in kernel.may_be_zero else 1
        is_size = (column >= lowest) & (column <= _LARGEST) & (np.floor(column) == column)
        range_text = f"{lowest} to {_LARGEST:g}, a whole number"
        _check_range(f"columns: {name}", column, is_size, range_text)
    is_time = (points.time_s >= _SHORTEST_S) & (points.time_s <= _LONGEST_S)
    _check_range("time_s", points.time_s, is_time, f"{_SHORTEST_S:g} to {_LONGEST_S:g} s")
    if "num_kv_heads" in points.columns:
        heads, kv_heads = points.columns["num_heads"], points.columns["num_kv_heads"]
        _check_range("columns: num_kv_heads above num_heads:", kv_heads, kv_heads <= heads)
    if "top_k" in points.columns:
        chosen, experts = points.columns["top_k"], points.columns["num_experts"]
        _check_range("columns: top_k above num_experts:", chosen, chosen <= experts)
    places = np.stack(list(points.columns.values()), axis=1)
    distinct, first = np.unique(places, axis=0, return_index=True)
    if len(distinct) < num_points:
        repeated = np.setdiff1d(np.arange(num_points), first)[0]
        shape = " ".join(
            f"{name}={value:.12g}"
            for name, value in zip(points.columns, places[repeated], strict=True)
        )
        raise ConfigError(f"the point {shape} appears twice")


def _check_range(
    what: str, values: FloatArray, is_allowed: NDArray[np.bool_], allowed: str = ""
) -> None:
    if not is_allowed.all():
        found = shown(float(values[~is_allowed][0]))
        must = f": must be from {allowed}" if allowed else ""
        raise ConfigError(f"{what} {found} is not allowed{must}")


def _plain(values: FloatArray) -> list[int | float]:
    """Numbers as JSON shows them best: whole ones without a point."""
    return [int(value) if value.is_integer() else value for value in values.tolist()]


def _is_number(value: object) -> bool:
    return _is_any_number(value) and abs(value) < _LARGEST_NUMBER  # type: ignore[arg-type]


def _is_any_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _numbers(what: str, value: object) -> FloatArray:
    if not isinstance(value, list):
        raise ConfigError(f"{what}: must be a list of numbers, found {shown(value)}")
    for entry in value:
        if not _is_number(entry):
            size = f" below {_LARGEST_NUMBER:g} in size" if _is_any_number(entry) else ""
            raise ConfigError(f"{what}: must be numbers{size}, found {shown(entry)}")
    return np.array(value, dtype=np.float64)


def _heldout(value: object) -> HeldOutErrors | None:
    if value is None:
        return None
    record = as_object("heldout", value)
    check_keys("heldout", record, _ERROR_KEYS)
    for name in _ERROR_KEYS:
        number = record[name]
        is_count = name.startswith("num_")
        if not _is_number(number) or number < 0 or (is_count and type(number) is not int):  # type: ignore[operator]
            raise ConfigError(f"heldout: {name}: must be a number >= 0, found {shown(number)}")
    return HeldOutErrors(
        num_shapes=int(record["num_shapes"]),  # type: ignore[call-overload]
        num_rows=int(record["num_rows"]),  # type: ignore[call-overload]
        form_mape=float(record["form_mape"]),  # type: ignore[arg-type]
        table_mape=float(record["table_mape"]),  # type: ignore[arg-type]
    )
