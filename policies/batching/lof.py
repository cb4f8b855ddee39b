"""Longest output first."""

from collections.abc import Iterable

from sim.interfaces import BatchPolicy, InstanceView
from sim.operations import OperationCounts
from sim.request import Request


class LOF(BatchPolicy):
    """Order (-output limit, place in the queue).

    The limit that a user sets (`max_new_tokens`) is taken to be the output itself, as the engine
    rules of SGLang take it here; where users set a loose limit this order knows too much.

    Source: SGLang `schedule_policy.py`, policy `lof`; docs/policies/lof.md.
    """

    operations: OperationCounts

    def __init__(self) -> None:
        self.operations = OperationCounts()

    def candidates(self, instance: InstanceView, now_s: float) -> Iterable[Request]:
        """The queue, longest output first."""
        self.operations.candidates_scanned += len(instance.waiting)
        return sorted(instance.waiting.values(), key=_shortness)


def _shortness(request: Request) -> int:
    return -request.output_tokens
