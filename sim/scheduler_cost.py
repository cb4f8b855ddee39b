"""CPU time of a batch policy: counted operations times seconds per operation.

Not modelled: what the engine itself does on the CPU for a step (that is in the cost model's host
time), and CPU caches: an operation costs the same wherever its data lies.
"""

from dataclasses import dataclass, fields
from math import isfinite

from sim.errors import ConfigError
from sim.operations import OperationCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerCost:
    """Seconds per operation in an interpreted language, all >= 0.

    Attributes:
        token_compared_s: per token id compared.
        node_visit_s: per tree node or chunk key visited.
        key_hashed_s: per chunk hash, its tokens aside.
        token_hashed_s: per token id that goes into a chunk hash.
        heap_operation_s: per push or pop.
        candidate_s: per waiting request looked at.
        request_s: per running request of a step, whatever the policy; as it is.
        language_factor: how much faster the policy's own language is, > 0; divides all but
            `request_s`.
    """

    token_compared_s: float = 0.0
    node_visit_s: float = 0.0
    key_hashed_s: float = 0.0
    token_hashed_s: float = 0.0
    heap_operation_s: float = 0.0
    candidate_s: float = 0.0
    request_s: float = 0.0
    language_factor: float = 1.0

    def validate(self) -> None:
        """Check the values.

        Raises:
            ConfigError: names the value and what is allowed.
        """
        for item in fields(self):
            value = getattr(self, item.name)
            if not (isfinite(value) and value >= 0):
                raise ConfigError(f"scheduler.{item.name}={value}: must be finite and >= 0")
        if not self.language_factor:
            raise ConfigError("scheduler.language_factor=0: must be above 0")

    def policy_s(self, done: tuple[int, ...], before: tuple[int, ...]) -> float:
        """Seconds from one reading of `OperationCounts.values` to a later one."""
        total_s = 0.0
        for now, then, each_s in zip(done, before, self._each_s, strict=True):
            if now != then:
                total_s += (now - then) * each_s
        return total_s / self.language_factor

    @property
    def _each_s(self) -> tuple[float, ...]:
        """Seconds per operation, in order of `OperationCounts.values`."""
        return (
            self.token_compared_s,
            self.node_visit_s,
            self.key_hashed_s,
            self.token_hashed_s,
            self.heap_operation_s,
            self.candidate_s,
        )


NOTHING_DONE = OperationCounts().values
"""A reading before anything has been counted."""
