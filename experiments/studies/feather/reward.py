"""`feather_reward`: what a batch earns its decisions, as coded and without prefill."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from experiments.studies.feather.load import Load
from experiments.studies.feather.measures import (
    BATCH,
    LEAST_TOKENS,
    MOST_TOKENS,
    OUTPUT,
    WAIT,
)
from experiments.studies.feather.notes import sizes_of
from experiments.studies.feather.sweep import POISSON, Sweep, Table
from experiments.studies.feather.variants import (
    AGEING,
    FCFS,
    FEATHER,
    NO_PREFILL,
    Q_LEARNING,
    Variant,
)
from experiments.studies.findings import Row

SHARING, COLD_SHARING, NOTHING = 0.0, 1.0, 2.0
_TICKS = {SHARING: "5 groups", COLD_SHARING: "5 groups, cold", NOTHING: "no sharing"}
_PROMPT_TOKENS = 500

Q_NO_PREFILL = Variant(
    "feather, Q, no prefill",
    "feather",
    (("learner", "q_learning"), ("reward", "exclude_prefill")),
)


class FeatherReward(Sweep):
    """Both rewards, both learners, and ageing, with and without sharing."""

    name = "feather_reward"
    question = "What does Feather's reward make of a load with sharing, and of one without?"
    axis = "Load"
    values = (SHARING, COLD_SHARING, NOTHING)
    ticks: ClassVar[Mapping[float, str] | None] = _TICKS
    variants = (FCFS, FEATHER, NO_PREFILL, Q_LEARNING, Q_NO_PREFILL, AGEING)
    sizes: Mapping[str, str] = sizes_of(
        "5 groups warm and cold, no sharing, 6 policies, Poisson and all at once: 36 jobs",
        quick="one minute on two free cores",
        full="two minutes",
    )
    printed = (OUTPUT, BATCH, WAIT, LEAST_TOKENS, MOST_TOKENS)
    own_notes = (
        "no sharing: prompts of 500 tokens; reward step_time charges an ADD with the prefill that "
        "it causes, and STOP with none; exclude_prefill (ours) rewards by the next step without",
        "[forms]: a toy of the learner, 2-6K tokens/s against 2.2K of fcfs with sharing, 168 "
        "against 2,916 without; of exclude_prefill 98-100 % without sharing, and no gain with it, "
        "read as at most 1.1",
    )

    def load(self, value: float, base: Load) -> Load:
        """Groups, or nothing shared."""
        if value == NOTHING:
            return replace(
                base, num_groups=0, prefix_tokens=_PROMPT_TOKENS - base.own_tokens, is_warm=False
            )
        return replace(base, is_warm=value == SHARING)

    def setting(self, value: float) -> str:
        """The load."""
        return _TICKS[value]

    def claims(self, table: Table) -> Sequence[Row]:
        """What a toy of exactly this learner gave, and the paper."""
        return [
            table.claim(
                *(claim, source),
                of=(variant, FCFS),
                at=(POISSON, value),
                setting=self.setting(value),
                limit_ratio=limit,
            )
            for variant, value, claim, source, limit in (
                (FEATHER, SHARING, (2000 / 2200, 6000 / 2200), "[forms]", 0.0),
                (FEATHER, NOTHING, (168 / 2916, 168 / 2916), "[forms]", 0.5),
                (FEATHER, NOTHING, (1.0, 1.0), "[paper]", 0.05),
                (NO_PREFILL, NOTHING, (0.98, 1.0), "[forms]", 0.02),
                (NO_PREFILL, SHARING, (0.0, 1.1), "[forms]", 0.0),
            )
        ]
