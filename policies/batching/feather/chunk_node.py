"""Chunks that the same requests hold, as one node of a tree."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from policies.batching.feather.hash_tree import Entry


class ChunkNode:
    """Consecutive chunk keys that are held by the same requests.

    Attributes:
        parent: node of the keys before, None at a root.
        owner: owner of the chunks' last tokens (`chunk_keys`).
        first_level: keys before the first one.
        num_keys: keys in the node.
        depth: keys up to and including the last one.
        first_key: key of the first chunk.
        num_active: active requests that hold the keys: their reference count in the working set.
        waiting: waiting requests that hold the keys, by id.
    """

    __slots__ = (
        "depth",
        "first_key",
        "first_level",
        "num_active",
        "num_keys",
        "owner",
        "parent",
        "waiting",
    )

    def __init__(
        self,
        parent: "ChunkNode | None",
        owner: int,
        first_level: int,
        num_keys: int,
        first_key: int,
    ) -> None:
        self.parent = parent
        self.owner = owner
        self.first_level = first_level
        self.num_keys = num_keys
        self.depth = first_level + num_keys
        self.first_key = first_key
        self.num_active = 0
        self.waiting: dict[int, Entry] = {}
