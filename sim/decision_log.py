"""Every decision of a router, beside what the other instances would have given.

What a request would have found on every instance is asked of the instances themselves at the
instant of the decision, whatever the router sees or believes, so that all routers are told in the
same terms. Asking changes nothing. Nothing of this exists, and nothing is paid, unless a
`ClusterSpec` says `record_decisions`.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite, nan
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from sim.interfaces import ClusterView, Router
from sim.prefix_views import Route
from sim.request import Request

if TYPE_CHECKING:
    from sim.instance import Instance

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

NO_CLASS = -1
STATES = ("clear", "alarm", "filter")
"""What a detector of hotspots does about the class of a request."""


@runtime_checkable
class ScoredRouter(Protocol):
    """A router that gives every instance a score and takes the best.

    Attributes:
        smaller_is_better: which score is best.
    """

    smaller_is_better: ClassVar[bool]

    @property
    def last_scores(self) -> Sequence[float] | None:
        """Scores of its last decision, one per instance; None if that went by something else.

        An instance that was left out has the worst score there is, an infinite one. To be read
        right after the decision: the router or its view may change the list later.
        """
        ...


@runtime_checkable
class FilteringRouter(Protocol):
    """A router that may leave instances out for a class of requests."""

    @property
    def last_class(self) -> int | None:
        """Class of the last request, `NO_CLASS` where it has none; None without a detector."""
        ...

    @property
    def last_state(self) -> str:
        """One of STATES: what was done about that class."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRecords:
    """One row per routed request, in order of decision; "other" instances are the ones not chosen.

    Attributes:
        request_id: row of the workload. Shape (n,), like all columns but one.
        time_s: when it was routed, seconds.
        instance: where it was sent.
        score: the router's score of that instance; NaN where it went by none.
        other_score: best score of another instance; NaN where there is none.
        other_instance: the first one that has it, -1 where there is none.
        hit_tokens: leading prompt tokens in the cache of the chosen instance at that time.
        other_hit_tokens: most of them in the cache of another one; -1 without another one.
        num_requests: requests on the chosen instance, before this one.
        other_num_requests: fewest requests on another one, -1 without another one.
        queued_tokens: tokens waiting to be prefilled on the chosen instance, cached ones included.
        other_queued_tokens: fewest of them on another one, -1 without another one.
        num_better: instances that had a longer hit or fewer requests than the chosen one, and were
            worse in neither.
        hotspot_class: class of the request, -1 where it has none.
        hotspot_state: index into STATES, -1 without a detector or a class.
        scores: all scores, NaN where the router went by none. Shape (n, instances).
        smaller_is_better: which score is best; None for a router without scores.
        has_detector: whether the router has a detector of hotspots.
    """

    request_id: IntArray
    time_s: FloatArray
    instance: IntArray
    score: FloatArray
    other_score: FloatArray
    other_instance: IntArray
    hit_tokens: IntArray
    other_hit_tokens: IntArray
    num_requests: IntArray
    other_num_requests: IntArray
    queued_tokens: IntArray
    other_queued_tokens: IntArray
    num_better: IntArray
    hotspot_class: IntArray
    hotspot_state: IntArray
    scores: FloatArray
    smaller_is_better: bool | None
    has_detector: bool


INT_COLUMNS = (
    *("request_id", "instance", "other_instance"),
    *("hit_tokens", "other_hit_tokens", "num_requests", "other_num_requests"),
    *("queued_tokens", "other_queued_tokens", "num_better"),
    *("hotspot_class", "hotspot_state"),
)
FLOAT_COLUMNS = ("time_s", "score", "other_score", "scores")


class DecisionLog:
    """Notes the decisions of one router.

    Args:
        router: the router.
        loads: live counters of the instances that it chooses from.
    """

    def __init__(self, router: Router, loads: ClusterView) -> None:
        self._scored = router if isinstance(router, ScoredRouter) else None
        self._filtering = router if isinstance(router, FilteringRouter) else None
        self._loads = loads
        self._instances: list[Instance] = []
        self._ints = {name: array("q") for name in INT_COLUMNS}
        self._floats = {name: array("d") for name in FLOAT_COLUMNS}

    def noting(self, route: Route, instances: "Sequence[Instance]") -> Route:
        """The router's decisions, each noted.

        Args:
            route: asks the router.
            instances: of the cluster.
        """
        self._instances = list(instances)

        def route_and_note(request: Request, view: ClusterView, now_s: float) -> int:
            hits = self._hits(request)
            choice = route(request, view, now_s)
            if choice in range(len(self._instances)):  # else it is refused
                self._note(request, int(choice), hits, now_s)
            return choice

        return route_and_note

    def records(self) -> DecisionRecords:
        """All decisions so far."""
        num_instances = max(1, len(self._instances))
        columns: dict[str, Any] = {
            **{name: np.array(column, dtype=np.int64) for name, column in self._ints.items()},
            **{name: np.array(column, dtype=np.float64) for name, column in self._floats.items()},
        }
        columns["scores"] = columns["scores"].reshape(-1, num_instances)
        scored, filtering = self._scored, self._filtering
        return DecisionRecords(
            **columns,
            smaller_is_better=None if scored is None else scored.smaller_is_better,
            has_detector=filtering is not None and filtering.last_class is not None,
        )

    def _hits(self, request: Request) -> list[int]:
        if not request.kv_path:
            return [0] * len(self._instances)
        return [instance.cached_tokens(request) for instance in self._instances]

    def _note(self, request: Request, choice: int, hits: list[int], now_s: float) -> None:
        loads, ints, floats = self._loads, self._ints, self._floats
        ints["request_id"].append(request.request_id)
        ints["instance"].append(choice)
        floats["time_s"].append(now_s)
        self._note_scores(choice)
        columns = {
            "hit_tokens": (hits, max),
            "num_requests": (loads.num_requests, min),
            "queued_tokens": (loads.queued_prefill_tokens, min),
        }
        for name, (values, best) in columns.items():
            others = [*values[:choice], *values[choice + 1 :]]
            ints[name].append(values[choice])
            ints[f"other_{name}"].append(best(others, default=-1))
        hit, size = hits[choice], loads.num_requests[choice]
        ints["num_better"].append(
            sum(
                has >= hit and held <= size and (has > hit or held < size)
                for has, held in zip(hits, loads.num_requests, strict=True)
            )
        )
        node, state = NO_CLASS, -1
        filtering = self._filtering
        if filtering is not None and filtering.last_class not in (None, NO_CLASS):
            assert filtering.last_class is not None
            node, state = filtering.last_class, STATES.index(filtering.last_state)
        ints["hotspot_class"].append(node)
        ints["hotspot_state"].append(state)

    def _note_scores(self, choice: int) -> None:
        ints, floats = self._ints, self._floats
        scores = None if self._scored is None else self._scored.last_scores
        if self._scored is None or scores is None:
            floats["score"].append(nan)
            floats["other_score"].append(nan)
            ints["other_instance"].append(-1)
            floats["scores"].extend([nan] * len(self._instances))
            return
        floats["scores"].extend(scores)
        floats["score"].append(scores[choice])
        sign = 1 if self._scored.smaller_is_better else -1
        best, other = inf, -1
        for i, score in enumerate(scores):
            if i != choice and sign * score < best:
                best, other = sign * score, i
        floats["other_score"].append(sign * best if isfinite(best) else nan)
        ints["other_instance"].append(other)
