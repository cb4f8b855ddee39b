"""Jobs of `feather_scheduler_cpu`: a policy in a language, a model, a prefix, so many users."""

from collections.abc import Mapping
from dataclasses import dataclass

from experiments.studies.feather.cell import Cell
from experiments.studies.feather.load import Load
from experiments.studies.feather.variants import Variant

SEATS = 100
USERS, CROWD = 2 * SEATS, 1000 + SEATS
"""Users who send a request as soon as their last one has ended: 100 wait, or 1,000."""

_NUM_REQUESTS = {USERS: 1000, CROWD: 2000}

PYTHON, COMPILED, FREE = "Python", "compiled", "free"

_FACTORS = {PYTHON: "1", COMPILED: "20"}
"""Source: docs/scheduler_cpu.md; that of compiled code is an assumption."""

MACHINE: Mapping[str, str] = {
    "hardware": "rtx6000_ada",
    "kernel": "auto",
    "cluster.num_instances": "1",
    "cluster.tensor_parallel": "1",
    "engine": "sglang",
    "engine.max_num_seqs": str(SEATS),
}
"""LPM and DFS-weight are SGLang's: all policies run in its engine, with the kernel it takes."""


@dataclass(frozen=True, slots=True)
class Served:
    """A model.

    Attributes:
        label: in tables and figures.
        model: option of the group `model`.
        longest_tokens: longest prefix that its context has room for.
    """

    label: str
    model: str
    longest_tokens: int = 20_000


SERVED = (
    Served("0.5B", "qwen2_5_0_5b"),
    Served("1.5B", "qwen2_5_1_5b"),
    Served("8B", "llama3_1_8b"),
    Served("13B", "longchat_13b", 15_000),
)


SMALL, LARGE = SERVED[0], SERVED[2]
"""Models of which something is claimed."""


@dataclass(frozen=True, slots=True)
class CpuCell:
    """A job.

    Attributes:
        served: the model.
        prefix_tokens: tokens of every prefix.
        variant: the policy.
        language: PYTHON, COMPILED or FREE.
        users: USERS or CROWD.
    """

    served: Served
    prefix_tokens: int
    variant: Variant
    language: str = PYTHON
    users: int = USERS

    @property
    def cell(self) -> Cell:
        """As a job of the studies of Feather; no prefix is warm."""
        scheduler = {"scheduler.enabled": "false"}
        if self.language != FREE:
            factor = _FACTORS[self.language]
            scheduler = {"scheduler.enabled": "true", "scheduler.language_factor": factor}
        return Cell(
            load=Load(prefix_tokens=self.prefix_tokens, rate_per_s=None, is_warm=False),
            variant=self.variant,
            base={"model": self.served.model, **MACHINE},
            machine={
                "trace.replay_concurrency": str(self.users),
                "trace.output": "1-99",
                **scheduler,
            },
            place=f"{self.served.model}-{self.language}-{self.users}",
            num_requests=_NUM_REQUESTS[self.users],
        )
