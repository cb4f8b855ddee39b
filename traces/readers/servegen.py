"""ServeGen workloads: a generator from the fitted clients of a production service.

Every client has, per window of 10 minutes, a rate and a distribution of gaps, and per window of 6
hours histograms of lengths (`traces.readers.servegen_files`). In each window a client sends the
recorded number of requests (rate times length, scaled to `rate_per_s`), spaced by gaps of the
fitted family and shape (`traces.readers.servegen_arrivals`); ServeGen also rescales the gaps that
it draws to the rate, so that a fitted scale that contradicts the rate has no effect there either.
Input and output lengths are independent draws (ServeGen draws both at one quantile, which makes
long prompts have long answers); a length of 0 counts as 1. The tenant is the client.

Source: alibaba/ServeGen, servegen/construct.py; Xiang et al., ServeGen (NSDI '26).
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sim.errors import ConfigError
from sim.workload import FloatArray, IntArray, Labels
from traces.options import (
    MAX_REQUESTS,
    MAX_TIME_S,
    require_int,
    require_number,
    require_path,
    require_rate,
    shown,
)
from traces.readers.reading import Reading
from traces.readers.servegen_arrivals import WindowStreams, arrival_shares, num_arrivals
from traces.readers.servegen_clients import Client, read_clients
from traces.readers.servegen_files import FAMILIES, ServeGenFiles
from traces.schema import TraceTable

MISSING = ("refuse", "skip", "pool")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeGenTrace:
    """Requests of the clients of a directory.

    Attributes:
        path: directory with `*-trace.csv` and `*-dataset.json`.
        start_s: when to start, in the time of the files; that instant is time 0.
        duration_s: for how long; null for all the rest.
        rate_per_s: mean rate of all clients together over that period, to which every rate is
            scaled by the same factor; null for the recorded rates.
        clients: only so many, those with the highest mean rate over the period; null for all.
        missing_lengths: what to do where a client sends requests but has no lengths: `refuse` the
            files, `skip` these requests, or `pool`: draw their lengths from those of all others.
    """

    path: str | Path
    start_s: float = 0.0
    duration_s: float | None = 600.0
    rate_per_s: float | None = None
    clients: int | None = None
    missing_lengths: str = "refuse"

    def __post_init__(self) -> None:
        require_path("trace.path", self.path)
        require_number("trace.start_s", self.start_s, high=MAX_TIME_S)
        if self.duration_s is not None:
            require_number("trace.duration_s", self.duration_s, above=0, high=MAX_TIME_S)
        if self.rate_per_s is not None:
            require_rate("trace.rate_per_s", self.rate_per_s)
        if self.clients is not None:
            require_int("trace.clients", self.clients, 1)
        if self.missing_lengths not in MISSING:
            raise ConfigError(
                f"trace.missing_lengths={shown(self.missing_lengths)}: "
                f"must be one of {', '.join(MISSING)}"
            )

    def load(self, seed: int) -> TraceTable:
        """Read the files and generate the requests."""
        return self.read(Reading(self.path), seed)

    def read(self, reading: Reading, seed: int = 0) -> TraceTable:
        """Read the files in one pass and generate the requests.

        Raises:
            TraceFormatError: a file is bad, or a client has no lengths.
            ConfigError: an option does not fit the files.
        """
        files = ServeGenFiles(reading)
        period = (self.start_s, self.duration_s)
        clients = read_clients(files, reading, period, self.clients, self.missing_lengths)
        factor = self._factor(clients)
        parts = [_requests(client, seed, factor) for client in clients]
        arrival_s, prompt_tokens, output_tokens = (
            np.concatenate([part[i] for part in parts] or [np.empty(0)]) for i in range(3)
        )
        sizes = [len(part[0]) for part in parts]
        codes = np.repeat(np.arange(len(clients)), sizes)
        order = np.argsort(arrival_s, kind="stable")
        return TraceTable(
            arrival_s=arrival_s[order],
            prompt_tokens=prompt_tokens[order].astype(np.int64),
            output_tokens=output_tokens[order].astype(np.int64),
            tenant=Labels(codes[order], tuple(client.name for client in clients)),
            provenance=self._provenance(files, reading, seed, len(order)),
        )

    def _factor(self, clients: list[Client]) -> float:
        """What to scale every rate by."""
        if not clients:
            return 1.0
        period_s = clients[0].period_s
        expected = sum(client.num_expected for client in clients)
        if self.rate_per_s is not None:
            factor = self.rate_per_s * period_s / expected
            expected = self.rate_per_s * period_s
        else:
            factor = 1.0
        if expected > MAX_REQUESTS:
            raise ConfigError(
                f"trace: these options give {expected:,.0f} requests, allowed: {MAX_REQUESTS:,}; "
                "give trace.duration_s, trace.rate_per_s or trace.clients"
            )
        return factor

    def _provenance(
        self, files: ServeGenFiles, reading: Reading, seed: int, num_rows: int
    ) -> dict[str, Any]:
        listing = "".join(f"{digest}  {name}\n" for name, digest in files.digests.items())
        options = {
            name: getattr(self, name)
            for name in ("start_s", "duration_s", "rate_per_s", "clients", "missing_lengths")
        }
        found = {
            "format": "servegen",
            "sha256": hashlib.sha256(listing.encode()).hexdigest(),
            "seed": seed,
            "num_rows": num_rows,
            "options": options,
        }
        return {**found, "skipped": dict(reading.skipped)} if reading.skipped else found


def _requests(client: Client, seed: int, factor: float) -> tuple[FloatArray, IntArray, IntArray]:
    """Arrival from the start of the period, input and output length of a client's requests."""
    streams = {
        what: WindowStreams(seed, f"trace.servegen.{client.name}.{what}")
        for what in ("arrivals", "input_tokens", "output_tokens")
    }
    arrivals, inputs, outputs = [np.empty(0)], [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    windows = client.windows
    for window in client.active():
        rng = streams["arrivals"].of(window)
        expected = float(windows.rate_per_s[window]) * windows.length_s * factor
        size = num_arrivals(rng, expected)
        family, shape = FAMILIES[windows.family[window]], float(windows.shape[window])
        share = arrival_shares(rng, family, shape, size)
        time_s = windows.start_s[window] + windows.length_s * share
        is_inside = (time_s >= client.start_s) & (time_s < client.end_s)
        arrivals.append(time_s[is_inside] - client.start_s)
        for name, drawn in (("input_tokens", inputs), ("output_tokens", outputs)):
            uniform = streams[name].of(window).random(size)
            drawn.append(client.histogram(window, name).sample(uniform)[is_inside])
    return np.concatenate(arrivals), np.concatenate(inputs), np.concatenate(outputs)
