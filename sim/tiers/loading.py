"""One request's load from the tiers, and what is counted of all loads of an instance."""

from dataclasses import dataclass, field

from sim.request import Request
from sim.tiers.caches import Run

LOADING = 4
"""Phase of a request that was admitted and waits for its load, or for its first chunk after it."""


@dataclass(frozen=True, slots=True)
class Found:
    """What the tiers have of a request behind its hit on the GPU.

    Attributes:
        at_host: blocks in the memory of the host.
        at_remote: blocks in the remote store, behind those.
        num_host: number of the former.
        num_remote: number of the latter.
    """

    at_host: tuple[Run, ...]
    at_remote: tuple[Run, ...]
    num_host: int
    num_remote: int


def found_within(at_host: list[Run], at_remote: list[Run], num_blocks: int) -> Found:
    """The first `num_blocks` blocks of what was found."""
    host, left = _first(at_host, num_blocks)
    remote, rest = _first(at_remote, left)
    return Found(host, remote, num_blocks - left, left - rest)


def _first(runs: list[Run], num_blocks: int) -> tuple[tuple[Run, ...], int]:
    """The first blocks of some runs, and how many are still wanted."""
    kept: list[Run] = []
    for owner, first, end in runs:
        if num_blocks <= 0:
            break
        end = min(end, first + num_blocks)
        kept.append(Run(owner, first, end))
        num_blocks -= end - first
    return tuple(kept), num_blocks


@dataclass(slots=True)
class Load:
    """A load under way.

    Attributes:
        request: whose KV it is.
        found: what is loaded.
        num_blocks: blocks of the request that have or will have content: its hit on the GPU and
            what is loaded.
        start_s: when it was asked for, seconds.
        num_transfers: transfers that are not complete.
    """

    request: Request
    found: Found
    num_blocks: int
    start_s: float
    num_transfers: int = 0


@dataclass(slots=True)
class LoadLog:
    """What the loads of an instance came to.

    Attributes:
        host_hit_tokens: by request, tokens found in the host at its first admission.
        remote_hit_tokens: the same for the remote store.
        wait_s: by request, time that it has waited for loads, seconds.
        num_loads: loads that were begun.
        host_blocks: blocks loaded from the host.
        remote_blocks: blocks loaded from the store.
    """

    host_hit_tokens: dict[int, int] = field(default_factory=dict)
    remote_hit_tokens: dict[int, int] = field(default_factory=dict)
    wait_s: dict[int, float] = field(default_factory=dict)
    num_loads: int = 0
    host_blocks: int = 0
    remote_blocks: int = 0

    def note(self, request: Request, found: Found, block_tokens: int) -> None:
        """A load begins."""
        self.num_loads += 1
        self.host_blocks += found.num_host
        self.remote_blocks += found.num_remote
        row = request.request_id
        if row not in self.wait_s:
            self.wait_s[row] = 0.0
            if not request.num_preemptions:
                self.host_hit_tokens[row] = found.num_host * block_tokens
                self.remote_hit_tokens[row] = found.num_remote * block_tokens
