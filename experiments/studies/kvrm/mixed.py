"""`kvrm_mixed`: short and long requests in one batch, under every executor."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from experiments.studies.kvrm.comparison import ExecutorComparison, Load
from experiments.studies.kvrm.variants import MAIN
from experiments.studies.measured import Scale

LONG_SHARES = (0.0, 0.1, 0.3)
"""Share of requests whose prompt is long."""

SHORT = "kind: uniform, low: 50, high: 500"
LONG = "kind: uniform, low: 2000, high: 7000"
OUTPUT = "{kind: lognormal, mean: 200, cv: 0.7, low: 10, high: 800}"
"""Tokens (ours): slots of 8,192 hold all of them."""


SCALES = {
    "quick": Scale(num_requests=800, num_seeds=3),
    "full": Scale(num_requests=2000, num_seeds=10),
}

SMALL_MODEL = {"model": "qwen2_5_0_5b", "hardware": "h100_sxm"}
"""Small steps on a fast GPU: launches are not hidden."""


class KvrmMixed(ExecutorComparison):
    """Mixed lengths, all requests at once: what fits, how fast it goes, and how unevenly."""

    name = "kvrm_mixed"
    question = (
        "What do executors of fixed shape cost where short and long requests mix, and how much of "
        "it does paged staging win back (its paper is withdrawn: nothing is a target)?"
    )
    sizes: Mapping[str, str] = {
        "quick": "no, 10 and 30 % long prompts on an 8B model, 10 % on a 0.5B one, 800 requests at "
        "once, 9 or 5 executors, 3 seeds (a minute)",
        "full": "the same 32 jobs with 2,000 requests and 10 seeds (twenty minutes)",
    }

    def loads(self, size: str) -> Sequence[Load]:
        """A load per share of long prompts, and one for a small model."""
        num_requests = SCALES[size].num_requests
        loads = [_load(share, num_requests) for share in LONG_SHARES]
        small = _load(LONG_SHARES[1], num_requests)
        return [
            *loads,
            replace(
                small,
                title=f"{small.title}, 0.5B on H100",
                folder=f"{small.folder}-small",
                tick=f"{small.tick}\n0.5B",
                variants=MAIN,
                machine=SMALL_MODEL,
            ),
        ]

    def num_seeds(self, load: Load, size: str) -> int:
        """Replications of a job."""
        return SCALES[size].num_seeds

    def own_notes(self, size: str) -> Sequence[str]:
        """Lengths."""
        return (
            "prompts of 50 to 500 tokens, long ones of 2,000 to 7,000; 200 output tokens in the "
            "mean, 800 at most; nothing is shared",
            "all requests are there at once: output is the throughput, TTFT mostly queueing",
        )


def _load(share: float, num_requests: int) -> Load:
    prompt = f"{{{SHORT}}}"
    if share:
        parts = f"{{weight: {1 - share:g}, {SHORT}}}, {{weight: {share:g}, {LONG}}}"
        prompt = f"{{kind: mixture, parts: [{parts}]}}"
    return Load(
        title=f"{share:.0%} long",
        folder=f"{round(100 * share)}_long",
        tick=f"{share:.0%}\nlong",
        trace={
            "trace": "synthetic",
            "trace.num_requests": f"{num_requests}",
            "~trace.prompt": "",
            "+trace.prompt": prompt,
            "~trace.output": "",
            "+trace.output": OUTPUT,
            "trace.arrivals": "all_at_once",
        },
    )
