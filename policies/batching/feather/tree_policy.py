"""What policies with a Chunked Hash Tree have in common: the tree follows the instance."""

from policies.batching.feather.hash_tree import ChunkedHashTree
from sim.interfaces import BatchPolicy, InstanceView
from sim.operations import OperationCounts
from sim.request import Request


class TreePolicy(BatchPolicy):
    """Keeps the waiting and running requests of its instance in a tree; a subclass chooses.

    Tokens that a running request decodes are not in the tree; a preempted request comes back with
    its prompt and what it has generated.

    Args:
        chunk_tokens: K, tokens per chunk.

    Attributes:
        operations: what the policy did so far.

    Raises:
        ConfigError: `chunk_tokens` is out of range.
    """

    operations: OperationCounts

    def __init__(self, chunk_tokens: int) -> None:
        self.operations = OperationCounts()
        self._tree = ChunkedHashTree(chunk_tokens, self.operations)

    def on_arrival(self, instance: InstanceView, request: Request, now_s: float) -> None:
        """Into the tree."""
        self._tree.insert(request)

    def on_admit(self, instance: InstanceView, request: Request, now_s: float) -> None:
        """Into the working set."""
        self._tree.add(request)

    def on_finish(self, instance: InstanceView, request: Request, now_s: float) -> None:
        """Out of the working set."""
        self._tree.finish(request)
