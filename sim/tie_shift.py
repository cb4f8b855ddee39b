"""A placebo: the same router, whose ties fall to other instances.

Instances are alike, so numbering them otherwise from the start gives the same run under other
names. What differs from a run is a tie order that moves while it goes on: every N-th request, N the
number of instances, the scan for the first of several equally good instances begins `tie_shift`
places further on. In an idle cluster any N requests still go to N instances. A router that draws
among ties skips so many draws in its place. Nothing that the policy claims is touched, so what
changes in the figures is noise.
"""

from typing import Protocol, runtime_checkable

import numpy as np

from sim.errors import ConfigError
from sim.interfaces import ClusterView, Router
from sim.prefix_views import Route
from sim.request import Request


@runtime_checkable
class ScansForTies(Protocol):
    """A router that takes the first of equally good instances.

    Attributes:
        tie_start: where its next scan begins, an instance id (or their number, for 0).
    """

    tie_start: int


@runtime_checkable
class DrawsTies(Protocol):
    """A router that draws among equally good instances, or among all.

    Attributes:
        tie_rng: where its draws come from.
    """

    tie_rng: np.random.Generator


def refuse_shift(tie_shift: int, num_instances: int, router: Router) -> None:
    """Refuse a shift that would change nothing.

    Raises:
        ConfigError: it is out of range, or the router has no order of ties.
    """
    if not 0 <= tie_shift < num_instances:
        raise ConfigError(
            f"routing.tie_shift={tie_shift}: must be 0 to cluster.num_instances - 1 = "
            f"{num_instances - 1}"
        )
    if tie_shift and not isinstance(router, ScansForTies | DrawsTies):
        raise ConfigError(
            f"routing.tie_shift={tie_shift} has no effect: router {type(router).__name__} has "
            "neither tie_start nor tie_rng; leave it out"
        )


def shifting_ties(route: Route, router: Router, tie_shift: int, num_instances: int) -> Route:
    """The router's decisions with an order of ties that moves on.

    Args:
        route: asks the router.
        router: the router itself.
        tie_shift: places by which the scan moves on, or draws that are skipped.
        num_instances: requests between two moves.
    """
    num_routed = 0

    def route_and_shift(request: Request, view: ClusterView, now_s: float) -> int:
        nonlocal num_routed
        choice = route(request, view, now_s)
        num_routed += 1
        if num_routed % num_instances == 0:
            if isinstance(router, ScansForTies):
                router.tie_start = (router.tie_start + tie_shift) % num_instances
            elif isinstance(router, DrawsTies):
                router.tie_rng.random(tie_shift)
        return choice

    return route_and_shift
