"""The replications of a job: runs that differ in their draws alone, and their means."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from experiments.deployment import Deployment
from experiments.results.executor_metrics import executor_metrics
from experiments.results.flags import Flag, flags_of
from experiments.results.instances import instance_metrics
from experiments.results.iterations import iteration_metrics
from experiments.results.routing import decision_table, hotspot_metrics, routing_summary
from experiments.results.tables import request_table, step_table
from experiments.results.warmup import warmup_flags
from experiments.schema.job import JobConfig
from sim.cost_totals import CostTotals
from sim.front_end_records import user_view
from sim.inter_token import FloatArray, IntArray, token_gaps
from sim.metrics import Metrics, counted_requests, summarize
from sim.records import SimulationResult
from sim.system_size import regime_of

REGIMES = ("stable", "closed_loop", "backlogged", "overloaded")
"""From the one whose averages say most to the one whose averages say least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replication:
    """Figures and tables of one replication; its records themselves are not kept.

    Attributes:
        number: 0 for the first.
        seed: seed of all its draws.
        regime: None if it was interrupted or finished nothing.
        metrics: as in result.json.
        flags: what a reader must know of it.
        costs: cost terms summed over the instances.
        gaps_s: lengths of the inter-token gaps, seconds. Shape (k,).
        gap_counts: how many gaps have each length. Shape (k,).
        requests: rows of requests.parquet (`pyarrow.Table`).
        steps: rows of steps.parquet, None if they were not asked for.
        is_interrupted: whether the user stopped it.
        decisions: rows of decisions.parquet, None if they were not asked for.
        routing: what they say of the router, None likewise.
        instances: figures of each instance.
    """

    number: int
    seed: int
    regime: str | None
    metrics: Metrics
    flags: list[Flag]
    costs: CostTotals
    gaps_s: FloatArray
    gap_counts: IntArray
    requests: Any
    steps: Any
    is_interrupted: bool
    decisions: Any = None
    routing: Metrics | None = None
    instances: list[Metrics] = field(default_factory=list)


def replication_of(
    number: int, job: JobConfig, deployment: Deployment, result: SimulationResult
) -> Replication:
    """Reduce the records of a run to what is written.

    Args:
        number: which replication it is, from 0.
        job: its configuration, with its own seed.
        deployment: what served.
        result: the records.
    """
    is_counted = counted_requests(result, job.warmup_s, job.warmup_requests)
    seen = user_view(result)
    gaps_s, gap_counts = token_gaps(seen, is_counted)
    decisions = result.decisions
    figures = summarize(
        result,
        slo_ttft_s=job.slo.ttft_s,
        slo_tpot_s=job.slo.tpot_s,
        is_counted=is_counted,
    )
    is_telling = bool(result.requests.is_completed.any()) and not result.is_interrupted
    return Replication(
        number=number,
        seed=job.seed,
        regime=regime_of(seen) if is_telling else None,
        metrics={
            **figures,
            **executor_metrics(result, deployment, figures),
            **hotspot_metrics(deployment.spec.router),
            **iteration_metrics(result, deployment),
        },
        flags=[
            *flags_of(result, deployment, job.trace_options),
            *warmup_flags(is_counted),
        ],
        costs=result.costs,
        gaps_s=gaps_s,
        gap_counts=gap_counts,
        requests=request_table(result),
        steps=step_table(result, deployment) if job.output.steps else None,
        decisions=None if decisions is None else decision_table(decisions),
        routing=(
            None
            if decisions is None
            else routing_summary(decisions, result.workload.prompt_tokens, is_counted)
        ),
        instances=instance_metrics(result, is_counted),
        is_interrupted=result.is_interrupted,
    )


def mean_metrics(replications: Sequence[Replication]) -> Metrics:
    """Mean of every metric over the replications; None where one of them has none."""
    return _means([one.metrics for one in replications])


def mean_costs(replications: Sequence[Replication]) -> Metrics:
    """Mean of every cost term over the replications; seconds, bytes and FLOPs of all instances."""
    return _means([asdict(one.costs) for one in replications])


def mean_instances(replications: Sequence[Replication]) -> list[Metrics]:
    """Mean of the figures of every instance over the replications, with its number."""
    rows = zip(*(one.instances for one in replications), strict=True)
    return [{"instance": index, **_means(of_one)} for index, of_one in enumerate(rows)]


def mean_routing(replications: Sequence[Replication]) -> Metrics | None:
    """Mean of what the decisions say over the replications; None if nobody asked."""
    found = [one.routing for one in replications if one.routing is not None]
    return _means(found) if found else None


def worst_regime(replications: Sequence[Replication]) -> str | None:
    """The regime whose averages say least; None if one replication has none."""
    found = [one.regime for one in replications]
    known = [regime for regime in found if regime is not None]
    return max(known, key=REGIMES.index) if len(known) == len(found) else None


def merged_flags(replications: Sequence[Replication]) -> list[Flag]:
    """Flags of the first replication, then those that only later ones have, with their number."""
    flags = list(replications[0].flags)
    for one in replications[1:]:
        known = {(flag["flag"], flag.get("kernel")) for flag in flags}
        flags += [
            {
                **flag,
                "replication": one.number,
                "text": f"{flag['text']} (replication {one.number})",
            }
            for flag in one.flags
            if (flag["flag"], flag.get("kernel")) not in known
        ]
    return flags


def pooled_gaps(replications: Sequence[Replication]) -> tuple[FloatArray, IntArray]:
    """Inter-token gaps of all replications: (seconds, how many have this length)."""
    return (
        np.concatenate([one.gaps_s for one in replications]),
        np.concatenate([one.gap_counts for one in replications]),
    )


def replications_document(replications: Sequence[Replication]) -> list[dict[str, Any]] | None:
    """`replications` of result.json: None for a single run, whose figures are the job's."""
    if len(replications) == 1:
        return None
    return [
        {
            "replication": one.number,
            "seed": one.seed,
            "regime": one.regime,
            "metrics": dict(one.metrics),
        }
        for one in replications
    ]


def _means(rows: Sequence[Mapping[str, float | int | None]]) -> Metrics:
    return {name: _mean([row[name] for row in rows]) for name in rows[0]}


def _mean(values: Sequence[float | int | None]) -> float | int | None:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    if all(value == known[0] for value in known):
        return known[0]  # a count that never varies stays a whole number
    return float(sum(known)) / len(known)
