"""Batch policies of the studies of Feather, by the names that tables and figures give them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Variant:
    """A batch policy with its options.

    Attributes:
        label: in tables and figures.
        batching: option of the group `batching`.
        options: its options, key and value.
    """

    label: str
    batching: str
    options: tuple[tuple[str, str], ...] = ()

    @property
    def overrides(self) -> dict[str, str]:
        """The section `batching` of a job."""
        options = {f"batching.{key}": value for key, value in self.options}
        return {"batching": self.batching, **options}


FCFS = Variant("fcfs", "fcfs")
LPM = Variant("lpm", "lpm")
DFS_WEIGHT = Variant("dfs_weight", "dfs_weight")
DYNAMIC = Variant("dynamic_batching", "dynamic_batching")
FEATHER = Variant("feather", "feather")
ORACLE = Variant("oracle", "oracle")
HASH_TREE = Variant("hash_tree", "hash_tree")
RADIX_COST = Variant("radix_cost", "radix_cost")
HEURISTIC = Variant("feather_heuristic", "feather_heuristic")
NO_PREFILL = Variant("feather, no prefill", "feather", (("reward", "exclude_prefill"),))
Q_LEARNING = Variant("feather, Q", "feather", (("learner", "q_learning"),))
AGEING = Variant("feather, 10 s", "feather", (("max_wait_s", "10"),))

MAIN = (FCFS, LPM, FEATHER, ORACLE)
"""In every sweep; LPM as SGLang orders a queue, here in the engine of the others."""


def with_chunk(tokens: int) -> Variant:
    """Feather with another chunk size, tokens."""
    return Variant(f"feather, K={tokens}", "feather", (("chunk_tokens", str(tokens)),))
