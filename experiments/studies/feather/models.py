"""`feather_models`: models from 0.5 to 13 billion parameters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from experiments.studies.feather.load import Load
from experiments.studies.feather.measures import OUTPUT
from experiments.studies.feather.notes import sizes_of
from experiments.studies.feather.rows import claim_row
from experiments.studies.feather.sweep import ARRIVALS, Sweep, Table
from experiments.studies.feather.variants import FCFS, FEATHER
from experiments.studies.findings import Row


@dataclass(frozen=True, slots=True)
class Served:
    """A model and the groups that it serves.

    Attributes:
        label: in tables and figures.
        model: option of the group `model`.
        num_groups: groups of its load.
    """

    label: str
    model: str
    num_groups: int = 5


SERVED = (
    Served("0.5B, 1 group", "qwen2_5_0_5b", 1),
    Served("0.5B, 2 groups", "qwen2_5_0_5b", 2),
    Served("0.5B", "qwen2_5_0_5b"),
    Served("1.5B", "qwen2_5_1_5b"),
    Served("7B", "qwen2_5_7b"),
    Served("8B", "llama3_1_8b"),
    Served("13B", "longchat_13b"),
    Served("13B, 100 groups", "longchat_13b", 100),
)
_ONE, _TWO, _MANY = 0, 1, len(SERVED) - 1


class FeatherModels(Sweep):
    """Models of several sizes."""

    name = "feather_models"
    question = "How does the gain of Feather change with the model?"
    axis = "Model; number of groups (five unless said)"
    values = tuple(map(float, range(len(SERVED))))
    ticks: ClassVar[Mapping[float, str] | None] = {
        float(place): one.label.removesuffix("s").removesuffix(" group").replace(", ", "\n")
        for place, one in enumerate(SERVED)
    }
    sizes: Mapping[str, str] = sizes_of(
        "0.5B to 13B, 4 policies, Poisson and all at once: 64 jobs",
        quick="one minute on two free cores",
        full="two minutes",
    )
    decides = (*Sweep.decides, "model")
    own_notes = (
        "13B is LongChat, with one KV head per query head: its KV cache holds three prefixes of "
        "5,000 tokens and little else, so that fcfs computes prefixes again and again",
        "`drops sharply` (fcfs of the smallest model from one to two groups) is read as to 0.75 or "
        "less",
    )

    def load(self, value: float, base: Load) -> Load:
        """The standard workload, with the groups of the model."""
        return replace(base, num_groups=SERVED[int(value)].num_groups)

    def machine(self, value: float) -> Mapping[str, str]:
        """The model."""
        return {"model": SERVED[int(value)].model}

    def setting(self, value: float) -> str:
        """The model's size."""
        return SERVED[int(value)].label

    def claims(self, table: Table) -> Sequence[Row]:
        """The gain over first come, first served; what a second group does to that one."""
        rows: list[Row] = []
        for arrivals in ARRIVALS:
            one, two = (table.at(arrivals, value, FCFS) for value in (_ONE, _TWO))
            rows.append(
                claim_row(
                    f"0.5B, {arrivals}",
                    "fcfs: 2 groups/1 group",
                    (0.0, 0.75),
                    two.ratio(one, OUTPUT),
                    "[paper]",
                    limit_ratio=0,
                )
            )
            rows += [
                table.claim(
                    *(((22.0, 22.0), "[note]") if value == _MANY else ((2.0, 10.0), "[paper]")),
                    of=(FEATHER, FCFS),
                    at=(arrivals, value),
                    setting=self.setting(value),
                    limit_ratio=0.25 if value == _MANY else 0.0,
                )
                for value in self.values
                if value not in (_ONE, _TWO)
            ]
        return rows
