"""The front end: what stands between the users and the engines, and delays both ways.

The way in is one server for the whole cluster (an API server: it parses and tokenises), first come
first served; behind the router every engine hashes the blocks of its prompts
(`sim.front_end_hashing`). The way out is one server for the whole cluster (it detokenises and
streams, `sim.front_end_output`). An engine waits for neither.

Not modelled: that both servers are one process and share its CPU, more than one API server, tokens
of a step that leave one by one, and the network.
"""

from dataclasses import dataclass, fields
from math import isfinite

import numpy as np

from sim.errors import ConfigError
from sim.workload import FloatArray, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontEnd:
    """Constants of a front end, all >= 0; with all of them 0 nothing changes.

    Attributes:
        delay_s: from the end of the work on the way in until the engine's side knows the request,
            seconds; it keeps nobody else waiting.
        request_s: work on the way in per request, seconds.
        token_s: work on the way in per prompt token, seconds.
        hash_block_s: work of the engine's input thread per full KV block of the prompt, seconds.
        output_token_s: work on the way out per output token, seconds.
    """

    delay_s: float = 0.0
    request_s: float = 0.0
    token_s: float = 0.0
    hash_block_s: float = 0.0
    output_token_s: float = 0.0

    def validate(self) -> None:
        """Check the values.

        Raises:
            ConfigError: names the value and what is allowed.
        """
        for item in fields(self):
            value = getattr(self, item.name)
            if not (isfinite(value) and value >= 0):
                raise ConfigError(f"frontend.{item.name}={value}: must be finite and >= 0")


class WayIn:
    """The API server: one request after the other, in order of arrival.

    Args:
        front_end: the constants.
    """

    __slots__ = ("_delay_s", "_free_s", "_request_s", "_token_s")

    def __init__(self, front_end: FrontEnd) -> None:
        self._delay_s = front_end.delay_s
        self._request_s = front_end.request_s
        self._token_s = front_end.token_s
        self._free_s = 0.0

    def enter(self, arrival_s: float, prompt_tokens: int) -> float:
        """Serve the next request; returns when it comes to the router, seconds."""
        free_s = self._free_s
        start_s = arrival_s if arrival_s > free_s else free_s
        self._free_s = done_s = start_s + (self._request_s + prompt_tokens * self._token_s)
        return done_s + self._delay_s


def entry_times(workload: Workload, front_end: FrontEnd) -> FloatArray:
    """When each request of an open loop comes to the router, seconds. Shape (n,)."""
    times = map(WayIn(front_end).enter, workload.arrival_s.data, workload.prompt_tokens.data)
    return np.fromiter(times, np.float64, workload.num_requests)
