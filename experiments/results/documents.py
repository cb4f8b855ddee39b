"""result.json and run.json as nested mappings in a fixed key order."""

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from experiments.deployment import Deployment
from experiments.results.flags import flags_of
from experiments.results.job_key import (
    foreign_sources,
    sha256_of,
    sources_sha256,
    without_paths,
)
from experiments.schema.job import JobConfig
from sim.metrics import summarize
from sim.records import SimulationResult
from sim.system_size import regime_of

SCHEMA_VERSION = 1

_VERSIONS_OF = ("flocksim", "numpy", "simpy")


def shown_config(
    config: Mapping[str, Any], choices: Mapping[str, str], deployment: Deployment | None
) -> dict[str, Any]:
    """The configuration without paths: the chosen options, then every value.

    Engine sizes left to the engine's defaults appear as what they became.
    """
    shown = without_paths(config)
    if deployment is not None:
        shown["engine"] = {**shown["engine"], **asdict(deployment.sizes)}
    return {"choices": dict(sorted(choices.items())), **{key: shown[key] for key in sorted(shown)}}


def versions() -> dict[str, str]:
    """Versions of what a result depends on."""
    return {"python": platform.python_version(), **{name: version(name) for name in _VERSIONS_OF}}


def result_document(
    result: SimulationResult, deployment: Deployment, job: JobConfig, shown: Mapping[str, Any]
) -> dict[str, Any]:
    """result.json of a job that ran, to its end or to an interruption."""
    provenance = _provenance(result, deployment, job)
    key = {
        "config": shown,
        "seed": job.seed,
        "trace": provenance["trace"],
        "hardware": provenance["hardware"]["sha256"],
        "model": provenance["model"]["sha256"],
        "sources": provenance["sources_sha256"],
        "plugins": provenance["plugins_sha256"],
    }
    return {
        "schema_version": SCHEMA_VERSION,
        "status": "interrupted" if result.is_interrupted else "ok",
        "regime": _regime(result),
        "config": shown,
        "job_key": sha256_of(key),
        "seed": job.seed,
        "versions": versions(),
        "provenance": provenance,
        "flags": flags_of(result, deployment, job.trace_options),
        "metrics": summarize(result, slo_ttft_s=job.slo.ttft_s, slo_tpot_s=job.slo.tpot_s),
    }


def _regime(result: SimulationResult) -> str | None:
    """Regime of a run that was not cut short and finished something."""
    is_telling = bool(result.requests.is_completed.any()) and not result.is_interrupted
    return regime_of(result) if is_telling else None


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
    }


def _provenance(result: SimulationResult, deployment: Deployment, job: JobConfig) -> dict[str, Any]:
    device, shape, capacity = deployment.device, deployment.shape, deployment.capacity
    trace = dict(result.workload.provenance)
    sizes = {key: value for key, value in asdict(shape).items() if key not in ("name", "source")}
    return {
        "trace": {**trace, "num_requests": result.workload.num_requests},
        "hardware": {
            "name": device.name,
            "title": device.title,
            "date": device.date,
            "sha256": sha256_of(asdict(device)),
            "fidelity": job.hardware.fidelity,
        },
        "model": {"name": shape.name, "source": shape.source, "sha256": sha256_of(sizes)},
        "kv_capacity": None if capacity is None else asdict(capacity),
        "sources_sha256": sources_sha256(),
        "plugins_sha256": foreign_sources(job.plugins),
    }
