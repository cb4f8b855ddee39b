"""When the requests of a benchmark arrive: as recorded, at another rate, or in a closed loop."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim.errors import ConfigError
from sim.workload import FloatArray
from traces.options import require_bool, require_int, shown
from traces.readers.reading import Reading
from traces.synthetic.arrivals import ArrivalProcess, Arrivals, arrival_process

MAX_CONCURRENCY = 1_000_000


@dataclass(frozen=True, slots=True)
class RecordedArrivals:
    """The options of a replay that say when requests arrive.

    Attributes:
        rate_per_s: mean rate of arrivals that take the place of the recorded ones.
        arrivals: their process (`traces.synthetic.arrivals`), by default Poisson.
        closed_loop: whether a fixed number of users take the requests in order instead.
        concurrency: how many; by default as many as the file says were in flight at most.

    Raises:
        ConfigError: one is out of range or excludes another.
    """

    rate_per_s: float | None
    arrivals: str | Mapping[str, Any] | None
    closed_loop: bool
    concurrency: int | None

    def __post_init__(self) -> None:
        require_bool("trace.closed_loop", self.closed_loop)
        if self.concurrency is not None:
            require_int("trace.concurrency", self.concurrency, 1, MAX_CONCURRENCY)
            if not self.closed_loop:
                raise ConfigError(
                    f"trace.concurrency={self.concurrency} has no effect without "
                    "trace.closed_loop=true"
                )
        for name in ("rate_per_s", "arrivals") if self.closed_loop else ():
            value = getattr(self, name)
            if value is not None:
                raise ConfigError(
                    f"trace.{name}={shown(value)}: must be null with trace.closed_loop=true"
                )
        if self.is_replaced:
            self._process()

    @property
    def is_replaced(self) -> bool:
        """Whether the recorded times are not used."""
        return self.rate_per_s is not None or self.arrivals is not None

    def as_mapping(self) -> dict[str, Any]:
        """For the provenance."""
        arrivals = dict(self.arrivals) if isinstance(self.arrivals, Mapping) else self.arrivals
        return {
            "rate_per_s": self.rate_per_s,
            "arrivals": arrivals,
            "closed_loop": self.closed_loop,
            "concurrency": self.concurrency,
        }

    def sample(
        self, reading: Reading, seed: int, start_s: FloatArray | None, size: int, users: int | None
    ) -> Arrivals:
        """Arrivals of `size` requests.

        Args:
            reading: names the file.
            seed: the run's seed.
            start_s: recorded times from the first one on, never decreasing; None without.
            size: number of requests.
            users: how many requests the file says were in flight at most; None if it does not.

        Raises:
            TraceFormatError: the file does not tell what the options need.
        """
        if self.is_replaced:
            return self._process().sample(seed, size)
        if self.closed_loop:
            concurrency = users if self.concurrency is None else self.concurrency
            if concurrency is None:
                why = "does not say how many requests were in flight, give trace.concurrency"
                raise reading.refuse(0, why)
            return Arrivals(np.zeros(size) if start_s is None else start_s, None, concurrency)
        if start_s is None:
            why = "has no start times, give trace.rate_per_s or trace.closed_loop=true"
            raise reading.refuse(0, why)
        return Arrivals(start_s)

    def _process(self) -> ArrivalProcess:
        spec = "poisson" if self.arrivals is None else self.arrivals
        return arrival_process("trace.arrivals", spec, self.rate_per_s)
