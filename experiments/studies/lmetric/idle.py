"""`lmetric_idle`: a cluster with little to do, with and without the +1."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from experiments.studies.findings import Findings, Row
from experiments.studies.lmetric.comparison import Comparison, Plan, Table
from experiments.studies.lmetric.measures import HITS, IMBALANCE, TTFT, TTFT_P50
from experiments.studies.lmetric.setting import Scale, Setting
from experiments.studies.lmetric.sources import CONVERSATION, Source
from experiments.studies.lmetric.variants import JSQ, LMETRIC, WITHOUT_ONE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_GROUPS = {"trace": "prefix_groups", "trace.num_groups": "50", "trace.prefix_tokens": "4096"}

GROUPS = Source(
    label="50 prefixes",
    generated={
        "quick": {**_GROUPS, "trace.num_requests": "4000"},
        "full": {**_GROUPS, "trace.num_requests": "10000"},
    },
)
"""Requests behind 50 prefixes of 4,096 tokens, generated."""


class LmetricIdle(Comparison):
    """Loads far below capacity."""

    name = "lmetric_idle"
    question = "Does LMETRIC find cached prefixes on an idle cluster only because of its +1?"
    sizes: Mapping[str, str] = {
        "quick": "conversation and a generated load of 50 prefixes at loads 0.02, 0.1 and 0.3: 24 "
        "jobs (one minute on two free cores)",
        "full": "the same with whole traces, 8 runs: 36 jobs",
    }
    scales: ClassVar[Mapping[str, Scale]] = {
        "quick": Scale(size="quick", num_seeds=3, num_warm=300),
        "full": Scale(size="full", num_seeds=8, num_warm=300),
    }
    printed = (TTFT, TTFT_P50)
    plain = (HITS, IMBALANCE)
    own_notes = (
        "without the +1 every instance without requests scores 0, so that cached prefixes decide "
        "only among busy ones, or where all are busy",
        "claim: the comment beside the authors' code says that the +1 tells idle instances apart "
        "by what they must prefill; no number is given",
    )

    def plan(self, size: str) -> Plan:
        """From nearly nothing to a third of the capacity."""
        return {
            Setting(source=source, load=load, at=load): (WITHOUT_ONE, JSQ)
            for source in (CONVERSATION, GROUPS)
            for load in (0.02, 0.1, 0.3)
        }

    def claims(self, table: Table, plan: Plan) -> Sequence[Row]:
        """The +1 lowers times to first token."""
        return [
            table.claim(setting, (LMETRIC, WITHOUT_ONE), TTFT, (-100.0, 0.0), "[code]", 0.0)
            for setting in plan
        ]

    def pictures(self, findings: Findings) -> "Mapping[str, Figure]":
        """Hits over the load."""
        from experiments.studies.lmetric.figure import sweep_figure

        return {self.name: sweep_figure(findings, HITS, "Load / capacity")}
