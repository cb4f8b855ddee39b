"""Requests in groups that share a prompt prefix (few-shot templates, tools, documents)."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sim.rng import stream
from traces.options import MAX_REQUESTS, MAX_TOKENS, require_int, require_number, require_rate
from traces.schema import PromptRuns, TraceTable
from traces.synthetic.arrivals import poisson_arrivals
from traces.synthetic.lengths import length_distribution
from traces.synthetic.popularity import MAX_SKEW, sample_zipf
from traces.synthetic.provenance import provenance_of_generator

MAX_GROUPS = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixGroupsTrace:
    """Every prompt is its group's prefix followed by a private suffix.

    Attributes:
        num_requests: number of requests.
        rate_per_s: mean arrivals per second.
        num_groups: number of distinct prefixes.
        prefix_tokens: tokens of every prefix.
        suffix: distribution of suffix lengths (`traces.synthetic.lengths`).
        output: distribution of output lengths.
        skew: Zipf exponent of the groups' popularity; 0 is uniform.
    """

    num_requests: int
    rate_per_s: float
    num_groups: int
    prefix_tokens: int
    suffix: Mapping[str, Any]
    output: Mapping[str, Any]
    skew: float = 0.0

    def __post_init__(self) -> None:
        require_int("trace.num_requests", self.num_requests, 1, MAX_REQUESTS)
        require_rate("trace.rate_per_s", self.rate_per_s)
        require_int("trace.num_groups", self.num_groups, 1, MAX_GROUPS)
        require_int("trace.prefix_tokens", self.prefix_tokens, 1, MAX_TOKENS)
        length_distribution("trace.suffix", self.suffix)
        length_distribution("trace.output", self.output)
        require_number("trace.skew", self.skew, high=MAX_SKEW)

    def load(self, seed: int) -> TraceTable:
        """Generate the trace."""
        n = self.num_requests
        suffix = length_distribution("trace.suffix", self.suffix)
        output = length_distribution("trace.output", self.output)
        group = sample_zipf(stream(seed, "trace.groups"), self.num_groups, self.skew, n)
        suffix_tokens = suffix.sample(stream(seed, "trace.suffix_tokens"), n)
        return TraceTable(
            arrival_s=poisson_arrivals(seed, n, self.rate_per_s),
            prompt_tokens=self.prefix_tokens + suffix_tokens,
            output_tokens=output.sample(stream(seed, "trace.output_tokens"), n),
            runs=PromptRuns(
                ids=group,
                offsets=np.arange(n + 1),
                tokens=np.full(n, self.prefix_tokens, dtype=np.int64),
            ),
            provenance=provenance_of_generator("prefix_groups", seed, n, asdict(self)),
        )
