"""Small workloads written by hand, for tests that tell a story."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sim.prefix_tree import NO_NODE, PrefixTree
from sim.workload import Workload
from tests.twin.result import TwinResult
from tests.twin.scheduler import StepDuration, run_twin


@dataclass(frozen=True, slots=True)
class Ask:
    """A request: when, how long, and which shared nodes its prompt starts with."""

    arrival_s: float
    prompt: int
    output: int
    path: tuple[int, ...] = ()
    output_node: int = NO_NODE


def workload_of(asks: Sequence[Ask], nodes: Sequence[tuple[int, int]] = ()) -> Workload:
    """Workload of `asks` over a tree of `nodes`, each (parent, number of tokens)."""
    tree = PrefixTree.from_parents(
        np.array([parent for parent, _ in nodes], dtype=np.int64),
        np.array([tokens for _, tokens in nodes], dtype=np.int64),
    )
    workload = Workload(
        arrival_s=np.array([ask.arrival_s for ask in asks], dtype=np.float64),
        prompt_tokens=np.array([ask.prompt for ask in asks], dtype=np.int64),
        output_tokens=np.array([ask.output for ask in asks], dtype=np.int64),
        path_offsets=np.cumsum([0, *(len(ask.path) for ask in asks)], dtype=np.int64),
        path_nodes=np.array([node for ask in asks for node in ask.path], dtype=np.int64),
        tree=tree,
        output_node=np.array([ask.output_node for ask in asks], dtype=np.int64),
    )
    workload.validate()
    for ask in asks:
        for above, node in zip((NO_NODE, *ask.path), (*ask.path, ask.output_node), strict=True):
            assert node == NO_NODE or tree.parent[node] == above, f"node {node} not below {above}"
    return workload


def play(
    asks: Sequence[Ask],
    nodes: Sequence[tuple[int, int]] = (),
    *,
    usable_blocks: int = 100,
    seats: int = 8,
    budget: int = 64,
    threshold: int = 0,
    caching: bool = True,
    is_async: bool = False,
    step_duration: StepDuration | None = None,
    hash_in_flight_input: bool = True,
) -> TwinResult:
    """Run a story with blocks of 4 tokens and steps of one second."""
    return run_twin(
        workload_of(asks, nodes),
        num_gpu_blocks=usable_blocks + 1,
        block_tokens=4,
        max_num_seqs=seats,
        max_num_batched_tokens=budget,
        long_prefill_token_threshold=threshold,
        prefix_caching=caching,
        async_scheduling=is_async,
        step_duration=step_duration,
        hash_in_flight_input=hash_in_flight_input,
    )


def scheduled(result: TwinResult) -> list[tuple[tuple[int, int], ...]]:
    """Who got how many tokens, step by step."""
    return [step.scheduled for step in result.steps]
