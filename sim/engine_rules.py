"""The seam between an instance and the engine whose rules it follows."""

from abc import abstractmethod
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from sim.decode_batch import DecodeBatch
    from sim.instance import Instance
    from sim.kv_cache import KvCache


class EngineRules(Protocol):
    """What one step of a serving engine contains. Stateless: shared by all instances.

    Attributes:
        lag: steps planned ahead of the one that executes (0 synchronous, 1 asynchronous).
        max_num_seqs: seats, requests that may run at once.
        max_num_batched_tokens: tokens of one step at most.
    """

    lag: int
    max_num_seqs: int
    max_num_batched_tokens: int

    @abstractmethod
    def plan_step(self, instance: "Instance", now_s: float) -> int:
        """Fill `instance.plan` for the next step and take its KV blocks.

        May call `instance.admit` and `instance.preempt`, and must set `plan.decode_blocks` to the
        blocks taken for decoding requests.

        Returns:
            The number of steps for which planning anew would give this very plan, 0 if nothing can
            be scheduled. With prefill chunks 1; more only where `instance.runs_chunks`, for one
            chunk that is not the last of its prompt, and as many tokens of it in every step.
        """

    @abstractmethod
    def has_room(self, instance: "Instance") -> bool:
        """Whether an arrival could be admitted by the next plan, KV blocks aside."""


@runtime_checkable
class BringsParts(Protocol):
    """Engine rules whose instances have a KV cache and a decode batch of their own kind."""

    @abstractmethod
    def bring_parts(self, kv: "KvCache", batch: "DecodeBatch") -> tuple["KvCache", "DecodeBatch"]:
        """What a new instance gets in the place of `kv` and `batch`, which are unused.

        Raises:
            ConfigError: the engine does not know an option of the KV cache.
        """
