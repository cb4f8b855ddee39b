"""A workload: every request that will arrive, in columns, with the sharing between prompts.

This is what trace readers produce and what `simulate()` consumes. It holds no hash ids and no token
contents, only lengths, times and paths in the prefix tree.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.prefix_tree import NO_NODE, PrefixTree

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Labels:
    """A column of names held as codes.

    Attributes:
        codes: index into `names` per request, -1 where absent. Shape (n,).
        names: the distinct names.
    """

    codes: IntArray
    names: tuple[str, ...]

    def name_of(self, index: int) -> str | None:
        """Name of request `index`, or None."""
        code = int(self.codes[index])
        return None if code < 0 else self.names[code]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Columns over n requests in order of arrival; request ids are row numbers.

    Attributes:
        arrival_s: arrival time in seconds from the start, >= 0, never decreasing. Shape (n,).
        prompt_tokens: prompt length, >= 1. Shape (n,).
        output_tokens: tokens the request will generate, >= 1. Shape (n,).
        path_offsets: start of each request's slice of `path_nodes`. Shape (n + 1,).
        path_nodes: nodes from the root down that the prompt shares with others, concatenated.
            Their tokens are a prefix of the prompt; the rest of the prompt is private.
        tree: the prefix tree.
        output_node: node that holds exactly what the request generates, `NO_NODE` where nobody
            reuses it; such a request has no private prompt tokens. Shape (n,) or None.
        session_id: conversation of the request, -1 where none. Shape (n,) or None.
        turn: turn within the session, from 0. Shape (n,) or None.
        parent_id: request whose prompt and output this prompt continues, -1 where none.
        tenant: customer of the request, or None.
        slo_class: service class of the request, or None.
        priority: smaller is more urgent. Shape (n,) or None.
        after: request whose end (last token or rejection) makes this one arrive, `delay_s` later;
            -1: it arrives at `arrival_s`, which is nominal in the other rows. An earlier row.
            Shape (n,) or None.
        delay_s: seconds between that end and the arrival, >= 0. Shape (n,) or None.
        concurrency: so many users take the requests that are after none in order, each the next
            one when all that its last one led to has ended (`delay_s` after that end; the first
            ones at `arrival_s`); None: they arrive at `arrival_s`.
        provenance: where the rows came from (format, sha256, number of rows, options).
    """

    arrival_s: FloatArray
    prompt_tokens: IntArray
    output_tokens: IntArray
    path_offsets: IntArray
    path_nodes: IntArray
    tree: PrefixTree
    output_node: IntArray | None = None
    session_id: IntArray | None = None
    turn: IntArray | None = None
    parent_id: IntArray | None = None
    tenant: Labels | None = None
    slo_class: Labels | None = None
    priority: IntArray | None = None
    after: IntArray | None = None
    delay_s: FloatArray | None = None
    concurrency: int | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def without_sharing(
        arrival_s: FloatArray,
        prompt_tokens: IntArray,
        output_tokens: IntArray,
        **columns: Any,
    ) -> "Workload":
        """Workload in which no two prompts share a prefix."""
        return Workload(
            arrival_s=np.asarray(arrival_s, dtype=np.float64),
            prompt_tokens=np.asarray(prompt_tokens, dtype=np.int64),
            output_tokens=np.asarray(output_tokens, dtype=np.int64),
            path_offsets=np.zeros(len(arrival_s) + 1, dtype=np.int64),
            path_nodes=np.empty(0, dtype=np.int64),
            tree=PrefixTree.empty(),
            **columns,
        )

    @property
    def num_requests(self) -> int:
        """Number of requests."""
        return len(self.arrival_s)

    @property
    def is_closed_loop(self) -> bool:
        """Whether arrivals depend on when other requests end."""
        has_followers = self.after is not None and bool((self.after >= 0).any())
        return has_followers or self.concurrency is not None

    def path(self, index: int) -> tuple[int, ...]:
        """Shared nodes of request `index`, root first."""
        start, end = self.path_offsets[index], self.path_offsets[index + 1]
        return tuple(self.path_nodes[start:end].tolist())

    def shared_tokens(self) -> IntArray:
        """Prompt tokens of each request that lie in shared nodes. Shape (n,)."""
        lengths = np.append(0, np.cumsum(self.tree.num_tokens[self.path_nodes]))
        shared: IntArray = lengths[self.path_offsets[1:]] - lengths[self.path_offsets[:-1]]
        return shared

    def validate(self) -> None:
        """Check the columns against each other.

        Raises:
            ValueError: names the rule that is broken and the first offending row.
        """
        n = self.num_requests
        for name in ("prompt_tokens", "output_tokens", *_OPTIONAL_COLUMNS):
            column = getattr(self, name)
            column = column.codes if isinstance(column, Labels) else column
            if column is not None and len(column) != n:
                raise ValueError(f"{name}: {len(column)} rows, expected {n}")
        _refuse_rows("arrival_s must be finite and >= 0", ~(self.arrival_s >= 0))
        _refuse_rows("arrival_s must be finite", ~np.isfinite(self.arrival_s))
        _refuse_rows("arrival_s must not decrease", np.append(False, np.diff(self.arrival_s) < 0))
        _refuse_rows("prompt_tokens must be >= 1", self.prompt_tokens < 1)
        _refuse_rows("output_tokens must be >= 1", self.output_tokens < 1)
        self._validate_loop()
        self._validate_paths()
        shared = self.shared_tokens()
        _refuse_rows("path is longer than the prompt", shared > self.prompt_tokens)
        if self.output_node is not None:
            self._validate_outputs(self.output_node, shared)

    def _validate_loop(self) -> None:
        if self.after is not None:
            is_wrong = (self.after < -1) | (self.after >= np.arange(self.num_requests))
            _refuse_rows("after must be -1 or an earlier request", is_wrong)
        if self.delay_s is not None:
            is_wrong = ~((self.delay_s >= 0) & np.isfinite(self.delay_s))
            _refuse_rows("delay_s must be finite and >= 0", is_wrong)
        if self.concurrency is not None and self.concurrency < 1:
            raise ValueError(f"concurrency={self.concurrency}: must be at least 1")

    def _validate_paths(self) -> None:
        offsets, nodes, n = self.path_offsets, self.path_nodes, self.num_requests
        if len(offsets) != n + 1:
            raise ValueError(f"path_offsets: {len(offsets)} entries, expected {n + 1}")
        if offsets[0] != 0 or offsets[-1] != len(nodes) or (np.diff(offsets) < 0).any():
            raise ValueError(f"path_offsets must grow from 0 to {len(nodes)}, the path nodes")
        if len(nodes) and not (nodes.min() >= 0 and nodes.max() < self.tree.num_nodes):
            raise ValueError(f"path_nodes must be in 0 to {self.tree.num_nodes - 1}")
        above = np.append(NO_NODE, nodes)[:-1]
        above[offsets[:-1][np.diff(offsets) > 0]] = NO_NODE
        is_wrong = self.tree.parent[nodes] != above
        if is_wrong.any():
            row = int(np.searchsorted(offsets, int(np.argmax(is_wrong)), side="right")) - 1
            raise ValueError(f"request {row}: path is no chain of the prefix tree from its root")

    def _validate_outputs(self, output_node: IntArray, shared: IntArray) -> None:
        rows = np.flatnonzero(output_node != NO_NODE)
        nodes = output_node[rows]
        if len(nodes) and not (nodes.min() >= 0 and nodes.max() < self.tree.num_nodes):
            raise ValueError(f"output_node must be in -1 to {self.tree.num_nodes - 1}")

        def refuse(rule: str, is_bad: npt.NDArray[np.bool_]) -> None:
            if is_bad.any():
                raise ValueError(f"request {int(rows[np.argmax(is_bad)])}: {rule}")

        refuse(
            "a request with an output_node must not have private prompt tokens",
            shared[rows] != self.prompt_tokens[rows],
        )
        leaves = self.path_nodes[self.path_offsets[rows + 1] - 1] if len(rows) else nodes
        refuse("output_node must follow the prompt's path", self.tree.parent[nodes] != leaves)
        refuse(
            "output_node must hold exactly output_tokens",
            self.tree.num_tokens[nodes] != self.output_tokens[rows],
        )


_OPTIONAL_COLUMNS = (
    "output_node",
    "session_id",
    "turn",
    "parent_id",
    "tenant",
    "slo_class",
    "priority",
    "after",
    "delay_s",
)


def _refuse_rows(rule: str, is_bad: npt.NDArray[np.bool_]) -> None:
    if is_bad.any():
        raise ValueError(f"request {int(np.argmax(is_bad))}: {rule}")
