"""The one way from a kind of trace to the workload that `simulate()` takes."""

from collections.abc import Sequence

from sim.errors import ConfigError
from sim.workload import Workload
from traces.options import MAX_TIME_S, require_int
from traces.prefix_compress import compress
from traces.schema import TraceSource, TraceTable
from traces.transforms import transform


def build_workload(
    source: TraceSource,
    *,
    seed: int,
    limit: int | None = None,
    window_s: float | Sequence[float] | None = None,
    rate_scale: float = 1.0,
) -> Workload:
    """Load, transform (window, limit, rate scale), compress and validate.

    Args:
        source: the kind of trace with its options.
        seed: the run's seed; used by generators only.
        limit: keep the first so many requests.
        window_s: keep arrivals in `[start, end)`, or in `[0, number)`; seconds.
        rate_scale: 2 is twice as fast.

    Raises:
        TraceFormatError: the file breaks its format.
        ConfigError: an option is out of range, nothing is left, or the options together give rows
            that are no workload.
    """
    seed = require_int("seed", seed, 0)
    try:
        table = transform(source.load(seed), window_s=window_s, limit=limit, rate_scale=rate_scale)
        _refuse_late_arrivals(source, table)
        workload = compress(table)
        workload.validate()
    except (ValueError, ArithmeticError, MemoryError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ConfigError(f"trace: these options give no valid workload: {reason}") from error
    return workload


_STRETCHING_OPTIONS = ("rate_per_s", "think_time_s", "service_s_per_token")


def _refuse_late_arrivals(source: TraceSource, table: TraceTable) -> None:
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
