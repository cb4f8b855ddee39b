"""`feather_midpoint`: the midpoint of the L2 curve, which is in doubt."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from experiments.studies.ada_cascade.variations import MIB, Variation, write_profile
from experiments.studies.base import Bench
from experiments.studies.feather.load import Load
from experiments.studies.feather.measures import L2_HITS, OUTPUT
from experiments.studies.feather.notes import sizes_of
from experiments.studies.feather.sweep import Sweep, Table
from experiments.studies.feather.variants import FCFS, FEATHER, ORACLE
from experiments.studies.findings import Row
from hwmodels.device import load_profile

GPU = "rtx6000_ada"
LOW_MIB, HIGH_MIB = 80.0, 105.0


class FeatherMidpoint(Sweep):
    """L2 midpoints from 80 to 105 MiB at several numbers of groups."""

    name = "feather_midpoint"
    question = "Does the gain of Feather hang on the midpoint of the L2 curve, 80 to 105 MiB?"
    axis = "L2 midpoint (MiB)"
    values = (LOW_MIB, 92.5, HIGH_MIB)
    variants = (FCFS, FEATHER, ORACLE)
    bases: ClassVar[Mapping[str, Load]] = {
        f"{groups} groups": Load(num_groups=groups) for groups in (5, 20, 50)
    }
    arrivals = tuple(bases)
    sizes: Mapping[str, str] = sizes_of(
        "80, 92.5 and 105 MiB, 5, 20 and 50 groups, 3 policies, Poisson: 27 jobs",
        quick="one minute on two free cores",
        full="two minutes",
    )
    decides = (*Sweep.decides, "hardware")
    printed = (OUTPUT, L2_HITS)
    own_notes = (
        "the packaged profile has 105 MiB, from two points of an L40 (docs/l2_locality.md)",
        "[forms]: hits were expected to be hidden by the rate of the thread blocks up to about 15 "
        "groups; read as a change of the ratio by at most 5 %",
    )

    def __init__(self) -> None:
        self._paths: dict[float, str] = {}

    def prepare(self, bench: Bench) -> None:
        """Write copies of the GPU's profile."""
        device = load_profile(GPU)
        curve = device.kernels.l2
        assert curve is not None
        for value in self.values:
            varied = replace(
                device.kernels, l2=replace(curve, midpoint_bytes=float(round(value * MIB)))
            )
            name = f"midpoint_{value:g}_mib".replace(".", "_")
            one = Variation(label=f"{value:g} MiB", name=name, models=varied)
            path = write_profile(device, one, bench.directory / "profiles")
            self._paths[value] = f"'{path.resolve()}'"

    def load(self, value: float, base: Load) -> Load:
        """The load of the panel."""
        return base

    def machine(self, value: float) -> Mapping[str, str]:
        """The copy of the profile."""
        return {"hardware": "from_file", "hardware.path": self._paths[value]}

    def setting(self, value: float) -> str:
        """The midpoint."""
        return f"{value:g} MiB"

    def claims(self, table: Table) -> Sequence[Row]:
        """The same ratio at either end of the range."""
        from experiments.stats.intervals import mean_interval
        from experiments.studies.feather.rows import claim_row

        rows = []
        for groups in self.arrivals:
            ends = []
            for value in (HIGH_MIB, LOW_MIB):
                mine, fcfs = (table.at(groups, value, one) for one in (FEATHER, FCFS))
                pairs = zip(mine.samples(OUTPUT), fcfs.samples(OUTPUT), strict=True)
                ends.append([a / b for a, b in pairs])
            change = mean_interval([high / low for high, low in zip(*ends, strict=True)])
            rows.append(
                claim_row(
                    groups,
                    "feather/fcfs: 105/80 MiB",
                    (1.0, 1.0),
                    change,
                    "[forms]",
                    limit_ratio=0.05,
                )
            )
        return rows
