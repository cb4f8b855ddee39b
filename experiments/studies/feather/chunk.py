"""`feather_chunk`: tokens per chunk, and the hash tree against the radix tree."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from experiments.studies.feather.load import Load
from experiments.studies.feather.measures import CPU_SHARE, OUTPUT, WAIT
from experiments.studies.feather.notes import sizes_of
from experiments.studies.feather.sweep import ARRIVALS, Sweep, Table
from experiments.studies.feather.variants import FCFS, HASH_TREE, RADIX_COST, with_chunk
from experiments.studies.findings import Row

CHUNKS = (10, 50, 100, 500, 1000)
"""Tokens; 50 in the code, 512 to 1,024 in a summary of the paper."""

_TICKS = {0.0: "CPU free", 1.0: "CPU priced"}


class FeatherChunk(Sweep):
    """Chunk sizes, with the CPU time of the policy priced."""

    name = "feather_chunk"
    question = "Does Feather hang on its chunk size, and on hashing in place of a radix tree?"
    axis = "Standard workload"
    values = (0.0, 1.0)
    ticks: ClassVar[Mapping[float, str] | None] = _TICKS
    variants = (FCFS, *map(with_chunk, CHUNKS), HASH_TREE, RADIX_COST)
    sizes: Mapping[str, str] = sizes_of(
        "5 chunk sizes, 2 trees, fcfs, CPU time free and priced, Poisson and all at once: 32 jobs",
        quick="one minute on two free cores",
        full="two minutes",
    )
    decides = (*Sweep.decides, "scheduler")
    printed = (OUTPUT, CPU_SHARE, WAIT)
    own_notes = (
        "the learner's bins end at a loss of five chunks: with prefixes of 5,000 tokens any chunk "
        "of up to 1,000 puts a deviating candidate into the same bin",
        "priced: operations counted and priced as Python code (docs/scheduler_cpu.md)",
        "hash_tree and radix_cost do not learn; they stand for the trees: the paper's ablation "
        "puts a radix tree under its learner, which is not modelled; `large loss` is read as under "
        "0.75",
    )

    def load(self, value: float, base: Load) -> Load:
        """The standard workload."""
        return base

    def machine(self, value: float) -> Mapping[str, str]:
        """CPU time priced or not."""
        return {"scheduler.enabled": "true"} if value else {}

    def setting(self, value: float) -> str:
        """Whether CPU time counts."""
        return _TICKS[value]

    def claims(self, table: Table) -> Sequence[Row]:
        """Insensitive to the chunk size; a radix tree loses."""
        usual = with_chunk(50)
        rows: list[Row] = [
            table.claim(
                *((1.0, 1.0), "[note]"),
                of=(with_chunk(tokens), usual),
                at=(arrivals, 0.0),
                setting=self.setting(0.0),
                limit_ratio=0.05,
            )
            for arrivals in ARRIVALS
            for tokens in CHUNKS
            if tokens != 50
        ]
        rows += [
            table.claim(
                *((0.0, 0.75), "[note]"),
                of=(RADIX_COST, HASH_TREE),
                at=(arrivals, value),
                setting=self.setting(value),
                limit_ratio=0,
            )
            for arrivals in ARRIVALS
            for value in self.values
        ]
        return rows
