"""The one way from a kind of trace to the workload that `simulate()` takes."""

from collections.abc import Sequence

from sim.workload import Workload
from traces.options import require_int
from traces.prefix_compress import compress
from traces.schema import TraceSource
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
        ConfigError: an option is out of range, or nothing is left.
    """
    seed = require_int("seed", seed, 0)
    table = transform(source.load(seed), window_s=window_s, limit=limit, rate_scale=rate_scale)
    workload = compress(table)
    workload.validate()
    return workload
