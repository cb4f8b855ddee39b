"""The measured points of a device's kernels, read from and written to a JSON file.

A file holds, per kernel, `columns` and `time_s` (points, SI units), where they come from and how
well they predict shapes that they do not hold; null stands for a kernel without points.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hwmodels.kernels.models import KernelModels
from hwmodels.strict_json import as_object, as_text, check_keys, read_object, shown
from hwmodels.tables.axes import TABLED_KERNELS
from hwmodels.tables.points import MeasuredPoints
from sim.errors import ConfigError

_KEYS = ("table", "device", "date", "compared_with", "inputs", "kernels")
_VERSION = 1
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceTable:
    """Measured points of one device.

    Attributes:
        device: name of the device profile that they belong to.
        date: when the table was written, ISO 8601.
        compared_with: date of the fitted kernels whose errors the table states.
        inputs: SHA-256 of each file of measurements, by its path inside the data folder.
        kernels: points by the field of `KernelModels`; a kernel without points is not there.
    """

    device: str
    date: str
    compared_with: str
    inputs: Mapping[str, str]
    kernels: Mapping[str, MeasuredPoints]

    def check_device(self, device: str) -> None:
        """Check that the table belongs to a device.

        Raises:
            ConfigError: it does not.
        """
        if self.device != device:
            raise ConfigError(f"device {device}: the table holds points of device {self.device}")

    def coverage(self) -> dict[str, dict[str, tuple[float, float]]]:
        """Closed range of each argument, by kernel that takes part in prices."""
        return {name: points.valid for name, points in self.kernels.items() if points.is_used}

    def to_text(self) -> str:
        """The file: JSON with one line per column, ending in a newline."""
        kernels = [
            f'    "{name}": {_kernel_text(self.kernels.get(name))}' for name in TABLED_KERNELS
        ]
        head = {
            "table": _VERSION,
            "device": self.device,
            "date": self.date,
            "compared_with": self.compared_with,
            "inputs": dict(self.inputs),
        }
        lines = [f'  "{key}": {json.dumps(value)},' for key, value in head.items()]
        lines += ['  "kernels": {', ",\n".join(kernels), "  }"]
        return "\n".join(["{", *lines, "}"]) + "\n"

    @classmethod
    def from_json(cls, where: str, record: Mapping[str, object]) -> "DeviceTable":
        """Build a table from JSON values; `where` names them in messages.

        Raises:
            ConfigError: a key is missing or unknown, or a value is not allowed.
        """
        check_keys(where, record, _KEYS)
        if record["table"] != _VERSION or isinstance(record["table"], bool):
            found = shown(record["table"])
            raise ConfigError(f"{where}: table must be {_VERSION} (the layout), found {found}")
        inputs = as_object(f"{where}: inputs", record["inputs"])
        kernels = as_object(f"{where}: kernels", record["kernels"])
        check_keys(f"{where}: kernels", kernels, TABLED_KERNELS)
        if all(kernels[name] is None for name in TABLED_KERNELS):
            raise ConfigError(f"{where}: kernels: all are null, a table must have points of one")
        return cls(
            device=as_text(f"{where}: device", record["device"]),
            date=_date(f"{where}: date", record["date"]),
            compared_with=_date(f"{where}: compared_with", record["compared_with"]),
            inputs={name: as_text(f"{where}: inputs: {name}", sha) for name, sha in inputs.items()},
            kernels={
                name: MeasuredPoints.from_json(
                    f"{where}: {name}", name, as_object(f"{where}: {name}", kernels[name])
                )
                for name in TABLED_KERNELS
                if kernels[name] is not None
            },
        )


def load_table(path: str | Path) -> DeviceTable:
    """Read a table.

    Raises:
        ConfigError: unreadable file, or a key or value that is not allowed.
    """
    source = Path(path)
    return DeviceTable.from_json(f"{source}", read_object(source))


def check_compared(table: DeviceTable, models: KernelModels) -> None:
    """Check that a table and fitted kernels belong to one device and every kernel has a form.

    Raises:
        ConfigError: they do not, or a kernel with points has no fitted form.
    """
    table.check_device(models.device)
    for name in table.kernels:
        if getattr(models, name) is None:
            raise ConfigError(
                f"device {models.device}: the table has points of {name}, "
                "for which the device has no fitted kernel"
            )


def _date(where: str, value: object) -> str:
    text = as_text(where, value)
    if not _DATE.fullmatch(text):
        raise ConfigError(f"{where} must be YYYY-MM-DD, found {shown(text)}")
    return text


def _kernel_text(points: MeasuredPoints | None) -> str:
    if points is None:
        return "null"
    record = points.to_json()
    columns = as_object("columns", record.pop("columns"))
    times = json.dumps(record.pop("time_s"), separators=(",", ":"))
    lines = [f'      "{key}": {json.dumps(value)},' for key, value in record.items()]
    named = [
        f'        "{name}": {json.dumps(column, separators=(",", ":"))}'
        for name, column in columns.items()
    ]
    lines += ['      "columns": {', ",\n".join(named), "      },", f'      "time_s": {times}']
    return "\n".join(["{", *lines, "    }"])
