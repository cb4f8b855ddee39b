"""`feather_no_sharing`: prompts that share nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from experiments.studies.feather.load import Load
from experiments.studies.feather.measures import BATCH, OUTPUT, WAIT
from experiments.studies.feather.notes import sizes_of
from experiments.studies.feather.sweep import Sweep, Table
from experiments.studies.feather.variants import (
    AGEING,
    FCFS,
    FEATHER,
    HASH_TREE,
    HEURISTIC,
    MAIN,
    NO_PREFILL,
    Q_LEARNING,
)
from experiments.studies.findings import Row


class FeatherNoSharing(Sweep):
    """Prompts of a few lengths, nothing shared."""

    name = "feather_no_sharing"
    question = "Is Feather no worse than first come, first served where nothing is shared?"
    axis = "Prompt (tokens)"
    values = (500, 2000)
    variants = (*MAIN, HASH_TREE, HEURISTIC, NO_PREFILL, Q_LEARNING, AGEING)
    sizes: Mapping[str, str] = sizes_of(
        "prompts of 500 and 2,000 tokens, 9 policies, Poisson and all at once: 36 jobs",
        quick="one minute on two free cores",
        full="two minutes",
    )
    printed = (OUTPUT, BATCH, WAIT)
    own_notes = (
        "the paper's claim is of Feather; `feather, no prefill` is held to it as well, with a "
        "reward of ours that does not charge an ADD with its prefill",
        "to oracle all requests are one group; reward step_time charges an ADD with the prefill "
        "that it causes, and STOP with none",
    )

    def load(self, value: float, base: Load) -> Load:
        """Prompts of that length."""
        return replace(base, num_groups=0, prefix_tokens=int(value) - base.own_tokens)

    def setting(self, value: float) -> str:
        """The length."""
        return f"{value:,.0f} tokens"

    def claims(self, table: Table) -> Sequence[Row]:
        """No worse than first come, first served."""
        return [
            table.claim(
                *((1.0, 1.0), "[paper]"),
                of=(variant, FCFS),
                at=(arrivals, value),
                setting=self.setting(value),
                limit_ratio=0.05,
            )
            for arrivals in self.arrivals
            for value in self.values
            for variant in (FEATHER, NO_PREFILL)
        ]
