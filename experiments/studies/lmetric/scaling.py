"""`lmetric_scaling`: from 4 to 256 instances."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from experiments.studies.findings import Findings
from experiments.studies.lmetric.comparison import Comparison, Plan
from experiments.studies.lmetric.measures import HITS, IMBALANCE, TPOT, TTFT
from experiments.studies.lmetric.setting import Scale, Setting
from experiments.studies.lmetric.sources import CONVERSATION
from experiments.studies.lmetric.variants import JSQ, LINEAR, LPWL

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NUM_INSTANCES = (4, 16, 64, 256)

_PER_INSTANCE = {"quick": 150, "full": 600}
_LEAST = NUM_INSTANCES[0]


class LmetricScaling(Comparison):
    """As many copies of a trace as there are groups of four instances."""

    name = "lmetric_scaling"
    question = "Does LMETRIC keep its lead, and its hits, from 4 to 256 instances?"
    sizes: Mapping[str, str] = {
        "quick": "conversation at load 0.5, 150 requests per instance (38,400 at 256), 4 routers, "
        "one run each: 20 jobs (one minute on two free cores)",
        "full": "600 requests per instance, 3 runs: 28 jobs",
    }
    scales: ClassVar[Mapping[str, Scale]] = {
        "quick": Scale(size="quick", num_seeds=1, num_warm=0),
        "full": Scale(size="full", num_seeds=3, num_warm=0),
    }
    printed = (TTFT, TPOT)
    plain = (TTFT, HITS, IMBALANCE)
    own_notes = (
        "a cluster of N instances gets N / 4 copies of the first requests of the trace, which "
        "share the block common to all of its prompts and nothing else; the first tenth warms the "
        "caches; the capacity is taken to be, per instance, that of 16 with the whole trace",
        "more copies mean more prefixes and as many more caches: what changes with N is that each "
        "prefix is on fewer of the instances",
    )

    def plan(self, size: str) -> Plan:
        """Numbers of instances."""
        per_instance = _PER_INSTANCE[size]
        return {
            Setting(
                source=CONVERSATION,
                load=0.5,
                num_instances=number,
                trace={
                    "trace.limit": f"{per_instance * _LEAST}",
                    "trace.copies": f"{number // _LEAST}",
                },
                place=f"{number} instances",
                at=float(number),
                is_linear=True,
                num_warm=per_instance * number // 10,
            ): (JSQ, LINEAR, LPWL)
            for number in NUM_INSTANCES
        }

    def pictures(self, findings: Findings) -> "Mapping[str, Figure]":
        """Time to first token over the number of instances."""
        from experiments.studies.lmetric.figure import sweep_figure

        return {self.name: sweep_figure(findings, TTFT, "Instances")}
