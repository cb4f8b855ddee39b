"""Which clients of a ServeGen directory send requests in a period, and with which lengths."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from sim.errors import ConfigError
from sim.workload import FloatArray
from traces.readers.reading import Reading
from traces.readers.servegen_files import ArrivalWindows, ServeGenFiles
from traces.readers.servegen_lengths import Histogram, Lengths, pooled

LENGTH_NAMES = ("input_tokens", "output_tokens")


@dataclass(frozen=True, slots=True)
class Client:
    """A client in a period.

    Attributes:
        name: its name.
        windows: its arrivals; rates of requests that are left out are 0.
        lengths: its own lengths, if it has any.
        start_s: start of the period.
        end_s: end of the period.
        pool: histograms that stand in for its own, by window and name.
    """

    name: str
    windows: ArrivalWindows
    lengths: Lengths | None
    start_s: float
    end_s: float
    pool: dict[tuple[int, str], Histogram]

    @property
    def period_s(self) -> float:
        """Length of the period."""
        return self.end_s - self.start_s

    @property
    def overlap_s(self) -> FloatArray:
        """How much of each window lies in the period. Shape (w,)."""
        start_s = self.windows.start_s
        last = np.minimum(start_s + self.windows.length_s, self.end_s)
        overlap: FloatArray = np.maximum(last - np.maximum(start_s, self.start_s), 0.0)
        return overlap

    @property
    def num_expected(self) -> float:
        """Mean number of requests in the period."""
        return float((self.windows.rate_per_s * self.overlap_s).sum())

    def active(self) -> Iterator[int]:
        """Windows with requests that lie in the period, in order."""
        yield from np.flatnonzero((self.overlap_s > 0) & (self.windows.rate_per_s > 0)).tolist()

    def own_histogram(self, window: int, name: str) -> Histogram | None:
        """The client's own lengths in a window of its arrivals.

        Raises:
            ValueError: they are bad; says what is wrong.
        """
        if self.lengths is None:
            return None
        where = self.lengths.window_of(float(self.windows.start_s[window]))
        return self.lengths.histogram(where, name)

    def histogram(self, window: int, name: str) -> Histogram:
        """The lengths to draw from in a window of its arrivals."""
        found = self.pool.get((window, name)) or self.own_histogram(window, name)
        assert found is not None, "a window without lengths was let through"
        return found

    def missing(self) -> list[int]:
        """Active windows in which the client has no lengths."""
        return [
            window
            for window in self.active()
            if any(self.own_histogram(window, name) is None for name in LENGTH_NAMES)
        ]


def read_clients(
    files: ServeGenFiles,
    reading: Reading,
    period: tuple[float, float | None],
    most: int | None,
    missing_lengths: str,
) -> list[Client]:
    """The clients that send requests in a period, in the order of their names.

    Args:
        files: the directory.
        reading: told of bad files, and of requests that are left out.
        period: start and length, or None for all the rest; seconds.
        most: how many at most, those with the highest rates.
        missing_lengths: as in `ServeGenTrace`.

    Raises:
        TraceFormatError: a file is bad, or a client has no lengths, in a strict pass.
        ConfigError: the period is not in the files, or there are not so many clients.
    """
    clients = []
    for name in files.clients:
        windows = files.windows(name)
        if windows is not None:
            start_s, end_s = _bounds(period, windows)
            client = Client(name, windows, files.lengths(name), start_s, end_s, {})
            is_good = name not in files.bad_lengths and _is_readable(files, client)
            clients += [client] if is_good else []
    if missing_lengths == "skip":
        clients = [_without_missing(client, reading) for client in clients]
    if most is not None:
        if most > len(files.clients):
            raise ConfigError(f"trace.clients={most}: there are only {len(files.clients)}")
        clients = sorted(clients, key=lambda client: -client.num_expected)[:most]
    active = [client for client in clients if client.num_expected > 0]
    if clients and not active:
        start_s, end_s = clients[0].start_s, clients[0].end_s
        raise ConfigError(
            f"trace.start_s={start_s:g}, trace.duration_s={end_s - start_s:g}: "
            "no client sends requests then"
        )
    clients = sorted(active, key=lambda client: client.name)
    lacking = [client for client in clients if client.missing()]
    if lacking and missing_lengths == "refuse":
        for client in lacking:
            why = (
                f"{client.name} has no lengths in {len(client.missing())} of its windows "
                f"({_clients(len(lacking))}; trace.missing_lengths=pool draws these lengths from "
                "all other clients, which the public language data need; skip leaves the requests "
                "out)"
            )
            reading.fault(0, "lengths", why)
        return [client for client in clients if not client.missing()]
    return [_with_pool(client, clients) if client.missing() else client for client in clients]


def _clients(number: int) -> str:
    return "1 such client" if number == 1 else f"{number:,} such clients"


def _bounds(period: tuple[float, float | None], windows: ArrivalWindows) -> tuple[float, float]:
    start_s, duration_s = period
    first_s, last_s = float(windows.start_s[0]), windows.end_s
    end_s = last_s if duration_s is None else start_s + duration_s
    if not first_s <= start_s < last_s or end_s > last_s:
        raise ConfigError(
            f"trace.start_s={start_s:g}, trace.duration_s={duration_s}: the files span "
            f"{first_s:g} to {last_s:g} s"
        )
    return start_s, end_s


def _is_readable(files: ServeGenFiles, client: Client) -> bool:
    """Whether all lengths that the period needs are fine; reports them if not."""
    try:
        client.missing()
    except ValueError as error:
        files.fault(client.name, str(error))
        return False
    return True


def _without_missing(client: Client, reading: Reading) -> Client:
    missing = client.missing()
    if not missing:
        return client
    left_out = float((client.windows.rate_per_s * client.overlap_s)[missing].sum())
    reading.skip("no lengths", round(left_out))
    rate_per_s = client.windows.rate_per_s.copy()
    rate_per_s[missing] = 0.0
    return replace(client, windows=replace(client.windows, rate_per_s=rate_per_s))


def _with_pool(client: Client, clients: list[Client]) -> Client:
    """`client` with the lengths of all clients that have some, weighted with their requests."""
    pool: dict[tuple[int, str], Histogram] = {}
    for window in client.missing():
        for name in LENGTH_NAMES:
            found = [
                (float(other.windows.rate_per_s[window]), histogram)
                for other in clients
                if other.windows.rate_per_s[window] > 0
                and (histogram := other.own_histogram(window, name)) is not None
            ]
            if not found:
                start_s = client.windows.start_s[window]
                raise ConfigError(
                    f"trace.missing_lengths=pool: no client has lengths at {start_s:g} s"
                )
            pool[window, name] = pooled(found)
    return replace(client, pool=pool)
