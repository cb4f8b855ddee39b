"""`feather_a100`: an A100, and a kernel that reads every shared prefix once by itself."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import ClassVar

from experiments.studies.feather.load import Load
from experiments.studies.feather.measures import OUTPUT
from experiments.studies.feather.notes import sizes_of
from experiments.studies.feather.rows import claim_row
from experiments.studies.feather.sweep import ARRIVALS, Sweep, Table
from experiments.studies.feather.variants import FCFS, FEATHER
from experiments.studies.findings import Row

KERNELS = ("flash", "flash_cascade", "packed")
_FLASH, _CASCADE, _PACKED = range(len(KERNELS))


class FeatherA100(Sweep):
    """Three kernels on an A100 80 GB."""

    name = "feather_a100"
    question = "Does Feather on an A100 gain more than a kernel that packs shared prefixes?"
    axis = "Kernel"
    values = tuple(map(float, range(len(KERNELS))))
    ticks: ClassVar[Mapping[float, str] | None] = {
        float(place): name for place, name in enumerate(KERNELS)
    }
    sizes: Mapping[str, str] = sizes_of(
        "3 kernels on an A100 80 GB, 4 policies, Poisson and all at once: 24 jobs",
        quick="one minute on two free cores",
        full="two minutes",
    )
    decides = (*Sweep.decides, "hardware")
    own_notes = (
        "packed is the kernel of the PAT comparison, known from ratios of times on an A100",
        "feather/fcfs packed: Feather with cascade attention, over fcfs with the packed kernel",
    )

    def load(self, value: float, base: Load) -> Load:
        """The standard workload."""
        return base

    def machine(self, value: float) -> Mapping[str, str]:
        """The GPU and the kernel."""
        return {"hardware": "a100_sxm_80gb", "kernel": KERNELS[int(value)]}

    def setting(self, value: float) -> str:
        """The kernel."""
        return KERNELS[int(value)]

    def claims(self, table: Table) -> Sequence[Row]:
        """Selection against packing, and both together."""
        rows: list[Row] = []
        for arrivals in ARRIVALS:
            packed = table.at(arrivals, _PACKED, FCFS)
            rows.append(
                claim_row(
                    arrivals,
                    "feather/fcfs packed",
                    (1.0, inf),
                    table.at(arrivals, _CASCADE, FEATHER).ratio(packed, OUTPUT),
                    "[paper]",
                    limit_ratio=0,
                )
            )
            rows += [
                table.claim(
                    *((2.0, 10.0), "[paper]"),
                    of=(FEATHER, FCFS),
                    at=(arrivals, value),
                    setting=self.setting(value),
                    limit_ratio=0,
                )
                for value in self.values
            ]
        return rows
