"""`feather_output`: the length of the answers, with a warm and with a cold prefix cache."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf

from experiments.studies.feather.load import Load
from experiments.studies.feather.measures import OUTPUT
from experiments.studies.feather.notes import sizes_of
from experiments.studies.feather.rows import claim_row
from experiments.studies.feather.sweep import (
    ARRIVALS,
    AT_ONCE,
    COLD,
    COLD_AT_ONCE,
    POISSON,
    Sweep,
    Table,
)
from experiments.studies.feather.variants import FCFS, FEATHER, LPM, ORACLE
from experiments.studies.findings import Row


class FeatherOutput(Sweep):
    """Answers from 1 to 200 tokens."""

    name = "feather_output"
    question = "How does the gain of Feather change with the length of the answers?"
    axis = "Answer (tokens)"
    values = (1, 50, 200)
    sizes: Mapping[str, str] = sizes_of(
        "answers of 1 to 200 tokens, 4 policies, Poisson and all at once, warm and cold: 48 jobs",
        quick="one minute on two free cores",
        full="two minutes",
    )
    arrivals = (POISSON, AT_ONCE, COLD, COLD_AT_ONCE)
    own_notes = (
        "`next best` is the better one of fcfs and lpm, of the rivals that are not told the groups",
        "`large mixed batch wins`: claimed for a batch that is bound by prefill; here as fcfs over "
        "oracle, with one output token",
    )

    def load(self, value: float, base: Load) -> Load:
        """Answers of that length."""
        return replace(base, output_tokens=int(value))

    def setting(self, value: float) -> str:
        """The length."""
        return "1 token" if value == 1 else f"{value:g} tokens"

    def claims(self, table: Table) -> Sequence[Row]:
        """At long answers, and who wins at short and long ones."""
        rows: list[Row] = []
        for arrivals in ARRIVALS:
            long = (arrivals, 200)
            rows.append(
                claim_row(
                    *(f"200 tokens, {arrivals}", "feather", (3800, 3800)),
                    *(table.at(*long, FEATHER).interval(OUTPUT), "[note]"),
                    unit="tokens/s",
                )
            )
            rivals = (FCFS, LPM)
            best = max(rivals, key=lambda one: table.at(*long, one).interval(OUTPUT).mean)
            rows.append(
                table.claim(
                    *((3.0, inf), "[note]"),
                    of=(FEATHER, best),
                    at=long,
                    setting="200 tokens",
                    limit_ratio=0,
                )
            )
        rows += [
            table.claim(
                *(claim, source),
                of=pair,
                at=(arrivals, value),
                setting=self.setting(value),
                limit_ratio=limit,
            )
            for arrivals in (AT_ONCE, COLD_AT_ONCE)
            for value, claim, pair, source, limit in (
                (1, (1.0, inf), (FCFS, ORACLE), "[paper]", 0),
                (200, (2.0, 2.0), (ORACLE, FCFS), "[note]", 0.25),
            )
        ]
        return rows
