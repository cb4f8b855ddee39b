"""`feather_prefix`: the length of the shared prefixes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from experiments.studies.feather.load import Load
from experiments.studies.feather.notes import sizes_of
from experiments.studies.feather.sweep import ARRIVALS, Sweep, Table
from experiments.studies.feather.variants import FCFS, FEATHER
from experiments.studies.findings import Row


class FeatherPrefix(Sweep):
    """Prefixes from 1,000 to 10,000 tokens."""

    name = "feather_prefix"
    question = "How does the gain of Feather grow with the length of the shared prefixes?"
    axis = "Prefix (tokens)"
    values = (1000, 2000, 5000, 10_000)
    sizes: Mapping[str, str] = sizes_of(
        "prefixes of 1,000 to 10,000 tokens, 4 policies, Poisson and all at once: 32 jobs",
        quick="one minute on two free cores",
        full="two minutes",
    )

    def load(self, value: float, base: Load) -> Load:
        """Prefixes of that length."""
        return replace(base, prefix_tokens=int(value))

    def setting(self, value: float) -> str:
        """The length."""
        return f"{value:,.0f} tokens"

    def claims(self, table: Table) -> Sequence[Row]:
        """The gain over first come, first served at every length."""
        return [
            table.claim(
                *((2.0, 10.0), "[paper]"),
                of=(FEATHER, FCFS),
                at=(arrivals, value),
                setting=self.setting(value),
                limit_ratio=0,
            )
            for arrivals in ARRIVALS
            for value in self.values
        ]
