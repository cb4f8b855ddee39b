"""Requests that share nothing: independent lengths."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sim.rng import stream
from traces.options import MAX_REQUESTS, require_int
from traces.schema import TraceTable
from traces.synthetic.arrivals import arrival_process
from traces.synthetic.lengths import length_distribution
from traces.synthetic.provenance import provenance_of_generator


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticTrace:
    """Independent requests.

    Attributes:
        num_requests: number of requests.
        rate_per_s: mean arrivals per second in the long run.
        prompt: distribution of prompt lengths (`traces.synthetic.lengths`).
        output: distribution of output lengths.
        arrivals: arrival process (`traces.synthetic.arrivals`).
    """

    num_requests: int
    rate_per_s: float
    prompt: Mapping[str, Any]
    output: Mapping[str, Any]
    arrivals: str | Mapping[str, Any] = "poisson"

    def __post_init__(self) -> None:
        require_int("trace.num_requests", self.num_requests, 1, MAX_REQUESTS)
        arrival_process("trace.arrivals", self.arrivals, self.rate_per_s)
        length_distribution("trace.prompt", self.prompt)
        length_distribution("trace.output", self.output)

    def load(self, seed: int) -> TraceTable:
        """Generate the trace."""
        n = self.num_requests
        prompt = length_distribution("trace.prompt", self.prompt)
        output = length_distribution("trace.output", self.output)
        process = arrival_process("trace.arrivals", self.arrivals, self.rate_per_s)
        arrivals = process.sample(seed, n)
        return TraceTable(
            arrival_s=arrivals.arrival_s,
            prompt_tokens=prompt.sample(stream(seed, "trace.prompt_tokens"), n),
            output_tokens=output.sample(stream(seed, "trace.output_tokens"), n),
            delay_s=arrivals.delay_s,
            concurrency=arrivals.concurrency,
            provenance=provenance_of_generator("synthetic", seed, n, asdict(self)),
        )
