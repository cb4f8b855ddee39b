"""Requests in groups that share a prompt prefix (few-shot templates, tools, documents)."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.rng import stream
from sim.workload import FloatArray, IntArray, Labels
from traces.options import MAX_REQUESTS, MAX_TIME_S, require_int, require_number
from traces.schema import PromptRuns, TraceTable
from traces.synthetic.arrivals import Arrivals, arrival_process
from traces.synthetic.lengths import length_distribution, length_or_number
from traces.synthetic.popularity import MAX_SKEW, sample_zipf
from traces.synthetic.provenance import provenance_of_generator

MAX_GROUPS = 10_000_000

WARM_START = "warm_start"
"""Service class of the requests that only bring the prefixes into the caches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixGroupsTrace:
    """Every prompt is its group's prefix followed by a private suffix.

    With `warm_start_s`, one more request per group comes first: the prefix alone with one output
    token, at time 0, in service class `WARM_START` (others have none), so that figures can leave
    them out. It warms the caches of the instances that these requests are routed to. Users of a
    closed loop send them before the others.

    Attributes:
        num_requests: number of requests, without those of the warm start.
        rate_per_s: mean arrivals per second in the long run.
        num_groups: number of distinct prefixes.
        prefix_tokens: tokens of every prefix, or their distribution over the groups.
        suffix: distribution of suffix lengths (`traces.synthetic.lengths`).
        output: distribution of output lengths.
        skew: Zipf exponent of the groups' popularity; 0 is uniform.
        deviating_ratio: share of requests that leave their group's prefix early. Their prompts are
            as long as if they had not, but private from there on.
        deviate_after: part of the prefix that these still share, rounded down to tokens; 0 makes
            the whole prompt private.
        warm_start_s: when the load begins after the warm start, seconds; None for no warm start.
        arrivals: arrival process (`traces.synthetic.arrivals`).
    """

    num_requests: int
    rate_per_s: float
    num_groups: int
    prefix_tokens: int | Mapping[str, Any]
    suffix: Mapping[str, Any]
    output: Mapping[str, Any]
    skew: float = 0.0
    deviating_ratio: float = 0.0
    deviate_after: float = 0.5
    warm_start_s: float | None = None
    arrivals: str | Mapping[str, Any] = "poisson"

    def __post_init__(self) -> None:
        require_int("trace.num_requests", self.num_requests, 1, MAX_REQUESTS)
        arrival_process("trace.arrivals", self.arrivals, self.rate_per_s)
        require_int("trace.num_groups", self.num_groups, 1, MAX_GROUPS)
        length_or_number("trace.prefix_tokens", self.prefix_tokens)
        length_distribution("trace.suffix", self.suffix)
        length_distribution("trace.output", self.output)
        require_number("trace.skew", self.skew, high=MAX_SKEW)
        require_number("trace.deviating_ratio", self.deviating_ratio, high=1)
        require_number("trace.deviate_after", self.deviate_after, high=1)
        if self.warm_start_s is not None:
            require_number("trace.warm_start_s", self.warm_start_s, high=MAX_TIME_S)

    def load(self, seed: int) -> TraceTable:
        """Generate the trace."""
        n = self.num_requests
        num_warm = 0 if self.warm_start_s is None else self.num_groups
        suffix = length_distribution("trace.suffix", self.suffix)
        output = length_distribution("trace.output", self.output)
        prefix = length_or_number("trace.prefix_tokens", self.prefix_tokens)
        process = arrival_process("trace.arrivals", self.arrivals, self.rate_per_s)
        group = sample_zipf(stream(seed, "trace.groups"), self.num_groups, self.skew, n)
        suffix_tokens = suffix.sample(stream(seed, "trace.suffix_tokens"), n)
        output_tokens = output.sample(stream(seed, "trace.output_tokens"), n)
        is_deviating = stream(seed, "trace.deviating").random(n) < self.deviating_ratio
        of_group = prefix.sample(stream(seed, "trace.prefix_tokens"), self.num_groups)
        arrivals = process.sample(seed, n)
        group = np.append(np.arange(num_warm), group)
        prefix_tokens = of_group[group]
        return TraceTable(
            arrival_s=self._arrival_s(arrivals, num_warm),
            prompt_tokens=prefix_tokens + _after(num_warm, 0, suffix_tokens),
            output_tokens=_after(num_warm, 1, output_tokens),
            runs=self._runs(group, _after(num_warm, 0, is_deviating), prefix_tokens),
            slo_class=_warm_start_label(num_warm, n),
            delay_s=None if arrivals.delay_s is None else _after(num_warm, 0, arrivals.delay_s),
            concurrency=arrivals.concurrency,
            provenance=provenance_of_generator("prefix_groups", seed, num_warm + n, asdict(self)),
        )

    def _arrival_s(self, arrivals: Arrivals, num_warm: int) -> FloatArray:
        if self.warm_start_s is None:
            return arrivals.arrival_s
        return np.append(np.zeros(num_warm), self.warm_start_s + arrivals.arrival_s)

    def _runs(
        self, group: IntArray, is_deviating: npt.NDArray[np.bool_], prefix_tokens: IntArray
    ) -> PromptRuns:
        """One run per prefix, two where some requests leave it: what these share, and the rest."""
        common = prefix_tokens
        if self.deviating_ratio > 0:
            common = np.floor(self.deviate_after * prefix_tokens).astype(np.int64)
        tokens = np.stack((common, prefix_tokens - common), axis=1)
        is_used = tokens > 0
        is_used[:, 1] &= ~is_deviating
        ids = np.stack((group, self.num_groups + group), axis=1)
        offsets = np.append(0, np.cumsum(is_used.sum(axis=1)))
        return PromptRuns(ids=ids[is_used], offsets=offsets, tokens=tokens[is_used])


def _after(num_warm: int, value: int, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The column with `num_warm` times `value` before it."""
    return np.append(np.full(num_warm, value, dtype=column.dtype), column)


def _warm_start_label(num_warm: int, num_requests: int) -> Labels | None:
    if not num_warm:
        return None
    codes = np.repeat(np.array([0, -1]), [num_warm, num_requests])
    return Labels(codes, (WARM_START,))
