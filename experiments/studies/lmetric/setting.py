"""One setting of a study of LMETRIC: a trace at a load on a cluster, and its jobs."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from experiments.studies.lmetric.sources import Source
from experiments.studies.lmetric.variants import Variant
from experiments.studies.runs import Case

NUM_INSTANCES = 16

MAX_MODEL_LEN = 60_000
"""Source: POLICIES 4.3, as the three sizes below."""

MAX_PROMPT_TOKENS = 57_000
"""Of longer prompts the beginning is kept, so that all fit with their answers (ours)."""

MACHINE: Mapping[str, str] = {
    "hardware": "h20",
    "cluster.tensor_parallel": "1",
    "engine": "vllm_v1",
    "engine.max_model_len": f"{MAX_MODEL_LEN}",
    "engine.max_num_seqs": "256",
    "engine.gpu_memory_utilization": "0.85",
}

MODELS: Mapping[str, str] = {"7B": "qwen2_5_7b", "30B-A3B": "qwen3_30b_a3b"}
"""Models by the names that tables give them. Source: POLICIES 4.3."""

DECIDES = (
    *("trace", "routing", "model", "cluster", "replications", "experiment"),
    *("engine.max_model_len", "engine.max_num_seqs", "engine.gpu_memory_utilization"),
)
"""Keys that all these studies set themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much a size of a study runs.

    Attributes:
        size: quick or full.
        num_seeds: replications of a job.
        num_warm: first requests, which warm the caches and count in no figure (ours).
    """

    size: str
    num_seeds: int
    num_warm: int


SCALES = {
    "quick": Scale(size="quick", num_seeds=2, num_warm=300),
    "full": Scale(size="full", num_seeds=5, num_warm=300),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A trace at a load.

    Attributes:
        source: the trace.
        load: share of the flood throughput of this cluster.
        model: one of MODELS.
        num_instances: replicas.
        trace: what differs from the section of the source.
        machine: what differs from MACHINE.
        place: of what differs, in tables and directories.
        at: abscissa in a figure.
        num_warm: requests of the warm-up, in place of those of the scale.
        is_linear: whether its capacity is taken to be, per instance, that of NUM_INSTANCES with the
            source's own trace.
    """

    source: Source
    load: float
    model: str = "7B"
    num_instances: int = NUM_INSTANCES
    trace: Mapping[str, str] = field(default_factory=dict, hash=False)
    machine: Mapping[str, str] = field(default_factory=dict, hash=False)
    place: str = ""
    at: float | None = None
    num_warm: int | None = None
    is_linear: bool = False

    @property
    def title(self) -> str:
        """In tables."""
        parts = [self.source.title, self.model, self.place, f"load {self.load:g}"]
        return ", ".join(filter(None, parts))

    @property
    def flooded(self) -> "Setting":
        """What has the same capacity (per instance, if linear), whatever its load."""
        return Setting(
            source=self.source,
            load=0.0,
            model=self.model,
            num_instances=NUM_INSTANCES if self.is_linear else self.num_instances,
            machine=self.machine,
            place="" if self.is_linear else self.place,
        )

    @property
    def capacity_factor(self) -> float:
        """Of its capacity over that of `flooded`."""
        return self.num_instances / self.flooded.num_instances

    def warm_of(self, scale: Scale) -> int:
        """Requests of the warm-up."""
        return scale.num_warm if self.num_warm is None else self.num_warm

    def common(self, size: str, trace: Mapping[str, str] | None = None) -> dict[str, str]:
        """Everything but the load and the router.

        Args:
            size: of the study.
            trace: in place of the source's section.
        """
        return {
            "model": MODELS[self.model],
            "cluster.num_instances": f"{self.num_instances}",
            **MACHINE,
            "trace.max_prompt_tokens": f"{MAX_PROMPT_TOKENS}",
            **(self.source.overrides(size) if trace is None else trace),
            **self.trace,
            **self.machine,
        }

    def flood_case(self, size: str) -> Case:
        """All requests of a long trace at once, under fewest requests."""
        values = {
            **self.common(size, self.source.flood(size)),
            "routing": "least_requests",
            "trace.flood": "true",
        }
        return _case(f"{self._folder}-flood", values)

    def plain_case(self, size: str) -> Case:
        """A job at the trace's own rate."""
        return _case(f"{self._folder}-plain", self.common(size))

    def case(self, variant: Variant, scale: Scale, rate: Mapping[str, str]) -> Case:
        """A job.

        Args:
            variant: the router.
            scale: how much it runs.
            rate: what makes its trace come at the load.
        """
        values = {
            **self.common(scale.size),
            **rate,
            **variant.overrides,
            "trace.warmup_requests": f"{self.warm_of(scale)}",
            "replications": f"{scale.num_seeds}",
        }
        load = f"{self.load:g}".replace(".", "_")
        return _case(f"{self._folder}-{load}-{variant.name}", values)

    @property
    def _folder(self) -> str:
        parts = [self.source.label, self.model, self.place]
        kept = "-".join(filter(None, parts)).replace(", ", "-")
        return "".join(one if one.isalnum() or one in "-_" else "_" for one in kept)


def _case(folder: str, values: Mapping[str, str]) -> Case:
    overrides = (key if key.startswith("~") else f"{key}={value}" for key, value in values.items())
    return Case(folder, tuple(overrides))
