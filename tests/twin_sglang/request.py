"""A request inside the twin, and what a run of the twin reports."""

from dataclasses import dataclass, field

from sim.prefix_tree import NO_NODE
from sim.workload import Workload
from tests.twin_sglang.radix import Node, Token


@dataclass(eq=False)
class TwinRequest:
    """A request; equal only to itself.

    Attributes:
        tokens: identity of every token of prompt and output.
        generated: output tokens so far.
        slots: slots of the computed tokens, one each.
        in_tree: how many of them belong to the tree.
        node: where those end; locked while it runs.
        retractions: how often it lost its place.
        hits: cached tokens at every admission.
        admitted_s: time of every admission.
        token_steps: steps (from 1) that gave it a token.
    """

    index: int
    prompt: int
    output: int
    tokens: list[Token]
    generated: int = 0
    slots: list[int] = field(default_factory=list)
    in_tree: int = 0
    node: Node | None = None
    retractions: int = 0
    hits: list[int] = field(default_factory=list)
    admitted_s: list[float] = field(default_factory=list)
    token_steps: list[int] = field(default_factory=list)

    @property
    def has_ended(self) -> bool:
        return self.generated == self.output

    @property
    def known(self) -> list[Token]:
        """Tokens whose values are known."""
        return self.tokens[: self.prompt + self.generated]


@dataclass(frozen=True)
class TwinResult:
    """A whole run.

    Attributes:
        requests: by row.
        step_end_s: end of every step.
        work: (requests decoding, requests prefilling, prefill tokens) of every step.
        unheld: tokens that no running request held, after the plan of every step.
        ratios: the reserved share of outstanding output when each step was planned.
        arrival_s: by row.
    """

    requests: list[TwinRequest]
    step_end_s: list[float]
    work: list[tuple[int, int, int]]
    unheld: list[int]
    ratios: list[float]
    arrival_s: list[float]


def load_request(workload: Workload, index: int) -> TwinRequest:
    """A request with an identity for each of its tokens."""
    prompt, output = int(workload.prompt_tokens[index]), int(workload.output_tokens[index])
    tokens: list[Token] = []
    for node in workload.path(index):
        size = int(workload.tree.num_tokens[node])
        tokens += [("node", node, position) for position in range(size)]
    output_node = NO_NODE if workload.output_node is None else int(workload.output_node[index])
    if output_node != NO_NODE:
        assert len(tokens) == prompt
        tokens += [("node", output_node, position) for position in range(output)]
    private = range(prompt + output - len(tokens))
    tokens += [("private", index, position) for position in private]
    return TwinRequest(index, prompt, output, tokens)
