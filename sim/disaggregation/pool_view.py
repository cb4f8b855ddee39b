"""Part of a cluster, as the router of that part sees it."""

from collections.abc import Sequence

from sim.interfaces import ClusterView
from sim.request import Request


class PoolView(ClusterView):
    """Some neighbouring instances of a cluster, numbered from 0.

    Args:
        whole: a view of all instances.
        first: id of the first instance.
        count: number of instances.
    """

    def __init__(self, whole: ClusterView, first: int, count: int) -> None:
        self._whole = whole
        self._part = slice(first, first + count)
        self._count = count

    @property
    def num_instances(self) -> int:
        """Number of instances."""
        return self._count

    @property
    def num_running(self) -> Sequence[int]:
        """Running requests per instance."""
        return self._whole.num_running[self._part]

    @property
    def num_waiting(self) -> Sequence[int]:
        """Waiting requests per instance."""
        return self._whole.num_waiting[self._part]

    @property
    def num_requests(self) -> Sequence[int]:
        """Running plus waiting requests per instance."""
        return self._whole.num_requests[self._part]

    @property
    def queued_prefill_tokens(self) -> Sequence[int]:
        """Tokens per instance that still have to be prefilled, or whose KV is still to come."""
        return self._whole.queued_prefill_tokens[self._part]

    @property
    def queued_hit_tokens(self) -> Sequence[int]:
        """Tokens of waiting prompts that were found cached when they were sent, per instance."""
        return self._whole.queued_hit_tokens[self._part]

    def matched_tokens(self, request: Request) -> Sequence[int]:
        """Leading prompt tokens of `request` in the prefix cache of each instance."""
        return self._whole.matched_tokens(request)[self._part]

    def kv_usage(self) -> Sequence[float]:
        """Share of each instance's KV blocks that running requests hold."""
        return self._whole.kv_usage()[self._part]

    def kv_tokens(self) -> Sequence[int]:
        """Tokens whose KV the running requests of each instance hold."""
        return self._whole.kv_tokens()[self._part]

    def load_arrays(self) -> None:
        """A part of a cluster is copied out of its lists, so it has no arrays."""

    @property
    def is_live(self) -> bool:
        """Whether the counters are those of this instant, and not reported ones."""
        return self._whole.is_live

    @property
    def version(self) -> int:
        """Grows each time a view that is not live is refreshed."""
        return self._whole.version
