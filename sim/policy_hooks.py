"""Which optional hooks a batch policy overrides, so that the others are never called."""

from collections.abc import Callable

from mypy_extensions import mypyc_attr

from sim.interfaces import BatchPolicy, InstanceView
from sim.request import Request

RequestHook = Callable[[InstanceView, Request, float], None]
StepHook = Callable[[InstanceView, int, float], None]


@mypyc_attr(allow_interpreted_subclasses=True)
class PolicyHooks:
    """Bound hooks of a policy; None where the policy keeps the default that does nothing."""

    __slots__ = ("on_admit", "on_arrival", "on_finish", "on_step")

    def __init__(self, policy: BatchPolicy) -> None:
        kind = type(policy)
        self.on_arrival: RequestHook | None = (
            None if kind.on_arrival is BatchPolicy.on_arrival else policy.on_arrival
        )
        self.on_admit: RequestHook | None = (
            None if kind.on_admit is BatchPolicy.on_admit else policy.on_admit
        )
        self.on_finish: RequestHook | None = (
            None if kind.on_finish is BatchPolicy.on_finish else policy.on_finish
        )
        self.on_step: StepHook | None = (
            None if kind.on_step is BatchPolicy.on_step else policy.on_step
        )
