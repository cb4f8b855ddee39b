"""The two files of a ServeGen client: arrivals per window of time, and histograms of lengths.

`NAME-trace.csv` has no header; a row is start of the window (s), requests per second, coefficient
of variation of the gaps (not read), family of the gaps (`Gamma`, `Weibull`, or nothing in a window
without requests), its shape and its scale (not read). `NAME-dataset.json` maps starts of longer
windows to histograms `{"input_tokens": "{34: 0.25, ...}", "output_tokens": ...}`, which are texts;
an empty one stands for a window without requests. Further histograms (`reason_ratio`: the share of
the output that is reasoning) are not read.

Source: alibaba/ServeGen, README and the files of its data folder.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sim.errors import TraceFormatError
from sim.workload import FloatArray, IntArray
from traces.options import MAX_RATE, MAX_TIME_S, shown
from traces.readers.reading import Reading
from traces.readers.servegen_lengths import Lengths
from traces.readers.text_file import TextFile

FAMILIES = ("Gamma", "Weibull")

MIN_SHAPE, MAX_SHAPE = 0.01, 1e6
"""Bounds of a shape; the released files have 0.0138 to 9.63."""

TRACE, DATASET = "-trace.csv", "-dataset.json"


@dataclass(frozen=True, slots=True)
class ArrivalWindows:
    """Windows of equal length, one after the other.

    Attributes:
        start_s: start of each. Shape (w,).
        rate_per_s: requests per second. Shape (w,).
        family: index into `FAMILIES`; 0 where there are no requests. Shape (w,).
        shape: shape of the gaps' distribution; 1 where there are no requests. Shape (w,).
    """

    start_s: FloatArray
    rate_per_s: FloatArray
    family: IntArray
    shape: FloatArray

    @property
    def length_s(self) -> float:
        """Length of every window, seconds."""
        return float(self.start_s[1] - self.start_s[0])

    @property
    def end_s(self) -> float:
        """End of the last window."""
        return float(self.start_s[-1]) + self.length_s


class ServeGenFiles:
    """The files of a directory.

    Args:
        reading: names the directory and is told of every bad row.

    Attributes:
        clients: names of the clients, sorted.
        bad_lengths: clients whose lengths cannot be read, in a pass that looks for faults.

    Raises:
        TraceFormatError: there is no such directory, or no client in it.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._directory = Path(reading.path)
        self._digests: dict[str, str] = {}
        self.bad_lengths: set[str] = set()
        try:
            names = sorted(item.name for item in self._directory.iterdir())
            self._num_bytes = {
                name: (self._directory / name).stat().st_size
                for name in names
                if name.endswith((TRACE, DATASET))
            }
        except FileNotFoundError:
            raise reading.refuse(0, "no such directory") from None
        except NotADirectoryError:
            why = f"is a file, must be a directory with files *{TRACE}"
            raise reading.refuse(0, why) from None
        except (OSError, ValueError) as error:
            raise reading.refuse(0, f"cannot be read: {error}") from None
        self.clients = [name.removesuffix(TRACE) for name in names if name.endswith(TRACE)]
        if not self.clients:
            inner = ", ".join(name for name in names if (self._directory / name).is_dir())
            hint = f" (its directories: {inner})" if inner else ""
            raise reading.refuse(0, f"has no file *{TRACE}{hint}")

    @property
    def digests(self) -> dict[str, str]:
        """Name of every file read so far -> sha256 of its content, in the order of names."""
        return dict(sorted(self._digests.items()))

    def windows(self, client: str) -> ArrivalWindows | None:
        """Arrivals of a client; None if its file is bad, in a pass that looks for faults."""
        rows = self._rows(client)
        if rows is None:
            return None
        if len(rows) < 2:
            self._fault(client + TRACE, 0, "window", "must have at least two windows")
            return None
        start_s, rate_per_s, family, shape = np.array(rows, dtype=np.float64).T
        steps = np.diff(start_s)
        if not (steps > 0).all() or np.ptp(steps) > 1e-6 * steps[0]:
            line = 2 + int(np.argmax(~(np.abs(steps - steps[0]) <= 1e-6 * abs(steps[0]))))
            why = "windows must follow one another at equal distances"
            self._fault(client + TRACE, line, "window", why)
            return None
        return ArrivalWindows(start_s, rate_per_s, family.astype(np.int64), shape)

    def lengths(self, client: str) -> Lengths | None:
        """Lengths of a client; None if there are none, or bad ones."""
        name = client + DATASET
        if name not in self._num_bytes:
            return None
        lengths = self._lengths(name)
        if lengths is None:
            self.bad_lengths.add(client)
        return lengths

    def _lengths(self, name: str) -> Lengths | None:
        text = self._text(name)
        if text is None:
            return None
        try:
            found = json.loads(text, object_pairs_hook=_without_repeated)
        except (ValueError, RecursionError) as error:
            why = f"not valid JSON: {' '.join(str(error).split())}"
            self._fault(name, 0, "JSON", why)
            return None
        try:
            by_start = {float(start): texts for start, texts in found.items()}
        except (AttributeError, ValueError):
            by_start = {}
        is_fine = bool(by_start) and len(by_start) == len(found)
        is_fine = is_fine and all(0 <= start <= MAX_TIME_S for start in by_start)
        if not is_fine or not all(isinstance(texts, dict) for texts in by_start.values()):
            why = (
                f"must be an object of different starts of windows, 0 to {MAX_TIME_S:,.0f} s, to "
                "objects of histograms"
            )
            self._fault(name, 0, "JSON", why)
            return None
        starts = sorted(by_start)
        return Lengths(np.array(starts), [by_start[start] for start in starts])

    def fault(self, client: str, why: str) -> None:
        """Report bad lengths of a client."""
        self._fault(client + DATASET, 0, "lengths", why)

    def _rows(self, client: str) -> list[tuple[float, float, float, float]] | None:
        """The windows of a client's file; None if one of them is bad, which is reported."""
        name = client + TRACE
        content = self._text(name)
        if content is None:
            return None
        texts = content.decode().splitlines()
        rows = []
        for line, text in enumerate(texts, 1):
            try:
                rows.append(_window(text))
            except ValueError as error:
                self._fault(name, line, "window", str(error))
        return rows if len(rows) == len(texts) else None

    def _text(self, name: str) -> bytes | None:
        """A file; None if it cannot be read, which is reported."""
        reading = Reading(self._directory / name)
        source = TextFile(reading)
        try:
            text = source.read()
        except TraceFormatError as error:
            self._fault(name, error.line, "file", error.why)
            return None
        self._digests[name] = source.sha256
        if self._reading.progress is not None:
            num_read = sum(self._num_bytes[done] for done in self._digests)
            self._reading.progress(num_read, sum(self._num_bytes.values()))
        return text

    def _fault(self, name: str, line: int, kind: str, why: str) -> None:
        where = f"{name}:{line}" if line else name
        self._reading.fault(0, kind, f"{where}: {why}")


def _without_repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object.

    Raises:
        ValueError: a key appears twice.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"key {shown(repeated)} appears twice")
    return found


def _window(text: str) -> tuple[float, float, float, float]:
    """Start, rate, family and shape.

    Raises:
        ValueError: the row is bad; says what is wrong.
    """
    fields = text.split(",")
    if len(fields) != 6:
        raise ValueError(f"{len(fields)} fields in {shown(text)}: must be 6")
    start_s = _number("start", fields[0], 0, MAX_TIME_S)
    rate_per_s = _number("rate", fields[1], 0, MAX_RATE)
    if rate_per_s == 0:
        return start_s, 0.0, 0.0, 1.0
    if fields[3] not in FAMILIES:
        raise ValueError(f"family {shown(fields[3])}: must be one of {', '.join(FAMILIES)}")
    shape = _number("shape", fields[4], MIN_SHAPE, MAX_SHAPE)
    return start_s, rate_per_s, float(FAMILIES.index(fields[3])), shape


def _number(name: str, text: str, low: float, high: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not low <= value <= high:
        raise ValueError(f"{name} {shown(text)}: must be a number from {low:g} to {high:g}")
    return value
