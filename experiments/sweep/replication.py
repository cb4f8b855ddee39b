"""Replications: the same job with other draws, the same ones for every policy."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from experiments.schema.cluster import RoleConfig
from experiments.schema.job import JobConfig
from experiments.schema.plugin import Plugin
from sim.workload import Workload
from traces.build import build_workload


def replication_seed(seed: int, replication: int) -> int:
    """Seed of a replication: `seed` itself for the first, else 63 bits derived from both."""
    if replication == 0:
        return seed
    (word,) = np.random.SeedSequence([seed, replication]).generate_state(1, np.uint64)
    return int(word) >> 1


def replicated(job: JobConfig, replication: int) -> JobConfig:
    """The job with the seeds of one replication, its policies' options called `seed` included."""
    if replication == 0:
        return job
    return replace(
        job,
        seed=replication_seed(job.seed, replication),
        engine=_reseeded(job.engine, replication),
        batching=_reseeded(job.batching, replication),
        routing=_reseeded(job.routing, replication),
        eviction=_reseeded(job.eviction, replication),
        admission=_reseeded(job.admission, replication),
        roles=None if job.roles is None else _reseeded_roles(job.roles, replication),
    )


def load_workload(job: JobConfig, replication: int = 0) -> Workload:
    """Read or generate the trace of a replication; stretches of a recording are drawn anew.

    Args:
        job: the configuration, with the replication's seed.
        replication: which one it is, from 0.

    Raises:
        TraceFormatError: the file breaks its format.
        ConfigError: an option is out of range, or nothing is left.
    """
    workload = build_workload(
        job.trace.build(), seed=job.seed, replication=replication, **asdict(job.trace_options)
    )
    return at_once(workload) if job.flood else workload


def at_once(workload: Workload) -> Workload:
    """The same requests in the same order, all at time 0; none waits for another to end."""
    return replace(
        workload,
        arrival_s=np.zeros_like(workload.arrival_s),
        after=None,
        delay_s=None,
        concurrency=None,
    )


def _reseeded_roles(roles: RoleConfig, replication: int) -> RoleConfig:
    return replace(
        roles,
        decode_routing=_reseeded(roles.decode_routing, replication),
        decode_batching=_reseeded(roles.decode_batching, replication),
        feeder=None if roles.feeder is None else _reseeded(roles.feeder, replication),
    )


def _reseeded(plugin: Plugin, replication: int) -> Plugin:
    options: Mapping[str, Any] = plugin.options
    seed = options.get("seed")
    if not isinstance(seed, int):
        return plugin
    return replace(plugin, options={**options, "seed": replication_seed(seed, replication)})
