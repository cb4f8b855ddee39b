"""`lmetric_indicators`: other indicators in LMETRIC's product."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from experiments.studies.findings import Row
from experiments.studies.lmetric.comparison import Comparison, Plan, Table
from experiments.studies.lmetric.measures import TPOT, TTFT, TTFT_P50, TTFT_P95
from experiments.studies.lmetric.setting import MODELS, Scale, Setting
from experiments.studies.lmetric.sources import AGENT, CONVERSATION, SYNTHETIC
from experiments.studies.lmetric.variants import BOTH, LMETRIC, RATIO, TOKENS, WITHOUT_ONE

_VARIANTS = (RATIO, TOKENS, BOTH, WITHOUT_ONE)


class LmetricIndicators(Comparison):
    """The ablation of the two factors."""

    name = "lmetric_indicators"
    question = "What does each indicator of LMETRIC contribute to its latencies?"
    sizes: Mapping[str, str] = {
        "quick": "conversation and synthetic at loads 0.5 and 0.9, Qwen2.5-7B: 24 jobs (one "
        "minute on two free cores)",
        "full": "and agent, and Qwen3-30B-A3B: 96 jobs of whole traces",
    }
    scales: ClassVar[Mapping[str, Scale]] = {
        "quick": Scale(size="quick", num_seeds=3, num_warm=300),
        "full": Scale(size="full", num_seeds=5, num_warm=300),
    }
    printed = (TTFT_P50, TTFT_P95, TPOT)
    drawn = TTFT_P95
    own_notes = (
        "claims: of tokens to prefill against the miss ratio 1 - hit / prompt, and of requests "
        "against tokens as the second factor; on which traces and at which load is not known, so "
        "each is held against all of these",
    )

    def plan(self, size: str) -> Plan:
        """Two loads."""
        is_full = size == "full"
        sources = (CONVERSATION, SYNTHETIC, AGENT) if is_full else (CONVERSATION, SYNTHETIC)
        return {
            Setting(source=source, load=load, model=model): _VARIANTS
            for model in (MODELS if is_full else ("7B",))
            for source in sources
            for load in (0.5, 0.9)
        }

    def claims(self, table: Table, plan: Plan) -> Sequence[Row]:
        """Of the paper's two figures."""
        return [
            table.claim(setting, (LMETRIC, other), measure, claim, "[note]")
            for setting in plan
            for other, measure, claim in (
                (RATIO, TTFT_P50, (-14.4, -14.4)),
                (RATIO, TTFT_P95, (-42.8, -42.8)),
                (TOKENS, TTFT, (-100.0, 0.0)),
            )
        ]
