"""LMETRIC's detector of prefixes that draw more load than the instances that hold them can take."""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from policies.routing.option_checks import refuse_not_above, refuse_outside
from sim.request import Request

CLASS_TOKENS = 1024
"""A class is the prefix-tree node that holds this token. Ours: the paper gives no length."""

WINDOW_S = 60.0
"""Source: arXiv 2603.15202, section 5.2 (one minute)."""

CONSECUTIVE_PER_HOLDER = 2
"""Requests in a row per holder before it is filtered. Source: as above (2|M|)."""

NO_CLASS = -1

CLEAR, ALARM, FILTER = "clear", "alarm", "filter"
"""What is done about a class: nothing, counting, leaving its holders out."""


class HotspotDecision(NamedTuple):
    """A change of what the detector does about a class.

    Attributes:
        time_s: when, seconds.
        node: the class.
        event: "alarm", "filter" or "clear".
        share_ratio: share of the class among the arrivals of the window.
        num_holders: instances that hold the class's prefix.
    """

    time_s: float
    node: int
    event: str
    share_ratio: float
    num_holders: int


class HotspotDetector:
    """Two phases, per class of requests.

    The class of a request is the node of its path that holds token `class_tokens`; requests that
    share no such token have none. M: instances whose hit reaches `class_tokens`. x: share of the
    class among the arrivals of the window, this one included.

    1. Alarm while x / (1 - x) > |M| / (N - |M|); none if x is 1, or M is empty or everybody.
    2. While alarmed, requests of the class in a row whose best score on M is at most the best one
       elsewhere are counted, any other one resets the count. From the 2|M|-th on, M is filtered
       out for the class: until such a request, or the end of the alarm, resets the count.

    A sliding window holds the arrivals of the last `window_s`; a tumbling one begins at multiples
    of `window_s`, and all counts are reset there.

    Args:
        is_sliding: kind of window.
        class_tokens: None is `CLASS_TOKENS`.
        window_s: None is `WINDOW_S`.

    Attributes:
        decisions: what changed when.
        num_filtered: requests that were kept from the holders of their class.
        last_class: class of the last request, `NO_CLASS` where it has none.
        last_state: what is done about that class.

    Raises:
        ConfigError: a length is out of range.

    Source: arXiv 2603.15202, section 5.2. Ours: the class, the tie (at most), that a request which
    fails the test ends the filter, and a tumbling window's reset; two independent ports chose so.
    """

    def __init__(
        self, is_sliding: bool, class_tokens: int | None = None, window_s: float | None = None
    ) -> None:
        self._class_tokens = CLASS_TOKENS if class_tokens is None else class_tokens
        self._window_s = WINDOW_S if window_s is None else window_s
        refuse_outside("class_tokens", self._class_tokens, 1)
        refuse_not_above("window_s", self._window_s)
        self._is_sliding = is_sliding
        self._arrivals: deque[tuple[float, int]] = deque()
        self._num_arrivals = 0
        self._counts: dict[int, int] = {}
        self._in_a_row: dict[int, int] = {}
        self._state: dict[int, str] = {}
        self._window = 0
        self._class_of: dict[int, int] = {}
        self.decisions: list[HotspotDecision] = []
        self.num_filtered = 0
        self.last_class = NO_CLASS
        self.last_state = CLEAR

    def filtered(
        self, request: Request, matched: Sequence[int], scores: Sequence[float], now_s: float
    ) -> Sequence[int]:
        """Instances that must not get the request.

        Args:
            request: it arrives now.
            matched: its hit on each instance, tokens.
            scores: of each instance, the smallest is best.
            now_s: time of arrival, seconds.
        """
        node = self.last_class = self.class_of(request)
        self.last_state = CLEAR
        self._count(node, now_s)
        if node == NO_CLASS:
            return ()
        holders = [i for i, hit in enumerate(matched) if hit >= self._class_tokens]
        share = self._counts[node] / self._num_arrivals
        if not self._is_alarmed(node, len(holders), len(matched)):
            self._in_a_row.pop(node, None)
            self._enter(node, CLEAR, share, len(holders), now_s)
            return ()
        on = min(scores[i] for i in holders)
        held = set(holders)
        off = min(score for i, score in enumerate(scores) if i not in held)
        in_a_row = self._in_a_row[node] = self._in_a_row.get(node, 0) + 1 if on <= off else 0
        is_filtered = in_a_row >= CONSECUTIVE_PER_HOLDER * len(holders)
        self.num_filtered += is_filtered
        self.last_state = FILTER if is_filtered else ALARM
        self._enter(node, self.last_state, share, len(holders), now_s)
        return holders if is_filtered else ()

    def class_of(self, request: Request) -> int:
        """Class of a request, `NO_CLASS` where it has none."""
        path = request.path
        if not path:
            return NO_CLASS
        last = path[-1]
        node = self._class_of.get(last)
        if node is None:
            ends = zip(path, request.path_end_tokens, strict=True)
            node = next((n for n, end in ends if end >= self._class_tokens), NO_CLASS)
            self._class_of[last] = node
        return node

    def _count(self, node: int, now_s: float) -> None:
        if self._is_sliding:
            oldest_s = now_s - self._window_s
            while self._arrivals and self._arrivals[0][0] <= oldest_s:
                gone = self._arrivals.popleft()[1]
                self._num_arrivals -= 1
                self._counts[gone] -= 1
                if not self._counts[gone]:
                    del self._counts[gone]
            self._arrivals.append((now_s, node))
        else:
            window = int(now_s // self._window_s)
            if window != self._window:
                self._window = window
                self._num_arrivals = 0
                self._counts.clear()
                self._in_a_row.clear()
        self._num_arrivals += 1
        self._counts[node] = self._counts.get(node, 0) + 1

    def _is_alarmed(self, node: int, num_holders: int, num_instances: int) -> bool:
        """x / (1 - x) > |M| / (N - |M|), without dividing."""
        inside = self._counts[node]
        outside = self._num_arrivals - inside
        others = num_instances - num_holders
        if not (outside and num_holders and others):
            return False
        return inside * others > num_holders * outside

    def _enter(self, node: int, event: str, share: float, num_holders: int, now_s: float) -> None:
        if self._state.get(node, CLEAR) != event:
            self._state[node] = event
            self.decisions.append(HotspotDecision(now_s, node, event, share, num_holders))
