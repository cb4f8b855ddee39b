"""Feather without learning, as proposed for vLLM: a ceiling on the loss, a floor on the batch."""

from collections.abc import Iterator

from policies.batching.feather.scheduler import CHUNK_TOKENS
from policies.batching.feather.tree_policy import TreePolicy
from sim.errors import ConfigError
from sim.interfaces import InstanceView
from sim.request import Request

LOSS_CEILING, HIGH_LOSS_CEILING, MANY_SHARING, MAX_FLOOR = 5, 7, 10, 10
"""Chunks, chunks, requests, requests. Source: vllm-project/vllm pull request 42134."""


class FeatherHeuristic(TreePolicy):
    """Admit what costs little of the shared prefix; below a floor, whatever comes.

    With b requests in the batch, the tree's best candidate is admitted if b = 0, or if the prefix
    shared by the batch would lose at most `loss_ceiling` chunks (`high_loss_ceiling` when at least
    `many_sharing` waiting requests share what would be left), or if b is below the floor. The floor
    starts at 1, rises by 1 with every admission of the second kind, up to `max_floor`, and never
    falls. Else the batch closes for this step.

    Args:
        chunk_tokens: K, tokens per chunk.
        loss_ceiling: chunks that may be lost, >= 0.
        high_loss_ceiling: the same when many share what would be left, >= 0.
        many_sharing: so many waiting requests are many, >= 0.
        max_floor: highest floor, requests, >= 1.

    Raises:
        ConfigError: a value is out of range.

    Source: vllm-project/vllm pull request 42134 (open in May 2026). That the first request of an
    empty batch does not raise the floor is inferred.
    """

    def __init__(
        self,
        chunk_tokens: int = CHUNK_TOKENS,
        loss_ceiling: int = LOSS_CEILING,
        high_loss_ceiling: int = HIGH_LOSS_CEILING,
        many_sharing: int = MANY_SHARING,
        max_floor: int = MAX_FLOOR,
    ) -> None:
        super().__init__(chunk_tokens)
        at_least_0 = {
            "loss_ceiling": loss_ceiling,
            "high_loss_ceiling": high_loss_ceiling,
            "many_sharing": many_sharing,
        }
        for name, value in at_least_0.items():
            if value < 0:
                raise ConfigError(f"batching.{name}={value}: must be >= 0")
        if max_floor < 1:
            raise ConfigError(f"batching.max_floor={max_floor}: must be at least 1")
        self._loss_ceiling = loss_ceiling
        self._high_loss_ceiling = high_loss_ceiling
        self._many_sharing = many_sharing
        self._max_floor = max_floor
        self._floor = 1
        self._is_cheap = False

    def on_admit(self, instance: InstanceView, request: Request, now_s: float) -> None:
        """Into the working set; the floor rises with what was cheap."""
        super().on_admit(instance, request, now_s)
        if self._is_cheap:
            self._floor = min(self._floor + 1, self._max_floor)

    def candidates(self, instance: InstanceView, now_s: float) -> Iterator[Request]:
        """The tree's best, again and again."""
        running, tree = instance.running, self._tree
        while (best := tree.find_best()) is not None:
            has_many = best.num_sharing >= self._many_sharing
            ceiling = self._high_loss_ceiling if has_many else self._loss_ceiling
            self._is_cheap = bool(running) and best.before - best.after <= ceiling
            if running and not self._is_cheap and len(running) >= self._floor:
                return
            yield best.request
