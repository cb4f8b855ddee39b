"""One of several results in a file."""

from typing import Any, TypeVar

from traces.options import require_int
from traces.readers.reading import Reading

T = TypeVar("T")


def require_run(run: Any) -> None:
    """Check the option.

    Raises:
        ConfigError: not null and not an integer from 1.
    """
    if run is not None:
        require_int("trace.run", run, 1)


def chosen_run(reading: Reading, results: list[T], run: int | None) -> T:
    """The result number `run`, from 1; the only one if that is None.

    Raises:
        TraceFormatError: there is no such result, or there are several to choose from.
    """
    if run is None and len(results) > 1:
        why = f"holds {len(results)} results: choose one with trace.run=1 to {len(results)}"
        raise reading.refuse(0, why)
    number = run or 1
    if number > len(results):
        found = f"{len(results)} results" if results else "no result"
        raise reading.refuse(0, f"holds {found}, not number {number} (trace.run)")
    return results[number - 1]
