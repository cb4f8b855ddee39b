"""A uniformly random instance."""

from typing import ClassVar

from sim.interfaces import ClusterView, Router
from sim.request import Request
from sim.rng import stream


class Random(Router):
    """floor(U * num_instances) with U uniform in [0, 1), one draw per request.

    Splits a Poisson stream into independent Poisson streams: the load balancer that queueing theory
    can solve, and the floor of every comparison.

    Args:
        seed: the run's seed; draws come from its stream "routing.random".

    Source: Mitzenmacher, The Power of Two Choices in Randomized Load Balancing, IEEE TPDS 12(10),
    2001 (the case of one choice).
    """

    looks_at_cluster: ClassVar[bool] = False

    def __init__(self, seed: int = 0) -> None:
        self.tie_rng = stream(seed, "routing.random")

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        """Random instance."""
        return int(self.tie_rng.random() * cluster.num_instances)
