"""Random small workloads with random engine limits, for comparisons with the twin."""

from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from sim.prefix_tree import NO_NODE
from sim.workload import Workload
from tests.twin.stories import Ask, workload_of

BLOCK_TOKENS = 16


class EngineLimits(TypedDict):
    """Limits of one instance, by the names of `run_twin`'s arguments."""

    num_gpu_blocks: int
    max_num_seqs: int
    max_num_batched_tokens: int
    long_prefill_token_threshold: int
    block_tokens: int


@dataclass(slots=True)
class _Tree:
    """A growing prefix tree."""

    nodes: list[tuple[int, int]]

    def add(self, parent: int, num_tokens: int) -> int:
        self.nodes.append((parent, num_tokens))
        return len(self.nodes) - 1

    def path_to(self, node: int) -> tuple[int, ...]:
        path: list[int] = []
        while node != NO_NODE:
            path.append(node)
            node = self.nodes[node][0]
        return tuple(reversed(path))

    def depth_tokens(self, node: int) -> int:
        return sum(self.nodes[above][1] for above in self.path_to(node))


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Random lengths, in multiples of `grain` tokens."""

    rng: np.random.Generator
    grain: int
    longest_output: int

    def tokens(self, most: int) -> int:
        return self.grain * int(self.rng.integers(1, max(most // self.grain, 1) + 1))

    def output(self) -> int:
        if self.rng.random() < 0.15:
            return 1
        if self.grain > 1:  # few distinct lengths, so that requests finish together
            return int(self.rng.choice([15, 16, 17, 32, self.longest_output]))
        return int(self.rng.integers(1, self.longest_output + 1))


def random_workload(
    seed: int,
    *,
    structured: bool,
    step_s: float = 1.0,
    max_requests: int = 80,
) -> tuple[Workload, EngineLimits]:
    """Workload of 5 to `max_requests` requests and limits that it fits, fixed by the arguments.

    Args:
        seed: any non-negative integer.
        structured: lengths in whole blocks, few distinct outputs, and arrivals in bursts exactly
            on the step boundaries of an instance that starts at time 0; otherwise lengths and
            times are arbitrary. Sharing, conversations and limits vary in both.
        step_s: step duration to which the arrivals are scaled.
        max_requests: most requests, >= 5.
    """
    rng = np.random.default_rng([seed, int(structured)])
    num_requests = int(rng.integers(5, max_requests + 1))
    sizes = _Sizes(rng, BLOCK_TOKENS if structured else 1, int(rng.choice([20, 50, 80])))
    steps_between = float(rng.choice([0.0, 0.5, 2.0, 5.0, 15.0]))
    arrivals = _arrivals(rng, num_requests, steps_between, step_s, structured)
    asks, tree = _prompts(sizes, arrivals, chain_ratio=float(rng.choice([0.0, 0.3, 0.8])))
    return workload_of(asks, tree.nodes), _limits(rng, asks)


def _arrivals(
    rng: np.random.Generator, count: int, steps_between: float, step_s: float, structured: bool
) -> list[float]:
    if not structured:
        times: list[float] = np.cumsum(rng.exponential(steps_between * step_s, count)).tolist()
        return times
    steps = np.sort(rng.integers(0, int(count * steps_between) + 1, count))
    if rng.random() < 0.5:  # fewer, larger bursts
        steps -= steps % 7
    # Step ends are accumulated, so boundaries must be too.
    boundaries = np.add.accumulate([0.0, *[step_s] * int(steps.max())])
    on_boundary: list[float] = boundaries[steps].tolist()
    return on_boundary


def _prompts(sizes: _Sizes, arrivals: list[float], chain_ratio: float) -> tuple[list[Ask], _Tree]:
    """Prompts under shared nodes; some continue the prompt and output of an earlier one."""
    rng = sizes.rng
    tree = _Tree([])
    for node in range(int(rng.integers(0, 15))):
        is_root = node == 0 or rng.random() < 0.2
        tree.add(NO_NODE if is_root else int(rng.integers(node)), sizes.tokens(200))
    num_shared = len(tree.nodes)
    open_ends: list[int] = []  # output nodes that a later turn can continue
    asks: list[Ask] = []
    for arrival_s in arrivals:
        node = int(rng.integers(num_shared)) if num_shared and rng.random() < 0.9 else NO_NODE
        if open_ends and rng.random() < chain_ratio:
            node = open_ends[int(rng.integers(len(open_ends)))]
        is_reused = rng.random() < chain_ratio and tree.depth_tokens(node) < 600
        output, output_node, suffix = sizes.output(), NO_NODE, 0
        if is_reused:
            if node == NO_NODE or rng.random() < 0.7:
                node = tree.add(node, sizes.tokens(100))
            output_node = tree.add(node, output)
            open_ends.append(output_node)
        elif node == NO_NODE or rng.random() < 0.7:
            suffix = sizes.tokens(120)
        prompt = tree.depth_tokens(node) + suffix
        asks.append(Ask(arrival_s, prompt, output, tree.path_to(node), output_node))
    return asks, tree


def _limits(rng: np.random.Generator, asks: list[Ask]) -> EngineLimits:
    largest = max(-(-(ask.prompt + ask.output - 1) // BLOCK_TOKENS) for ask in asks)
    threshold = int(rng.choice([32, 64])) if rng.random() < 0.2 else 0
    return EngineLimits(
        num_gpu_blocks=1 + largest + int(rng.choice([0, 1, 5, 20, 60, 300])),
        max_num_seqs=int(rng.choice([2, 8, 64])),
        max_num_batched_tokens=int(rng.choice([64, 256, 2048])),
        long_prefill_token_threshold=threshold,
        block_tokens=BLOCK_TOKENS,
    )
