"""Where the fitted parameters of a kernel model come from, and how far they may be trusted."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from hwmodels.strict_json import as_object, as_text, check_keys, shown
from sim.errors import ConfigError

POOR_HELDOUT_MAPE = 0.3
"""Held-out error of a fit above which its form does not describe the rows, a ratio."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """The record that stands next to the values of one kernel model.

    Attributes:
        standard_errors: one-sigma error of each parameter by its name in
            `hwmodels.kernels.parameters.parameter_names`, in the unit of the parameter. None where
            the data do not identify it, or where it is restated and was not fitted.
        num_rows: measured rows that the fit used; 0 where nothing was fitted.
        heldout_mape: mean absolute relative error on shapes that the fit never saw, a ratio (0.07
            means 7 %). None where none was measured.
        source: which measurements, or where restated values come from.
        valid: closed range of each argument that the measurements cover, by argument name.
        is_extrapolated: values were transferred from another device or assumed.
    """

    standard_errors: Mapping[str, float | None]
    num_rows: int
    heldout_mape: float | None
    source: str
    valid: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    is_extrapolated: bool = False

    @property
    def is_poorly_fitted(self) -> bool:
        """Whether shapes that the fit never saw err by more than `POOR_HELDOUT_MAPE`."""
        return self.heldout_mape is not None and self.heldout_mape > POOR_HELDOUT_MAPE

    def to_json(self) -> dict[str, object]:
        """The record as JSON values; `from_json` reads it back."""
        return {
            "standard_errors": dict(self.standard_errors),
            "num_rows": self.num_rows,
            "heldout_mape": self.heldout_mape,
            "source": self.source,
            "valid": {name: list(bounds) for name, bounds in self.valid.items()},
            "is_extrapolated": self.is_extrapolated,
        }

    @classmethod
    def from_json(cls, where: str, record: Mapping[str, object]) -> "Provenance":
        """Read a record; `where` names it in messages.

        Raises:
            ConfigError: a key is missing or unknown, or a value is not allowed.
        """
        check_keys(where, record, PROVENANCE_KEYS)
        if type(record["is_extrapolated"]) is not bool:
            found = shown(record["is_extrapolated"])
            raise ConfigError(f"{where}: is_extrapolated must be true or false, found {found}")
        num_rows = record["num_rows"]
        if type(num_rows) is not int or num_rows < 0:
            found = shown(num_rows)
            raise ConfigError(f"{where}: num_rows must be a whole number >= 0, found {found}")
        errors = as_object(f"{where}: standard_errors", record["standard_errors"])
        valid = as_object(f"{where}: valid", record["valid"])
        return cls(
            standard_errors={
                name: _optional_size(f"{where}: standard_errors: {name}", value)
                for name, value in errors.items()
            },
            num_rows=num_rows,
            heldout_mape=_optional_size(f"{where}: heldout_mape", record["heldout_mape"]),
            source=as_text(f"{where}: source", record["source"]),
            valid={name: _range(f"{where}: valid: {name}", item) for name, item in valid.items()},
            is_extrapolated=record["is_extrapolated"],
        )


PROVENANCE_KEYS = tuple(item.name for item in fields(Provenance))
"""Keys of the record in a profile."""


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e24


def _optional_size(where: str, value: object) -> float | None:
    if value is None:
        return None
    if not _is_number(value) or value < 0:  # type: ignore[operator]
        raise ConfigError(f"{where}: must be null or a number >= 0, found {shown(value)}")
    return float(value)  # type: ignore[arg-type]


def _range(where: str, value: object) -> tuple[float, float]:
    is_pair = isinstance(value, list | tuple) and len(value) == 2 and all(map(_is_number, value))
    if not is_pair or value[0] > value[1]:  # type: ignore[index]
        raise ConfigError(f"{where}: must be [lowest, highest], found {shown(value)}")
    return float(value[0]), float(value[1])  # type: ignore[index]
