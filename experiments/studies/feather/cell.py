"""One job of a study of Feather: a load, a batch policy, a machine."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from experiments.studies.feather.load import Load
from experiments.studies.feather.variants import Variant
from experiments.studies.measured import Scale
from experiments.studies.runs import Case

MACHINE: Mapping[str, str] = {
    "model": "llama3_1_8b",
    "hardware": "rtx6000_ada",
    "kernel": "flash_cascade",
    "cluster.num_instances": "1",
    "cluster.tensor_parallel": "1",
    "engine": "vllm_v1",
    "engine.async_scheduling": "true",
    "engine.max_num_seqs": "500",
    "engine.max_num_batched_tokens": "32768",
}
"""Source: POLICIES 1.4; cascade attention was vLLM's default when Feather was measured."""

DECIDES = (
    *("trace", "batching", "kernel", "cluster", "replications", "experiment"),
    *("engine.max_num_seqs", "engine.max_num_batched_tokens", "engine.num_gpu_blocks"),
)
"""Keys that all these studies set themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A job, replicated.

    Attributes:
        load: what is offered.
        variant: the batch policy.
        machine: what differs from `base`, with further keys of a job.
        place: of the machine in directories; empty for `base` itself.
        num_requests: in place of those of the scale; None for these.
        base: the machine, as keys of a job.
    """

    load: Load
    variant: Variant
    machine: Mapping[str, str] = field(default_factory=dict)
    place: str = ""
    num_requests: int | None = None
    base: Mapping[str, str] = field(default_factory=lambda: MACHINE)

    def case(self, scale: Scale) -> Case:
        """The job."""
        values = {
            **self.base,
            **self.load.overrides(self.num_requests or scale.num_requests),
            **self.variant.overrides,
            "replications": str(scale.num_seeds),
            **self.machine,
        }
        policy = self.variant.label.replace(", ", "-").replace(" ", "_").replace("=", "")
        parts = filter(None, (self.load.name, self.place, policy))
        return Case("-".join(parts), tuple(f"{key}={value}" for key, value in values.items()))
