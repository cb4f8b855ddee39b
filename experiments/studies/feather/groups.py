"""`feather_groups`: the number of groups."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from experiments.studies.feather.load import Load
from experiments.studies.feather.measures import (
    LEAST_TOKENS,
    MOST_TOKENS,
    OUTPUT,
    RECOMPUTED,
    WAIT,
)
from experiments.studies.feather.notes import sizes_of
from experiments.studies.feather.sweep import ARRIVALS, Sweep, Table
from experiments.studies.feather.variants import FCFS, FEATHER
from experiments.studies.findings import Row


class FeatherGroups(Sweep):
    """Groups from 1 to 100."""

    name = "feather_groups"
    question = "How does the gain of Feather grow with the number of groups?"
    axis = "Groups"
    values = (1, 2, 5, 10, 20, 50, 100)
    sizes: Mapping[str, str] = sizes_of(
        "1 to 100 groups, 4 policies, Poisson and all at once: 56 jobs",
        quick="one minute on two free cores",
        full="two minutes",
    )
    printed = (OUTPUT, WAIT, RECOMPUTED, LEAST_TOKENS, MOST_TOKENS)
    own_notes = (
        "up to 20 groups all prefixes fit in the KV cache (195,000 tokens), from 50 on they do not",
    )

    def load(self, value: float, base: Load) -> Load:
        """So many groups."""
        return replace(base, num_groups=int(value))

    def setting(self, value: float) -> str:
        """The number."""
        return "1 group" if value == 1 else f"{value:g} groups"

    def claims(self, table: Table) -> Sequence[Row]:
        """The gain over first come, first served."""
        rows = []
        for arrivals in ARRIVALS:
            for groups, claim, source, limit in (
                (1, (1.0, 1.0), "[independent]", 0.02),
                (5, (4.0, 4.0), "[note]", 0.25),
                (100, (10.0, 10.0), "[note]", 0.25),
            ):
                rows.append(
                    table.claim(
                        *(claim, source),
                        of=(FEATHER, FCFS),
                        at=(arrivals, groups),
                        setting=self.setting(groups),
                        limit_ratio=limit,
                    )
                )
        return rows
