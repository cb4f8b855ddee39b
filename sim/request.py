"""One request while it is in the system: what it asks for, and how far the engine has brought it.

Requests are made when they arrive and dropped when they finish, so memory follows the number in the
system and not the length of the trace. Policies read them; only the engine writes.
"""

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from sim.prefix_tree import NO_NODE
from sim.workload import Labels, Workload

if TYPE_CHECKING:
    from sim.extents import Extent

WAITING, PREFILLING, DECODING, FINISHED = range(4)
"""Phases of a request inside an instance; a preempted request is WAITING again."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Request:
    """A live request.

    Attributes:
        request_id: row in the workload; grows with arrival in an open loop.
        arrival_s: arrival time, seconds.
        prompt_tokens: prompt length, tokens.
        output_tokens: tokens it will generate (the simulator knows, policies must not look).
        path: shared nodes of its prompt, root first.
        private_tokens: prompt tokens after the path, tokens.
        kv_path: nodes its KV blocks belong to: `path`, and the output node where it has one.
        shared_blocks: KV blocks that lie in `kv_path`.
        phase: WAITING, PREFILLING, DECODING or FINISHED.
        computed_tokens: tokens whose KV is in the cache or scheduled to be; while decoding, as of
            `decode_start_step`.
        generated_tokens: output tokens so far; while decoding, as of `decode_start_step`.
        cached_tokens: prompt tokens found in the prefix cache at its first admission, -1 before.
        admitted_s: time of its first admission, seconds; -1 before.
        num_preemptions: how often it lost its KV.
        admission_index: grows with admission; the running order.
        decode_start_step: steps of the instance after which it began to decode.
        finish_step: steps of the instance after which it will be complete.
        intervals: pairs (step of first token, step of last token) of closed decode intervals.
        extents: named KV blocks it holds, in order of position.
        num_blocks: KV blocks it holds; while decoding, as of `decode_start_step`.
        first_unhashed_extent: index in `extents` before which every block is hashed.
    """

    __slots__ = (
        "_workload",
        "admission_index",
        "admitted_s",
        "arrival_s",
        "cached_tokens",
        "computed_tokens",
        "decode_start_step",
        "extents",
        "finish_step",
        "first_unhashed_extent",
        "generated_tokens",
        "intervals",
        "kv_path",
        "num_blocks",
        "num_preemptions",
        "output_node",
        "output_tokens",
        "path",
        "phase",
        "private_tokens",
        "prompt_tokens",
        "request_id",
        "shared_blocks",
    )

    # Set when it begins to decode.
    decode_start_step: int
    finish_step: int

    def __init__(
        self,
        workload: Workload | None,
        request_id: int,
        arrival_s: float,
        prompt_tokens: int,
        output_tokens: int,
        path: tuple[int, ...] = (),
        private_tokens: int = 0,
        output_node: int = NO_NODE,
    ) -> None:
        self._workload = workload
        self.request_id = request_id
        self.arrival_s = arrival_s
        self.prompt_tokens = prompt_tokens
        self.output_tokens = output_tokens
        self.path = path
        self.private_tokens = private_tokens
        self.output_node = output_node
        self.kv_path: tuple[int, ...] = path if output_node < 0 else (*path, output_node)
        self.shared_blocks = 0
        self.phase = WAITING
        self.computed_tokens = 0
        self.generated_tokens = 0
        self.cached_tokens = -1
        self.admitted_s = -1.0
        self.num_preemptions = 0
        self.admission_index = -1
        self.intervals: tuple[int, ...] = ()
        self.extents: list[Extent] = []
        self.num_blocks = 0
        self.first_unhashed_extent = 0

    @property
    def prompt_nodes(self) -> tuple[int, ...]:
        """Nodes of the prompt whose KV can be shared: `kv_path` without its own output."""
        return self.kv_path if self.output_node < 0 else self.kv_path[:-1]

    @property
    def path_end_tokens(self) -> tuple[int, ...]:
        """Prompt tokens up to and including the last one of each node of `path`."""
        if not self.path or self._workload is None:
            return ()
        tree, nodes = self._workload.tree, list(self.path)
        return tuple((tree.start_tokens[nodes] + tree.num_tokens[nodes]).tolist())

    @property
    def total_tokens(self) -> int:
        """Tokens that a prefill has to cover: the prompt and what was generated before."""
        return self.prompt_tokens + self.generated_tokens

    @property
    def session_id(self) -> int:
        """Conversation of the request, -1 where none."""
        column = self._workload.session_id if self._workload else None
        return -1 if column is None else int(column[self.request_id])

    @property
    def turn(self) -> int:
        """Turn within the session, from 0."""
        column = self._workload.turn if self._workload else None
        return 0 if column is None else int(column[self.request_id])

    @property
    def parent_id(self) -> int:
        """Request that this prompt continues, -1 where none."""
        column = self._workload.parent_id if self._workload else None
        return -1 if column is None else int(column[self.request_id])

    @property
    def tenant(self) -> str | None:
        """Customer of the request, where the trace names one."""
        return self._label(self._workload.tenant if self._workload else None)

    @property
    def slo_class(self) -> str | None:
        """Service class of the request, where the trace names one."""
        return self._label(self._workload.slo_class if self._workload else None)

    @property
    def priority(self) -> int:
        """Priority, smaller is more urgent, 0 where the trace has none."""
        column = self._workload.priority if self._workload else None
        return 0 if column is None else int(column[self.request_id])

    def _label(self, labels: Labels | None) -> str | None:
        return None if labels is None else labels.name_of(self.request_id)

    def __repr__(self) -> str:
        return f"Request({self.request_id}, {self.prompt_tokens}+{self.output_tokens} tokens)"
