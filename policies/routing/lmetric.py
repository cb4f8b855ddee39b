"""LMETRIC: prefill work times batch size."""

from collections.abc import Sequence
from math import inf
from operator import add
from typing import ClassVar

import numpy as np

from policies.routing.first_minimum import first_minimum, first_minimum_of_array
from policies.routing.hotspot import CLEAR, HotspotDetector
from policies.routing.option_checks import refuse_unknown_choice, refuse_unread
from sim.interfaces import ClusterView, Router
from sim.load_arrays import IntArray, LoadArrays
from sim.request import Request

PREFILL = ("tokens", "miss_ratio")
LOADS = ("requests", "tokens")
HOTSPOTS = ("off", "sliding", "tumbling")


class LMetric(Router):
    """argmin_i P_i * (B_i + 1); ties: first instance after the last choice.

    P_i = tokens queued for prefill on i, less those that were found cached when they were sent
          + prompt tokens of the request less its hit on i; at least 1, as a hit never covers the
          last prompt token.
    B_i = running + waiting requests on i. The 1 is the request itself: without it all idle
          instances score 0, whatever they have cached.

    Variants, for the ablation of the indicators:
    * `plus_one=False`: P_i * B_i.
    * `prefill=miss_ratio`: P_i = 1 - hit / prompt tokens of the request; the queue is not seen.
    * `load=tokens`: B_i = tokens on i, held by running requests or still to be prefilled.

    Args:
        prefill: "tokens" or "miss_ratio".
        load: "requests" or "tokens".
        plus_one: whether the request counts itself.
        hotspot: "off", or the window of the hotspot detector: "sliding" or "tumbling".
        class_tokens: depth of the node that names a request's class, tokens; null is 1,024.
        window_s: length of the detector's window, seconds; null is 60.

    Raises:
        ConfigError: an option is unknown, out of range or not read.

    Source: arXiv 2603.15202, section 4 (rule, Figs. 17-19) and 5.2 (detector); the +1 and the
    hits of waiting requests as in its router (blitz-router, router/src/metrics.rs).
    """

    uses_prefix_match = True
    smaller_is_better: ClassVar[bool] = True

    def __init__(
        self,
        prefill: str = "tokens",
        load: str = "requests",
        plus_one: bool = True,
        hotspot: str = "off",
        class_tokens: int | None = None,
        window_s: float | None = None,
    ) -> None:
        refuse_unknown_choice("prefill", prefill, PREFILL)
        refuse_unknown_choice("load", load, LOADS)
        refuse_unknown_choice("hotspot", hotspot, HOTSPOTS)
        self._is_plain = (prefill, load) == ("tokens", "requests")
        self._uses_ratio = prefill == "miss_ratio"
        self._uses_tokens = load == "tokens"
        self._own = 1 if plus_one else 0
        self.tie_start = 0
        self._scores: Sequence[float] | IntArray | None = None
        self.detector: HotspotDetector | None = None
        if hotspot == "off":
            unread = {"class_tokens": class_tokens, "window_s": window_s}
            refuse_unread(unread, "routing.hotspot=off")
        else:
            self.detector = HotspotDetector(hotspot == "sliding", class_tokens, window_s)

    @property
    def last_scores(self) -> Sequence[float] | None:
        """Scores of the last decision."""
        scores = self._scores
        return scores.tolist() if isinstance(scores, np.ndarray) else scores

    @property
    def last_class(self) -> int | None:
        """Class of the last request, -1 where it has none; None without a detector."""
        return None if self.detector is None else self.detector.last_class

    @property
    def last_state(self) -> str:
        """What the detector did about that class: "clear", "alarm" or "filter"."""
        return CLEAR if self.detector is None else self.detector.last_state

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        """Instance with the smallest product."""
        if self._is_plain and self.detector is None:
            arrays = cluster.load_arrays()
            if arrays is not None:
                return self._route_by_arrays(request, arrays)
        matched = cluster.matched_tokens(request)
        own = self._own
        scores: list[float]
        if self._is_plain:
            prompt = request.prompt_tokens
            scores = [
                (queued - hits + prompt - hit) * (size + own)
                for queued, hits, hit, size in zip(
                    cluster.queued_prefill_tokens,
                    cluster.queued_hit_tokens,
                    matched,
                    cluster.num_requests,
                    strict=True,
                )
            ]
        else:
            work, loads = self._work(request, cluster, matched), self._load(cluster)
            scores = [w * (size + own) for w, size in zip(work, loads, strict=True)]
        if self.detector is not None:
            filtered = self.detector.filtered(request, matched, scores, now_s)
            for i in filtered:
                scores[i] = inf
        self._scores = scores
        choice = first_minimum(scores, self.tie_start)
        self.tie_start = choice + 1
        return choice

    def _route_by_arrays(self, request: Request, arrays: LoadArrays) -> int:
        """The same on arrays: all instances at once, then those which hold more than the others."""
        base, more = arrays.match(request)
        own, prompt, scores = self._own, request.prompt_tokens, arrays.scratch
        expected, sizes = arrays.expected_tokens, arrays.num_requests
        np.add(expected, prompt - base, out=scores)
        np.multiply(scores, sizes + own if own else sizes, out=scores)
        for i, hit in more.items():
            scores[i] = (expected.item(i) + prompt - hit) * (sizes.item(i) + own)
        self._scores = scores
        choice = first_minimum_of_array(scores, self.tie_start)
        self.tie_start = choice + 1
        return choice

    def _work(
        self, request: Request, cluster: ClusterView, matched: Sequence[int]
    ) -> Sequence[float]:
        prompt = request.prompt_tokens
        if self._uses_ratio:
            return [1 - hit / prompt for hit in matched]
        queued, hits = cluster.queued_prefill_tokens, cluster.queued_hit_tokens
        columns = zip(queued, hits, matched, strict=True)
        return [queue - found + prompt - hit for queue, found, hit in columns]

    def _load(self, cluster: ClusterView) -> Sequence[int]:
        if self._uses_tokens:
            return list(map(add, cluster.kv_tokens(), cluster.queued_prefill_tokens))
        return cluster.num_requests
