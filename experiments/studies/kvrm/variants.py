"""The executors that are compared, by the names that tables and figures give them."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """An executor with options.

    Attributes:
        label: in tables and figures.
        overrides: what chooses it, as keys of a job.
    """

    label: str
    overrides: Mapping[str, str] = field(hash=False)

    @property
    def folder(self) -> str:
        """For directories."""
        return self.label.replace(", ", "-").replace(" ", "_")


def _plain(name: str) -> Variant:
    return Variant(label=name, overrides={"executor": name})


def _staged(label: str, **options: str) -> Variant:
    given = {f"executor.{key}": value for key, value in options.items()}
    return Variant(label=f"kv_rm, {label}", overrides={"executor": "kv_rm", **given})


AS_MEASURED, EAGER, CUDA_GRAPH, STATIC_GRAPH, KV_RM = map(
    _plain, ("as_measured", "eager", "cuda_graph", "static_graph", "kv_rm")
)
ONE_BUFFER = _staged("one buffer", has_double_buffer="false")
LAYERWISE = _staged("full gather", gather="full", staged_layers="one")
OLDEST = _staged("oldest block", allocator="oldest_first")
MERGED = _staged("gaps of 4", merge_max_gap_blocks="4")

MAIN = (AS_MEASURED, EAGER, CUDA_GRAPH, STATIC_GRAPH, KV_RM)
STAGED = (ONE_BUFFER, LAYERWISE, OLDEST, MERGED)
"""kv_rm with one option changed: with them two readings of the paper differ in sign."""
