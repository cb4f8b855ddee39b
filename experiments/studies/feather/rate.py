"""`feather_load`: the offered rate."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf

from experiments.studies.feather.load import Load
from experiments.studies.feather.measures import LEAST_TOKENS, MOST_TOKENS, OUTPUT, TBT, WAIT
from experiments.studies.feather.notes import sizes_of
from experiments.studies.feather.sweep import POISSON, Sweep, Table
from experiments.studies.feather.variants import FCFS, FEATHER, HEURISTIC, MAIN
from experiments.studies.findings import Row

LOW, MID, HIGH = 10.0, 25.0, 100.0


class FeatherLoad(Sweep):
    """Rates below and above what the engine can serve."""

    name = "feather_load"
    question = "From which load on does Feather gain, and what does it cost below?"
    axis = "Rate (requests/s)"
    values = (LOW, MID, 50.0, HIGH, 200.0)
    variants = (*MAIN, HEURISTIC)
    arrivals = (POISSON,)
    sizes: Mapping[str, str] = sizes_of(
        "10 to 200 requests/s, 5 policies, Poisson: 25 jobs",
        quick="one minute on two free cores",
        full="two minutes",
    )
    printed = (OUTPUT, TBT, WAIT, LEAST_TOKENS, MOST_TOKENS)
    own_notes = (
        "below saturation every policy puts out what is offered; TBT and waits tell them apart",
        "feather_heuristic stands for the paper's variant without learning: about fcfs at low "
        "load, worse at mid and high load; which rates these are is not known",
    )

    def load(self, value: float, base: Load) -> Load:
        """That rate."""
        return replace(base, rate_per_s=value)

    def setting(self, value: float) -> str:
        """The rate."""
        return f"{value:g}/s"

    def claims(self, table: Table) -> Sequence[Row]:
        """The gain at the highest loads; without learning."""
        return [
            table.claim(
                *(claim, source),
                of=(variant, FCFS),
                at=(POISSON, value),
                setting=self.setting(value),
                limit_ratio=limit,
            )
            for value, variant, claim, source, limit in (
                (HIGH, FEATHER, (4.0, 4.0), "[note]", 0.25),
                (200.0, FEATHER, (2.0, inf), "[paper]", 0.0),
                (LOW, HEURISTIC, (1.0, 1.0), "[note]", 0.05),
                (MID, HEURISTIC, (0.0, 1.0), "[note]", 0.0),
                (HIGH, HEURISTIC, (0.0, 1.0), "[note]", 0.0),
            )
        ]
