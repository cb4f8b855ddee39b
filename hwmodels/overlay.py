"""Overlay profiles: a device profile with some constants changed, such as those fitted to a server.

An overlay names the profile it lies on, packaged or of the user's own, and keeps the kernels of it.
An overlay on an overlay is refused: of two fits to servers the later one would hide the earlier.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from hwmodels.device import CONSTANT_UNITS, DeviceSpec, load_profile, read_constants
from hwmodels.strict_json import as_object, as_text, check_keys, looks_like_path, read_object, shown
from sim.errors import ConfigError

BASE_KEY = "overlay_of"
"""Key of a profile that tells an overlay."""

_REQUIRED = (BASE_KEY, "name", "date", "constants")
_ERRORS = ("error_before", "error_after")
_COUNTS = ("num_requests_fit", "num_requests_heldout")
_FIDELITY = "fidelity"


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlay:
    """Constants that replace those of a profile, and how well they did.

    Attributes:
        base: name of the packaged profile below it, or path of one of the user's own.
        name: what the overlay is called.
        date: when it was made, ISO 8601.
        values: changed constants by name, in the units of `CONSTANT_UNITS`.
        sources: where each of them comes from, by name.
        error_before: relative errors of the base on requests that no fit saw, by metric.
        error_after: the same with the overlay.
        num_requests_fit: requests that the constants were fitted to; None if not fitted.
        num_requests_heldout: requests behind the errors; None if not fitted.
        fidelity: how the steps were priced when the constants were fitted, which take up what that
            way lacks; None if not fitted.
    """

    base: str
    name: str
    date: str
    values: Mapping[str, float]
    sources: Mapping[str, str]
    error_before: Mapping[str, float] | None = None
    error_after: Mapping[str, float] | None = None
    num_requests_fit: int | None = None
    num_requests_heldout: int | None = None
    fidelity: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The profile as it is written; what is None is left out."""
        fitted = {name: getattr(self, name) for name in (_FIDELITY, *_ERRORS, *_COUNTS)}
        return {
            BASE_KEY: self.base,
            "name": self.name,
            "date": self.date,
            "constants": {
                key: {"value": value, "unit": CONSTANT_UNITS[key], "source": self.sources[key]}
                for key, value in self.values.items()
            },
            **{name: value for name, value in fitted.items() if value is not None},
        }


def overlay_of(source: Path | Traversable, record: Mapping[str, object]) -> Overlay:
    """The overlay that a JSON object describes.

    Args:
        source: the file, for messages.
        record: its content.

    Raises:
        ConfigError: a key or value is not allowed, or a constant lacks unit or source.
    """
    check_keys(f"{source}", record, _REQUIRED, (_FIDELITY, *_ERRORS, *_COUNTS))
    constants = as_object(f"{source}: constants", record["constants"])
    if not constants:
        allowed = ", ".join(CONSTANT_UNITS)
        raise ConfigError(f"{source}: constants: must hold at least one of {allowed}")
    check_keys(f"{source}: constants", constants, (), CONSTANT_UNITS)
    values, sources = read_constants(source, constants)
    texts = {key: as_text(f"{source}: {key}", record[key]) for key in (BASE_KEY, "name", "date")}
    if _FIDELITY in record:
        texts[_FIDELITY] = as_text(f"{source}: {_FIDELITY}", record[_FIDELITY])
    return Overlay(
        base=texts[BASE_KEY],
        name=texts["name"],
        date=texts["date"],
        values=values,
        sources=sources,
        error_before=_errors(f"{source}: error_before", record.get("error_before")),
        error_after=_errors(f"{source}: error_after", record.get("error_after")),
        num_requests_fit=_count(f"{source}: num_requests_fit", record.get("num_requests_fit")),
        num_requests_heldout=_count(
            f"{source}: num_requests_heldout", record.get("num_requests_heldout")
        ),
        fidelity=texts.get(_FIDELITY),
    )


def overlaid(source: Path, record: Mapping[str, object]) -> DeviceSpec:
    """The device that an overlay describes: its base with the changed constants.

    The device keeps the name of the base, whose kernels it keeps too; the title tells the overlay.

    Args:
        source: the overlay's file; a relative path of its base counts from its folder.
        record: its content.

    Raises:
        ConfigError: the overlay is not as `overlay_of` allows, its base cannot be read, or the
            base is an overlay itself.
    """
    overlay = overlay_of(source, record)
    below = base_of(source, overlay)
    if isinstance(below, Path) and BASE_KEY in read_object(below):
        raise ConfigError(
            f"{source}: {BASE_KEY}: {overlay.base} is an overlay itself; name the profile below it"
        )
    base = load_profile(below)
    return replace(
        base,
        **overlay.values,  # type: ignore[arg-type]
        title=f"{base.title}, overlay {overlay.name}",
        date=overlay.date,
        sources={**base.sources, **overlay.sources},
        fitted_fidelity=overlay.fidelity or "",
    )


def base_of(source: Path, overlay: Overlay) -> str | Path:
    """What `load_profile` takes for the base of an overlay."""
    return source.parent / overlay.base if looks_like_path(overlay.base) else overlay.base


def _errors(where: str, value: object) -> dict[str, float] | None:
    if value is None:
        return None
    errors = as_object(where, value)
    return {key: _not_negative(f"{where}: {key}", error) for key, error in errors.items()}


def _not_negative(where: str, value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf:
        return float(value)
    raise ConfigError(f"{where}: must be a number from 0, found {shown(value)}")


def _count(where: str, value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ConfigError(f"{where}: must be a whole number from 0, found {shown(value)}")
    return value
