"""Rows of decisions.parquet and what result.json says of a router: its regret, and its hotspots."""

from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from experiments.results.tables import column, name_column, table_of
from policies.routing.hotspot import ALARM, FILTER, HotspotDetector
from sim.decision_log import STATES, DecisionRecords
from sim.metrics import BoolArray, FloatArray, Metrics


@runtime_checkable
class DetectsHotspots(Protocol):
    """A router that may have a detector of hotspots.

    Attributes:
        detector: None where it is off.
    """

    detector: HotspotDetector | None


def hotspot_metrics(router: object) -> Metrics:
    """What a detector of hotspots did; None where the router has none or it is off."""
    detector = router.detector if isinstance(router, DetectsHotspots) else None
    if detector is None:
        return dict.fromkeys(
            ("num_hotspot_alarms", "num_hotspot_filters", "num_hotspot_filtered_requests")
        )
    events = [decision.event for decision in detector.decisions]
    return {
        "num_hotspot_alarms": events.count(ALARM),
        "num_hotspot_filters": events.count(FILTER),
        "num_hotspot_filtered_requests": detector.num_filtered,
    }


def routing_summary(
    records: DecisionRecords, prompt_tokens: npt.NDArray[np.int64], is_counted: BoolArray
) -> Metrics:
    """What the best other instance would have given, over the decisions that count.

    First in terms of every router: hits and loads as they were at the instants of the decisions.
    What was given up is the excess of the best other instance, 0 where the chosen one was as good;
    no instance need have offered it all. Then by the router's own score.

    Args:
        records: the decisions.
        prompt_tokens: of the workload. Shape (requests,).
        is_counted: requests that count. Shape (requests,).
    """
    rows = np.flatnonzero(is_counted[records.request_id])
    num = len(rows)
    prompts = int(prompt_tokens[records.request_id[rows]].sum())
    has_other = records.other_num_requests[rows] >= 0
    hits = _excess(records.other_hit_tokens[rows], records.hit_tokens[rows])
    requests = _excess(records.num_requests[rows], records.other_num_requests[rows]) * has_other
    queued = _excess(records.queued_tokens[rows], records.other_queued_tokens[rows]) * has_other
    return {
        "num_decisions": num,
        "longer_hit_elsewhere_ratio": _ratio(_count(hits), num),
        "hit_tokens_given_up_mean_tokens": _ratio(int(hits.sum()), num),
        "hit_tokens_given_up_ratio": _ratio(int(hits.sum()), prompts),
        "fewer_requests_elsewhere_ratio": _ratio(_count(requests), num),
        "excess_requests_mean": _ratio(int(requests.sum()), num),
        "fewer_queued_tokens_elsewhere_ratio": _ratio(_count(queued), num),
        "excess_queued_mean_tokens": _ratio(int(queued.sum()), num),
        "dominated_choice_ratio": _ratio(_count(records.num_better[rows]), num),
        **_own_scores(records, rows),
    }


def _own_scores(records: DecisionRecords, rows: npt.NDArray[np.intp]) -> Metrics:
    """How the best other score compares with that of the choice, where both are known."""
    score, other = records.score[rows], records.other_score[rows]
    is_known = np.isfinite(score) & np.isfinite(other)
    score, other = score[is_known], other[is_known]
    num = len(score)
    sign = -1.0 if records.smaller_is_better else 1.0
    is_better = sign * other > sign * score
    size = np.maximum(np.abs(score), np.abs(other))
    margin: FloatArray = np.abs(other - score) / np.where(size > 0, size, 1.0)
    return {
        "num_scored_decisions": num,
        "tied_score_ratio": _ratio(_count(other == score), num),
        "better_score_elsewhere_ratio": _ratio(_count(is_better), num),
        "score_margin_mean_ratio": float(margin.mean()) if num else None,
        "score_margin_p50_ratio": float(np.median(margin)) if num else None,
    }


def _excess(more: npt.NDArray[np.int64], less: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    excess: npt.NDArray[np.int64] = np.maximum(more - less, 0)
    return excess


def _count(values: npt.NDArray[Any]) -> int:
    """Values that are not 0."""
    return int(np.count_nonzero(values))


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None


def decision_table(records: DecisionRecords) -> Any:
    """Table of the decisions, in their order (`pyarrow.Table`)."""
    is_scored = ~np.isnan(records.score)
    is_alone = records.other_num_requests < 0
    columns: dict[str, Any] = {
        "request_id": column(records.request_id),
        "time_s": column(records.time_s),
        "instance": column(records.instance),
        "score": column(records.score, ~is_scored),
        "other_score": column(records.other_score, np.isnan(records.other_score)),
        "other_instance": column(records.other_instance, records.other_instance < 0),
    }
    for name in ("hit_tokens", "num_requests", "queued_tokens"):
        columns[name] = column(getattr(records, name))
        columns[f"other_{name}"] = column(getattr(records, f"other_{name}"), is_alone)
    columns["num_better"] = column(records.num_better)
    columns["hotspot_class"] = column(records.hotspot_class, records.hotspot_class < 0)
    columns["hotspot_state"] = name_column(records.hotspot_state, STATES)
    columns["scores"] = _list_column(records.scores, is_scored)
    return table_of(columns)


def _list_column(values: FloatArray, is_valid: BoolArray) -> Any:
    """A column of lists, one per row, null where it is not valid (`pyarrow.ListArray`)."""
    import pyarrow as pa

    items = column(np.ascontiguousarray(values[is_valid]).ravel())
    lengths = np.where(is_valid, values.shape[1], 0)
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int32)
    valid = None
    if not is_valid.all():
        valid = pa.py_buffer(np.packbits(is_valid, bitorder="little").tobytes())
    kind = pa.list_(pa.float64())
    buffers = [valid, pa.py_buffer(offsets)]
    return pa.Array.from_buffers(kind, len(is_valid), buffers, children=[items])
