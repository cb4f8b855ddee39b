"""`trace.load`: the rate of arrivals as a share of the flood throughput of a cluster.

The reference is one and the same for all policies: the cluster, model, engine and trace of the
job, everything at once, under fewest requests first and otherwise default policies.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from experiments.capacity.flood import Flood, flood_of
from experiments.capacity.flood_cache import cached
from experiments.deployment import build_deployment
from experiments.progress import Progress
from experiments.results.documents import shown_config
from experiments.results.job_key import job_key
from experiments.schema.job import JobConfig, read_job
from sim.errors import ConfigError
from traces.options import MAX_RATE, MIN_RATE

ShowProgress = Callable[[int, str], AbstractContextManager[Progress | None]]

REFERENCE = {
    "routing": "least_requests",
    "batching": "fcfs",
    "eviction": "lru",
    "admission": "always",
}
"""Policies under which a flood is measured."""

_DECODE_REFERENCE = {"decode_routing": "routing", "decode_batching": "batching"}
"""Policies of a decode side, by the group whose reference they take."""

_PLAIN_HAND_OVER = {
    "transfer": "after_prefill",
    "feeder": None,
    "host_pool_bytes": None,
    "prefill_buffer_bytes": None,
}
"""How KV caches reach a decode side while a flood is measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedLoad:
    """How a load became a rate.

    Attributes:
        load: share of the flood throughput.
        flood_rate_per_s: flood throughput, requests per second.
        does_drain_dominate: the flood is too short to have a steady part, so that its throughput
            includes the drain and the load is in truth lower.
        offered_rate_per_s: load times flood throughput.
        rate_scale: factor that gives the trace this rate.
    """

    load: float
    flood_rate_per_s: float
    does_drain_dominate: bool
    offered_rate_per_s: float
    rate_scale: float


def offered_load(
    job: JobConfig, config: Mapping[str, Any], show_progress: ShowProgress
) -> OfferedLoad:
    """The rate that `trace.load` stands for.

    Args:
        job: a job with a load.
        config: its configuration in plain containers.
        show_progress: shows the flood while it runs.

    Raises:
        ConfigError: the trace has no rate, or the flood finishes nothing.
    """
    assert job.load is not None
    flood = _reference_flood(config, show_progress)
    if flood.trace_rate_per_s is None:
        raise ConfigError(
            f"trace.load={job.load:g}: all requests of this trace arrive at once or when others "
            "end, so it has no rate that could be scaled; leave it out"
        )
    if flood.flood_rate_per_s is None:
        raise ConfigError(f"trace.load={job.load:g}: not one request fits into this cluster")
    offered_per_s = job.load * flood.flood_rate_per_s
    rate_scale = offered_per_s / flood.trace_rate_per_s
    if not MIN_RATE <= rate_scale <= MAX_RATE:
        raise ConfigError(
            f"trace.load={job.load:g}: the rate of this trace would be scaled by {rate_scale:.3g}, "
            f"must be >= {MIN_RATE:g} and <= {MAX_RATE:g}"
        )
    return OfferedLoad(
        load=job.load,
        flood_rate_per_s=flood.flood_rate_per_s,
        does_drain_dominate=flood.does_drain_dominate,
        offered_rate_per_s=offered_per_s,
        rate_scale=rate_scale,
    )


def _reference_flood(config: Mapping[str, Any], show_progress: ShowProgress) -> Flood:
    reference = reference_config(config)
    job = read_job(reference)
    deployment = build_deployment(job)
    key = job_key(job, deployment, shown_config(reference, REFERENCE, deployment))
    return cached(key, lambda: flood_of(job, deployment, show_progress))


def reference_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of the reference: everything that does not change its flood is fixed."""
    trace = {**config["trace"], "rate_scale": 1.0, "load": None, "flood": True}
    for name in ("warmup_s", "warmup_requests"):
        trace.pop(name, None)
    return {
        **config,
        **{group: _packaged(group, option) for group, option in REFERENCE.items()},
        "cluster": _reference_cluster(config["cluster"]),
        "trace": trace,
        "slo": {"ttft_s": 1.0, "tpot_s": 1.0},
        "output": {"steps": False, "timeline": False, "decisions": False},
        "check": False,
        "replications": 1,
    }


def _reference_cluster(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """The same cluster with reference policies on its decode side, where it has one."""
    decode = {
        key: {"_target_": _packaged(group, REFERENCE[group])["_target_"]}
        for key, group in _DECODE_REFERENCE.items()
        if key in cluster
    }
    return {**cluster, **decode, **(_PLAIN_HAND_OVER if decode else {})}


def _packaged(group: str, option: str) -> dict[str, Any]:
    """A packaged option, with the keys that all options of its group have."""
    from importlib.resources import files

    from omegaconf import OmegaConf

    folder = files("experiments.conf")
    common: Any = OmegaConf.create((folder / "config.yaml").read_text(encoding="utf-8"))
    own = OmegaConf.create((folder / group / f"{option}.yaml").read_text(encoding="utf-8"))
    merged: Any = OmegaConf.to_container(OmegaConf.merge(common.get(group, {}), own))
    return dict(merged)
