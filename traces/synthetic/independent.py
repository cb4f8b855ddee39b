"""Requests that share nothing: Poisson arrivals, independent lengths."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sim.rng import stream
from traces.options import MAX_REQUESTS, require_int, require_rate
from traces.schema import TraceTable
from traces.synthetic.arrivals import poisson_arrivals
from traces.synthetic.lengths import length_distribution
from traces.synthetic.provenance import provenance_of_generator


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticTrace:
    """Independent requests.

    Attributes:
        num_requests: number of requests.
        rate_per_s: mean arrivals per second.
        prompt: distribution of prompt lengths (`traces.synthetic.lengths`).
        output: distribution of output lengths.
    """

    num_requests: int
    rate_per_s: float
    prompt: Mapping[str, Any]
    output: Mapping[str, Any]

    def __post_init__(self) -> None:
        require_int("trace.num_requests", self.num_requests, 1, MAX_REQUESTS)
        require_rate("trace.rate_per_s", self.rate_per_s)
        length_distribution("trace.prompt", self.prompt)
        length_distribution("trace.output", self.output)

    def load(self, seed: int) -> TraceTable:
        """Generate the trace."""
        n = self.num_requests
        prompt = length_distribution("trace.prompt", self.prompt)
        output = length_distribution("trace.output", self.output)
        return TraceTable(
            arrival_s=poisson_arrivals(seed, n, self.rate_per_s),
            prompt_tokens=prompt.sample(stream(seed, "trace.prompt_tokens"), n),
            output_tokens=output.sample(stream(seed, "trace.output_tokens"), n),
            provenance=provenance_of_generator("synthetic", seed, n, asdict(self)),
        )
