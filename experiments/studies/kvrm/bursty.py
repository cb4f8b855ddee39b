"""`kvrm_bursty`: a bursty replay under every executor."""

from collections.abc import Mapping, Sequence

from experiments.studies.kvrm.comparison import ExecutorComparison, Load
from experiments.studies.lmetric.sources import Source

CODE_CV = 13
"""Coefficient of variation of the gaps between arrivals of Azure's code trace (measured: 13.2)."""

RATE_PER_S = 2.567
"""Mean rate of that trace, requests per second."""

_LIMITS = {"quick": "4000", "full": "8819"}

CODE = Source(
    label="Azure code",
    file="traces/azure_llm_2023/AzureLLMInferenceTrace_code.csv",
    recorded={size: {"trace": "azure", "trace.limit": limit} for size, limit in _LIMITS.items()},
    generated={
        size: {
            "trace": "synthetic",
            "trace.num_requests": limit,
            "trace.rate_per_s": f"{RATE_PER_S:g}",
            "~trace.arrivals": "",
            "+trace.arrivals": f"{{kind: gamma, cv: {CODE_CV}}}",
            "~trace.prompt": "",
            "+trace.prompt": "{kind: lognormal, mean: 2048, cv: 0.96, low: 3, high: 7437}",
            "~trace.output": "",
            "+trace.output": "{kind: lognormal, mean: 28, cv: 2.1, low: 1, high: 1899}",
        }
        for size, limit in _LIMITS.items()
    },
)
"""The stand-in has its rate, burstiness, means and extremes."""


class KvrmBursty(ExecutorComparison):
    """Bursts of long prompts with short answers: slowest steps, and what is reserved meanwhile."""

    name = "kvrm_bursty"
    question = (
        "How long are the slowest steps, and how much KV memory stands reserved, when requests "
        "come in bursts (the paper of kv_rm is withdrawn: nothing is a target)?"
    )
    sizes: Mapping[str, str] = {
        "quick": "the first 4,000 requests of Azure's code trace, 9 executors (half a minute)",
        "full": "all 8,819 requests of it, the same 9 jobs (a minute)",
    }

    def loads(self, size: str) -> Sequence[Load]:
        """The trace as recorded."""
        trace = CODE.overrides(size)
        return [
            Load(title=CODE.title, folder="code", tick=CODE.title, trace=trace, is_over_time=True)
        ]

    def num_seeds(self, load: Load, size: str) -> int:
        """A recording has one; a stand-in is drawn three times."""
        return 3 if CODE.is_stand_in else 1

    def own_notes(self, size: str) -> Sequence[str]:
        """The trace."""
        what = (
            f"arrivals as recorded, with gaps of coefficient of variation {CODE_CV}; prompts of "
            "2,048 tokens and answers of 28 in the mean"
        )
        one_run = () if CODE.is_stand_in else ("a recording is run once: there is no interval",)
        return (what, *one_run, *filter(None, [CODE.note]))
