"""Floods that were simulated before: in memory, and on disk where there is a cache directory.

A cache that cannot be read or written costs time, never a run.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from experiments.capacity.flood import Flood
from experiments.results.atomic import OutputError, write_text
from experiments.results.json_text import json_text

_known: dict[str, Flood] = {}


def cache_directory() -> Path:
    """`flocksim` in XDG_CACHE_HOME, by default in ~/.cache."""
    home = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (home if home.is_absolute() else Path("~/.cache").expanduser()) / "flocksim"


def cached(key: str | None, simulate: Callable[[], Flood]) -> Flood:
    """The flood with this key, simulated if need be; of several processes one simulates.

    Args:
        key: equal keys mean equal floods; None keeps nothing.
        simulate: makes it.
    """
    if key is None:
        return simulate()
    if key not in _known:
        path = cache_directory() / f"flood-{key}.json"
        with _held(path.with_suffix(".lock")):
            found = _read(path)
            if found is None:
                found = simulate()
                with suppress(OutputError):
                    write_text(path, json_text(asdict(found)))
        _known[key] = found
    return _known[key]


def _read(path: Path) -> Flood | None:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        rates = (values["flood_rate_per_s"], values["trace_rate_per_s"])
        does_drain_dominate = values["does_drain_dominate"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    is_valid = all(rate is None or (isinstance(rate, float) and rate > 0) for rate in rates)
    is_valid &= isinstance(does_drain_dominate, bool)
    return Flood(*rates, does_drain_dominate) if is_valid else None


@contextmanager
def _held(lock: Path) -> Iterator[None]:
    """Wait until no other process simulates the same; without locks, go on at once."""
    handle = None
    with suppress(OSError, ImportError):
        import fcntl

        lock.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
        fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)
