"""result.json and run.json as nested mappings in a fixed key order."""

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

from experiments.deployment import Deployment
from experiments.kv_tiers import shown_tiers
from experiments.results.gpu_time import with_gpu_metrics
from experiments.results.job_key import (
    device_sha256,
    foreign_sources,
    shape_sha256,
    sources_sha256,
    without_paths,
)
from experiments.results.replications import (
    Replication,
    mean_costs,
    mean_instances,
    mean_metrics,
    mean_routing,
    merged_flags,
    replications_document,
    worst_regime,
)
from experiments.schema.job import JobConfig
from hwmodels.calibrated import CalibratedCost
from hwmodels.device import DeviceSpec
from sim.compiled import form_in_use

SCHEMA_VERSION = 1

_VERSIONS_OF = ("flocksim", "numpy", "simpy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a job is, whatever its run gives.

    Attributes:
        job: its configuration.
        shown: the same as it appears in result.json.
        job_key: equal keys mean equal results.
        trace: provenance of its requests (of the first replication).
        offered_load: how `trace.load` became a rate, None where it is not given.
    """

    job: JobConfig
    shown: Mapping[str, Any]
    job_key: str
    trace: Mapping[str, Any]
    offered_load: Mapping[str, float] | None = None


def shown_config(
    config: Mapping[str, Any], choices: Mapping[str, str], deployment: Deployment | None
) -> dict[str, Any]:
    """The configuration without paths: the chosen options, then every value.

    What was left to the engine or to a default appears as what it became: sizes, the attention
    kernel, the constants of a front end and of the scheduler, the tiers behind the prefix caches.
    """
    shown = without_paths(config)
    if deployment is not None:
        shown["engine"] = {**shown["engine"], **asdict(deployment.sizes)}
        if isinstance(deployment.gpu_cost, CalibratedCost):
            shown["kernel"] = asdict(deployment.gpu_cost.kernel)
        if deployment.spec.front_end is not None:
            shown["frontend"] = {**shown["frontend"], **asdict(deployment.spec.front_end)}
        if deployment.spec.scheduler is not None:
            shown["scheduler"] = {**shown["scheduler"], **asdict(deployment.spec.scheduler)}
        if deployment.spec.tiers is not None:
            num_gpus = shown["cluster"]["tensor_parallel"]
            tiers = shown_tiers(deployment.spec.tiers, num_gpus)
            shown["kv_tiers"] = {**shown["kv_tiers"], **tiers}
    return {"choices": dict(sorted(choices.items())), **{key: shown[key] for key in sorted(shown)}}


def versions() -> dict[str, str]:
    """Versions of what a result depends on."""
    return {"python": platform.python_version(), **{name: version(name) for name in _VERSIONS_OF}}


def result_document(
    identity: Identity, deployment: Deployment, replications: Sequence[Replication]
) -> dict[str, Any]:
    """result.json of a job that ran, to its end or to an interruption."""
    is_interrupted = any(one.is_interrupted for one in replications)
    replications = [with_gpu_metrics(one, deployment.spec) for one in replications]
    return {
        "schema_version": SCHEMA_VERSION,
        "status": "interrupted" if is_interrupted else "ok",
        "regime": worst_regime(replications),
        "config": identity.shown,
        "job_key": identity.job_key,
        "seed": identity.job.seed,
        "versions": versions(),
        "provenance": _provenance(identity, deployment),
        "flags": merged_flags(replications),
        "metrics": mean_metrics(replications),
        "replications": replications_document(replications),
        "cost_totals": mean_costs(replications),
        "offered_load": identity.offered_load,
        "instances": mean_instances(replications),
        "routing": mean_routing(replications),
    }


def failure_document(status: str, message: str, shown: Mapping[str, Any]) -> dict[str, Any]:
    """result.json of a job that could not run; `status` is infeasible or failed."""
    return {
        "schema_version": SCHEMA_VERSION,
        "status": status,
        "error": message,
        "regime": None,
        "config": shown,
        "job_key": None,
        "seed": shown.get("seed"),
        "versions": versions(),
        "provenance": {"sources_sha256": sources_sha256()},
        "flags": [],
        "metrics": None,
    }


def run_document(overrides: Sequence[str], wall_s: Mapping[str, float]) -> dict[str, Any]:
    """run.json: what differs between two runs of the same job."""
    return {
        "schema_version": SCHEMA_VERSION,
        "overrides": list(overrides),
        "argv": list(sys.argv),
        "wall_s": dict(wall_s),
        "host": {
            "name": platform.node(),
            "platform": platform.platform(),
            "machine": platform.machine(),
            "num_cpus": os.cpu_count(),
        },
        "python": sys.version,
        "engine": form_in_use(),
    }


def kernel_sources(device: DeviceSpec) -> dict[str, dict[str, Any]]:
    """Where the calibrated kernels of a device come from, and their error on held-out shapes."""
    return {
        name: {
            "source": one.source,
            "num_rows": one.num_rows,
            "heldout_mape": one.heldout_mape,
            "is_extrapolated": one.is_extrapolated,
        }
        for name, one in device.kernels.provenance.items()
    }


def _provenance(identity: Identity, deployment: Deployment) -> dict[str, Any]:
    device, shape, capacity = deployment.device, deployment.shape, deployment.capacity
    fidelity = identity.job.hardware.fidelity
    return {
        "trace": identity.trace,
        "hardware": {
            "name": device.name,
            "title": device.title,
            "date": device.date,
            "sha256": device_sha256(device, fidelity),
            "fidelity": fidelity,
            "kernels": None if fidelity == "roofline" else kernel_sources(device),
        },
        "model": {"name": shape.name, "source": shape.source, "sha256": shape_sha256(shape)},
        "kv_capacity": None if capacity is None else asdict(capacity),
        "sources_sha256": sources_sha256(),
        "plugins_sha256": foreign_sources(identity.job.plugins),
    }
