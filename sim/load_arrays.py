"""Load counters of a large cluster as arrays, so that a router scores all instances at once.

The counters stay lists, which is the fastest for those who change them one by one. What has changed
since somebody last looked is remembered and copied then. Nothing of this exists before a router
asks for it.
"""

from collections.abc import Callable, Iterable, Mapping, MutableSequence, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from sim.request import Request

IntArray = npt.NDArray[np.int64]

SparseMatch = tuple[int | IntArray, Mapping[int, int]]
"""(leading tokens that most instances hold, or those of each one, shape (instances,); those of the
instances for which that is wrong)."""

MIN_INSTANCES = 64
"""Below this, lists are faster."""


_set_item = list.__setitem__


class _Watched(list[int]):
    """Counters that remember which of them were set."""

    __slots__ = ("_changed",)

    def __init__(self, values: Iterable[int], changed: set[int]) -> None:
        super().__init__(values)
        self._changed = changed

    def __setitem__(self, index: Any, value: Any) -> None:
        _set_item(self, index, value)
        self._changed.add(index)  # a slice is refused here


class LoadArrays:
    """Counters of the live view.

    Args:
        num_instances: instances of the cluster.
        match: matches a request against the caches.

    Attributes:
        match: the same.
        num_requests: running and waiting requests. Shape (instances,).
        expected_tokens: queued prefill tokens less queued hit tokens. Shape (instances,).
        scratch: whatever. Shape (instances,).
    """

    def __init__(self, num_instances: int, match: Callable[[Request], SparseMatch]) -> None:
        self.match = match
        self.num_requests: IntArray = np.zeros(num_instances, dtype=np.int64)
        self.expected_tokens: IntArray = np.zeros(num_instances, dtype=np.int64)
        self.scratch: IntArray = np.zeros(num_instances, dtype=np.int64)
        # The same memory for single entries, as in `sim.step_ends`.
        self._requests_view: memoryview[int] = memoryview(cast(Any, self.num_requests))
        self._tokens_view: memoryview[int] = memoryview(cast(Any, self.expected_tokens))
        self._changed = set(range(num_instances))

    def watched(self, values: Iterable[int]) -> MutableSequence[int]:
        """Counters that are followed from now on."""
        return _Watched(values, self._changed)

    def refresh(self, requests: Sequence[int], queued: Sequence[int], hits: Sequence[int]) -> None:
        """Copy what has changed."""
        requests_view, tokens_view = self._requests_view, self._tokens_view
        for i in self._changed:
            requests_view[i] = requests[i]
            tokens_view[i] = queued[i] - hits[i]
        self._changed.clear()
