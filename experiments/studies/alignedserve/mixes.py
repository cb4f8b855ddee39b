"""What the studies of AlignedServe offer: mixes of short and long requests."""

from dataclasses import dataclass

from experiments.studies.measured import Scale

SHORT_TOKENS = 1000
"""Prompts up to this length are short. Source: AlignedServe's synthetic mix (short below 1K)."""

MAX_CONTEXT_TOKENS = 65_536
"""In place of OPT's 2,048 positions, which the published lengths exceed."""


SCALES = {
    "quick": Scale(num_requests=1000, num_seeds=5),
    "full": Scale(num_requests=3000, num_seeds=10),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """Lengths of independent requests.

    Attributes:
        name: in directories.
        label: in tables.
        prompt: section `trace.prompt` of a job.
        output: section `trace.output`.
    """

    name: str
    label: str
    prompt: str
    output: str = "{kind: lognormal, mean: 200, cv: 1.0, low: 2, high: 2000}"

    def overrides(self, num_requests: int, rate_per_s: float | None) -> tuple[str, ...]:
        """The section `trace` of a job.

        Args:
            num_requests: how many.
            rate_per_s: Poisson arrivals; None: all are there at once.
        """
        arrivals: tuple[str, ...] = ("trace.arrivals=all_at_once",)
        if rate_per_s is not None:
            arrivals = ("trace.arrivals=poisson", f"trace.rate_per_s={rate_per_s:.4g}")
        return (
            "trace=synthetic",
            f"trace.num_requests={num_requests}",
            *arrivals,
            "~trace.prompt",
            f"+trace.prompt={self.prompt}",
            "~trace.output",
            f"+trace.output={self.output}",
        )


def synthetic(short_percent: int, longest_tokens: int = 8000) -> Mix:
    """Short prompts of 100 to 1,000 tokens, the others from 1,000 on; uniform.

    Source: AlignedServe, synthetic mix (short below 1K, long 1K to 8K or 10K, short share 70 to
    95 %); the shape within a class and the outputs are ours.
    """
    short = f"{{weight: {short_percent}, kind: uniform, low: 100, high: {SHORT_TOKENS}}}"
    low = SHORT_TOKENS + 1
    long = f"{{weight: {100 - short_percent}, kind: uniform, low: {low}, high: {longest_tokens}}}"
    return Mix(
        name=f"short{short_percent}",
        label=f"{short_percent} % short",
        prompt=f"{{kind: mixture, parts: [{short}, {long}]}}",
    )


def _like(name: str, label: str, prompt: tuple[int, float, int], output: tuple[int, float]) -> Mix:
    mean, cv, high = prompt
    return Mix(
        name=name,
        label=label,
        prompt=f"{{kind: lognormal, mean: {mean}, cv: {cv}, low: 4, high: {high}}}",
        output=f"{{kind: lognormal, mean: {output[0]}, cv: {output[1]}, low: 2, high: 2000}}",
    )


SHAREGPT = _like("sharegpt", "ShareGPT-like", (756, 1.5, 8000), (200, 1.0))
LONGBENCH = _like("longbench", "LongBench-like", (1738, 1.0, 16_000), (91, 1.0))
"""Means of prompt and output as DistServe (OSDI 2024, table 1) states them; shapes are ours."""

AZURE = _like("azure", "Azure-like", (1155, 0.96, 8000), (211, 0.78))
"""Source: means and variation of the Azure conversation trace of 2023 (docs/traces.md)."""
