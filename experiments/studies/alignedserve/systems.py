"""The systems that the studies of AlignedServe compare, each on two instances."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class System:
    """A cluster with its policies.

    Attributes:
        label: in tables and figures.
        overrides: what chooses it.
    """

    label: str
    overrides: tuple[str, ...]

    @property
    def has_pool(self) -> bool:
        """Whether prefilled requests wait on the host."""
        return "cluster=aligned_serve" in self.overrides

    @property
    def folder(self) -> str:
        """In directories."""
        return self.label.replace(", ", "-").replace(" ", "_")


_ROLES = ("cluster.num_prefill=1", "cluster.num_decode=1")


def aligned(label: str, *options: str) -> System:
    """AlignedServe with some options of its controller."""
    chosen = tuple(f"cluster.feeder.{option}" for option in options)
    return System(label, ("cluster=aligned_serve", *_ROLES, *chosen))


ALIGNED = aligned("aligned_serve")
NO_PREFETCH = aligned("no prefetch", "prefetch=false")
NO_LENGTHS = aligned("no lengths", "length_aware=false")
NEITHER = aligned("neither", "prefetch=false", "length_aware=false")
WIDEN = aligned("aligned, widen", "fills=widen")
FULL_BATCH = aligned("aligned, 80 %", "batch_ratio=0.8")
DRAINED = aligned("aligned, drained", "switch_below=1")
BOUNDED = aligned("aligned, 10 s", "max_wait_s=10")

DISTSERVE = System("distserve", ("cluster=distserve", *_ROLES))
VLLM = System("vllm_v1", ("cluster=colocated", "cluster.num_instances=2", "routing=jsq"))
FASTGEN = System(
    "fastgen", ("cluster=colocated", "cluster.num_instances=2", "routing=jsq", "engine=fastgen")
)

MAIN = (ALIGNED, DISTSERVE, VLLM, FASTGEN)
