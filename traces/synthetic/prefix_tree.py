"""Requests whose prompts share prefixes of several levels (system prompt, tools, document, ...)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sim.errors import ConfigError
from sim.rng import stream
from sim.workload import IntArray
from traces.options import MAX_REQUESTS, require_int, require_number, shown
from traces.schema import PromptRuns, TraceTable
from traces.synthetic.arrivals import arrival_process
from traces.synthetic.lengths import length_distribution, length_or_number
from traces.synthetic.popularity import MAX_SKEW, sample_zipf
from traces.synthetic.provenance import provenance_of_generator

MAX_LEVELS = 100

MAX_NODES = 10_000_000

MAX_RUNS = 100_000_000
"""Most runs over all prompts, which is what the memory grows with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixTreeTrace:
    """Every prompt is the path from the root to a leaf of a tree, then a private suffix.

    Attributes:
        num_requests: number of requests.
        rate_per_s: mean arrivals per second in the long run.
        fan_out: children of every node of a level: `[4, 8]` has 4 nodes on the first level and 32
            leaves; a first level of 1 is common to all prompts.
        level_tokens: tokens of every node of a level, or their distribution over its nodes.
        suffix: distribution of suffix lengths (`traces.synthetic.lengths`).
        output: distribution of output lengths.
        skew: Zipf exponent of the leaves' popularity; 0 is uniform. Which leaf has which rank is
            drawn, so that popular leaves are spread over the tree.
        arrivals: arrival process (`traces.synthetic.arrivals`).
    """

    num_requests: int
    rate_per_s: float
    fan_out: Sequence[int]
    level_tokens: Sequence[int | Mapping[str, Any]]
    suffix: Mapping[str, Any]
    output: Mapping[str, Any]
    skew: float = 0.0
    arrivals: str | Mapping[str, Any] = "poisson"

    def __post_init__(self) -> None:
        require_int("trace.num_requests", self.num_requests, 1, MAX_REQUESTS)
        arrival_process("trace.arrivals", self.arrivals, self.rate_per_s)
        for name in ("fan_out", "level_tokens"):
            _require_levels(f"trace.{name}", getattr(self, name))
        if len(self.fan_out) != len(self.level_tokens):
            raise ConfigError(
                f"trace.fan_out has {len(self.fan_out)} levels, trace.level_tokens "
                f"{len(self.level_tokens)}: must be as many"
            )
        for i, children in enumerate(self.fan_out):
            require_int(f"trace.fan_out[{i}]", children, 1, MAX_NODES)
        for i, tokens in enumerate(self.level_tokens):
            length_or_number(f"trace.level_tokens[{i}]", tokens)
        length_distribution("trace.suffix", self.suffix)
        length_distribution("trace.output", self.output)
        require_number("trace.skew", self.skew, high=MAX_SKEW)
        self._refuse_too_much()

    def _refuse_too_much(self) -> None:
        if sum(self._nodes_of_levels) > MAX_NODES:
            raise ConfigError(
                f"trace.fan_out={shown(list(self.fan_out))}: makes more nodes than allowed, which "
                f"are {MAX_NODES:,}"
            )
        num_runs = self.num_requests * len(self.fan_out)
        if num_runs > MAX_RUNS:
            raise ConfigError(
                f"trace.num_requests={self.num_requests}: makes {num_runs:,} runs with "
                f"{len(self.fan_out)} levels, allowed: {MAX_RUNS:,}"
            )

    @property
    def _nodes_of_levels(self) -> list[int]:
        return [math.prod(self.fan_out[: i + 1]) for i in range(len(self.fan_out))]

    def load(self, seed: int) -> TraceTable:
        """Generate the trace."""
        n = self.num_requests
        suffix = length_distribution("trace.suffix", self.suffix)
        output = length_distribution("trace.output", self.output)
        process = arrival_process("trace.arrivals", self.arrivals, self.rate_per_s)
        arrivals = process.sample(seed, n)
        runs = self._runs(seed)
        assert runs.tokens is not None
        prefix_tokens = runs.tokens.reshape(n, -1).sum(axis=1)
        return TraceTable(
            arrival_s=arrivals.arrival_s,
            prompt_tokens=prefix_tokens + suffix.sample(stream(seed, "trace.suffix_tokens"), n),
            output_tokens=output.sample(stream(seed, "trace.output_tokens"), n),
            runs=runs,
            delay_s=arrivals.delay_s,
            concurrency=arrivals.concurrency,
            provenance=provenance_of_generator("prefix_tree", seed, n, asdict(self)),
        )

    def _runs(self, seed: int) -> PromptRuns:
        """One run per level; ids count the nodes level by level."""
        n, nodes = self.num_requests, self._nodes_of_levels
        leaf = self._leaves(seed, nodes[-1])
        first_of_level = np.cumsum([0, *nodes[:-1]])
        leaves_below = nodes[-1] // np.array(nodes)
        ids = (leaf[:, np.newaxis] // leaves_below + first_of_level).ravel()
        offsets = np.arange(n + 1) * len(nodes)
        return PromptRuns(ids=ids, offsets=offsets, tokens=self._tokens_of_nodes(seed)[ids])

    def _leaves(self, seed: int, num_leaves: int) -> IntArray:
        rank = sample_zipf(stream(seed, "trace.leaves"), num_leaves, self.skew, self.num_requests)
        leaf_of_rank: IntArray = stream(seed, "trace.leaf_order").permutation(num_leaves)
        return leaf_of_rank[rank]

    def _tokens_of_nodes(self, seed: int) -> IntArray:
        """Tokens of each node; a level's do not depend on the others."""
        levels = []
        for i, num_nodes in enumerate(self._nodes_of_levels):
            tokens = length_or_number(f"trace.level_tokens[{i}]", self.level_tokens[i])
            levels.append(tokens.sample(stream(seed, f"trace.level_tokens.{i}"), num_nodes))
        return np.concatenate(levels)


def _require_levels(key: str, value: Any) -> None:
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    if not is_list or not 1 <= len(value) <= MAX_LEVELS:
        raise ConfigError(f"{key}={shown(value)}: must be a list of 1 to {MAX_LEVELS} levels")
