"""The better of two random instances."""

from sim.interfaces import ClusterView, Router
from sim.request import Request
from sim.rng import stream


class PowerOfTwo(Router):
    """Of two distinct random instances i, j: argmin (running + waiting); a tie goes to i.

    The first drawn, i, is uniform over all instances, so ties favour nobody. With one instance
    there is nothing to draw.

    Args:
        seed: the run's seed; draws come from its stream "routing.power_of_two", two per request.

    Source: Mitzenmacher, The Power of Two Choices in Randomized Load Balancing, IEEE TPDS 12(10),
    2001 (d = 2, sampled without replacement).
    """

    def __init__(self, seed: int = 0) -> None:
        self.tie_rng = stream(seed, "routing.power_of_two")

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        """Less loaded instance of the pair."""
        num_instances = cluster.num_instances
        if num_instances == 1:
            return 0
        rng = self.tie_rng
        first = int(rng.random() * num_instances)
        second = int(rng.random() * (num_instances - 1))
        if second >= first:
            second += 1
        loads = cluster.num_requests
        return first if loads[first] <= loads[second] else second
