"""No admission control."""

from sim.interfaces import AdmissionPolicy
from sim.request import Request


class Always(AdmissionPolicy):
    """admit = true.

    Source: the default of serving engines and routers: queues are unbounded. What can never fit an
    instance is rejected by the cluster before any policy is asked.
    """

    def admit(self, request: Request, now_s: float) -> bool:
        """Accept."""
        return True
