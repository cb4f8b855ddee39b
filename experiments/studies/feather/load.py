"""What the studies of Feather offer to the engine: requests in groups behind shared prefixes."""

from dataclasses import dataclass

from experiments.studies.measured import Scale

WARM_S_PER_TOKEN = 3e-4
"""Time that one prefix token of the warm start is given (ours: twice what a 13B model takes)."""

WARM_MARGIN_S = 10.0


SCALES = {
    "quick": Scale(num_requests=3000, num_seeds=10),
    "full": Scale(num_requests=3000, num_seeds=20),
}
"""Fewer requests would be another load: with 1,000 in five groups no group fills the seats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A load; the defaults are the paper's standard workload.

    Source: POLICIES 1.4 (5 groups, 5,000 tokens, 100 requests/s; 20 own tokens, 50 output tokens).

    Attributes:
        num_groups: distinct prefixes; 0: prompts as long, nothing shared.
        prefix_tokens: tokens of a prefix.
        own_tokens: tokens of a prompt behind its prefix.
        output_tokens: tokens of an answer.
        rate_per_s: Poisson arrivals per second; None: all requests are there at once.
        is_warm: whether every prefix is in the cache when the load begins.
    """

    num_groups: int = 5
    prefix_tokens: int = 5000
    own_tokens: int = 20
    output_tokens: int = 50
    rate_per_s: float | None = 100.0
    is_warm: bool = True

    @property
    def name(self) -> str:
        """For directories, unique among the loads of a study."""
        rate = "at_once" if self.rate_per_s is None else f"{self.rate_per_s:g}_per_s"
        start = "warm" if self.num_warm else "cold"
        lengths = f"{self.prefix_tokens}-{self.own_tokens}-{self.output_tokens}"
        return f"{self.num_groups}x{lengths}-{rate}-{start}"

    @property
    def num_warm(self) -> int:
        """Requests of the warm start, which count in no figure."""
        return self.num_groups if self.is_warm else 0

    @property
    def start_s(self) -> float:
        """When the load begins, after the warm start."""
        if not self.num_warm:
            return 0.0
        return WARM_MARGIN_S + WARM_S_PER_TOKEN * self.num_warm * self.prefix_tokens

    @property
    def arrivals(self) -> str:
        """How requests arrive, for tables."""
        return "all at once" if self.rate_per_s is None else f"{self.rate_per_s:g}/s"

    def overrides(self, num_requests: int) -> dict[str, str]:
        """The section `trace` of a job."""
        common = {
            "trace.num_requests": str(num_requests),
            "trace.output": str(self.output_tokens),
            **(
                {"trace.arrivals": "all_at_once"}
                if self.rate_per_s is None
                else {"trace.arrivals": "poisson", "trace.rate_per_s": f"{self.rate_per_s:g}"}
            ),
        }
        if not self.num_groups:
            prompt = self.prefix_tokens + self.own_tokens
            return {"trace": "synthetic", **common, "trace.prompt": str(prompt)}
        return {
            "trace": "prefix_groups",
            **common,
            "trace.num_groups": str(self.num_groups),
            "trace.prefix_tokens": str(self.prefix_tokens),
            "trace.suffix": str(self.own_tokens),
            "trace.warm_start_s": f"{self.start_s:g}" if self.num_warm else "null",
            "trace.warmup_requests": str(self.num_warm),
        }
