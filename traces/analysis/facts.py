"""All facts of one workload together."""

from dataclasses import dataclass

import numpy as np

from sim.workload import Labels, Workload
from traces.analysis.arrivals import Burstiness, burstiness
from traces.analysis.reuse import reuse_ratio
from traces.analysis.reuse_curve import ReuseCurve, reuse_curve
from traces.analysis.sessions import Sessions, sessions_of
from traces.analysis.sharing import SharedPrefix, SharingDepth, top_prefixes
from traces.analysis.spread import Spread


@dataclass(frozen=True, slots=True)
class TraceFacts:
    """What a trace is like.

    Attributes:
        num_requests: how many.
        first_arrival_s: time of the first one, seconds.
        span_s: from the first to the last arrival, seconds.
        is_closed_loop: whether arrivals depend on when other requests end; times are then nominal.
        concurrency: users who send all requests, or None.
        burstiness: of the arrivals.
        prompt_tokens: spread of prompt lengths.
        output_tokens: spread of output lengths.
        total_prompt_tokens: sum of the prompt lengths.
        total_output_tokens: sum of the output lengths.
        reuse_ratio: share of prompt tokens that an earlier request computed.
        curve: the same in whole KV blocks, against the size of the cache.
        shared_tokens: spread of the tokens each prompt shares with any other one.
        path_nodes: spread of the shared nodes on each prompt's path.
        sharing_ratio: share of requests that share anything.
        top_prefixes: the shared beginnings that could save most.
        sessions: conversations, or None.
        tenants: requests of each, most first.
        slo_classes: requests of each, most first.
    """

    num_requests: int
    first_arrival_s: float
    span_s: float
    is_closed_loop: bool
    concurrency: int | None
    burstiness: Burstiness
    prompt_tokens: Spread
    output_tokens: Spread
    total_prompt_tokens: int
    total_output_tokens: int
    reuse_ratio: float
    curve: ReuseCurve
    shared_tokens: Spread
    path_nodes: Spread
    sharing_ratio: float
    top_prefixes: list[SharedPrefix]
    sessions: Sessions | None
    tenants: dict[str, int]
    slo_classes: dict[str, int]


def facts_of(workload: Workload, block_tokens: int = 16) -> TraceFacts:
    """Facts of a valid workload with at least one request.

    Args:
        workload: the trace.
        block_tokens: tokens per KV block of the reuse curve.
    """
    arrival_s = workload.arrival_s
    depth = SharingDepth.of(workload)
    columns = (workload.prompt_tokens, workload.output_tokens, depth.shared_tokens, depth.num_nodes)
    prompt, output, shared, nodes = map(Spread.of, columns)
    assert prompt is not None
    assert output is not None
    assert shared is not None
    assert nodes is not None
    return TraceFacts(
        num_requests=workload.num_requests,
        first_arrival_s=float(arrival_s[0]),
        span_s=float(arrival_s[-1] - arrival_s[0]),
        is_closed_loop=workload.is_closed_loop,
        concurrency=workload.concurrency,
        burstiness=burstiness(arrival_s),
        prompt_tokens=prompt,
        output_tokens=output,
        total_prompt_tokens=int(workload.prompt_tokens.sum()),
        total_output_tokens=int(workload.output_tokens.sum()),
        reuse_ratio=reuse_ratio(workload),
        curve=reuse_curve(workload, block_tokens),
        shared_tokens=shared,
        path_nodes=nodes,
        sharing_ratio=float((depth.shared_tokens > 0).mean()),
        top_prefixes=top_prefixes(workload),
        sessions=sessions_of(workload),
        tenants=_numbers(workload.tenant),
        slo_classes=_numbers(workload.slo_class),
    )


def _numbers(labels: Labels | None) -> dict[str, int]:
    """Requests of each name, most first; rows without a name are left out."""
    if labels is None:
        return {}
    counts = np.bincount(labels.codes[labels.codes >= 0], minlength=len(labels.names))
    order = np.argsort(-counts, kind="stable")
    return {labels.names[code]: int(counts[code]) for code in order.tolist() if counts[code]}
