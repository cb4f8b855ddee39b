"""The one way from a kind of trace to the workload that `simulate()` takes."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sim.errors import ConfigError
from sim.workload import Workload
from traces.options import MAX_TIME_S, require_int
from traces.prefix_compress import compress
from traces.schema import TraceSource, TraceTable
from traces.transforms import transform


def build_workload(
    source: TraceSource, *, seed: int, replication: int = 0, **transforms: Any
) -> Workload:
    """Load, transform, compress and validate.

    Args:
        source: the kind of trace with its options.
        seed: the run's seed; used by generators and by transforms that draw.
        replication: from 1 on, what would be the same for every seed is resampled
            (`traces.transforms.resampling`).
        transforms: as `traces.transforms.Transforms`.

    Raises:
        TraceFormatError: the file breaks its format.
        ConfigError: an option is out of range, nothing is left, or the options together give rows
            that are no workload.
    """
    seed = require_int("seed", seed, 0)
    with one_line_errors():
        table = source.load(seed)
    resample = replication > 0 and not is_drawn(table.provenance)
    return transformed(table, seed=seed, source=source, resample=resample, **transforms)[1]


def is_drawn(provenance: Mapping[str, Any]) -> bool:
    """Whether the rows depend on the seed; those of a recording do not."""
    parts = provenance.get("parts")
    if parts:
        return any(map(is_drawn, parts.values() if isinstance(parts, Mapping) else parts))
    return "seed" in provenance


def transformed(
    table: TraceTable,
    *,
    seed: int,
    source: object = None,
    resample: bool = False,
    **transforms: Any,
) -> tuple[TraceTable, Workload]:
    """The table after its transforms, and the valid workload that it is.

    Args:
        table: what a source delivered.
        seed: of transforms that draw.
        source: named in messages by its options.
        resample: as `traces.transforms.transform`.
        transforms: as `traces.transforms.Transforms`.

    Raises:
        ConfigError: as `build_workload`.
    """
    if not table.num_requests:
        raise ConfigError(
            "trace: holds no request; give a longer time, a higher rate or another seed"
        )
    with one_line_errors():
        table = transform(table, seed=seed, resample=resample, **transforms)
        _refuse_late_arrivals(source, table)
        workload = compress(table)
        workload.validate()
    return table, workload


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn what impossible options make arithmetic raise into a ConfigError."""
    try:
        yield
    except (ValueError, ArithmeticError, MemoryError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ConfigError(f"trace: these options give no valid workload: {reason}") from error


_STRETCHING_OPTIONS = ("rate_per_s", "session_rate_per_s", "think_time_s", "service_s_per_token")


def _refuse_late_arrivals(source: object, table: TraceTable) -> None:
    last_s = float(table.arrival_s[-1])
    if not last_s > MAX_TIME_S:  # NaN is left to `Workload.validate`
        return
    names = ["rate_scale", *(name for name in _STRETCHING_OPTIONS if hasattr(source, name))]
    if len(names) == 1:
        names.append("window_s")
    keys = ", ".join(f"trace.{name}" for name in names)
    raise ConfigError(
        f"trace: the last request arrives after {last_s:.6g} s, allowed: at most {MAX_TIME_S:g} s "
        f"(31 years); check {keys}"
    )
