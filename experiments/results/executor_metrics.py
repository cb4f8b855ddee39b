"""What the executor of a run reserved and moved, and how long its slowest steps took.

Figures of the machine: over the whole run and all instances. What the executor does not have, such
as transfer groups without a staging buffer, is None.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.deployment import Deployment
from experiments.results.decode_lengths import sampled_decode_steps
from hwmodels.calibrated import CalibratedCost
from hwmodels.iteration_bubbles import FAMILIES, bubbles_s, families_of
from sim.metrics import Metrics
from sim.records import FloatArray, SimulationResult

STEP_PERCENTILES = {"step_p50_s": 50.0, "step_p99_s": 99.0, "step_p999_s": 99.9}
"""Percentiles of the durations of steps, every step counted once."""

_OF_RECORDS = (
    "commit_time_ratio",
    "transfer_groups_mean",
    "transfer_groups_max",
    "fragmentation_mean_ratio",
    "fragmentation_max_ratio",
    "num_graph_switches",
)


def executor_metrics(result: SimulationResult, deployment: Deployment, metrics: Metrics) -> Metrics:
    """Figures of the executor.

    Args:
        result: the records.
        deployment: what served.
        metrics: figures of the run, among them `kv_usage_mean_ratio`.

    Returns:
        `step_*_s`; `kv_reserved_mean_bytes`: KV memory of one GPU that nobody else could use, mean
        over time and instances; those of `_OF_RECORDS`; and iteration bubbles.
    """
    found: Metrics = _step_times(result)
    usage = metrics["kv_usage_mean_ratio"]
    reserved = None
    if usage is not None and result.handover is None:  # else the pools differ
        used_blocks = np.array([usage * (deployment.spec.num_gpu_blocks - 1)])
        reserved = float(
            deployment.fitting.reserved_bytes(used_blocks, block_bytes_of(deployment))[0]
        )
    found["kv_reserved_mean_bytes"] = reserved
    return {**found, **_of_records(result), **_bubbles(result, deployment)}


def executor_columns(
    result: SimulationResult, deployment: Deployment, index: int
) -> dict[str, npt.NDArray[Any]]:
    """Columns of steps.parquet about the executor of an instance. Shape (runs,) each."""
    used_blocks = result.instances[index].run_column("used_blocks").astype(np.float64)
    columns: dict[str, npt.NDArray[Any]] = {
        "kv_reserved_bytes": deployment.fitting.reserved_bytes(
            used_blocks, block_bytes_of(deployment)
        )
    }
    if result.executor is not None:
        records = result.executor[index]
        for name in records.__slots__:
            values = getattr(records, name)
            if values is not None and name != "transfer_s":  # a cost term already
                columns[name] = values
    return columns


def block_bytes_of(deployment: Deployment) -> int:
    """KV bytes of a block on one GPU of the instance."""
    token_bytes: int = deployment.gpu_cost.shard.kv_bytes_per_token
    return deployment.spec.block_tokens * token_bytes


def _step_times(result: SimulationResult) -> Metrics:
    durations = [one.step_end_s - one.step_start_s for one in result.instances]
    durations_s = np.concatenate(durations)
    if not len(durations_s):
        return dict.fromkeys(STEP_PERCENTILES)
    values = np.percentile(durations_s, list(STEP_PERCENTILES.values())).tolist()
    return dict(zip(STEP_PERCENTILES, values, strict=True))


def _of_records(result: SimulationResult) -> Metrics:
    none: Metrics = dict.fromkeys(_OF_RECORDS)
    num_steps = sum(len(one.step_end_s) for one in result.instances)
    if result.executor is None or not num_steps:
        return none
    busy_s = sum(float(one.run_durations_s.sum()) for one in result.instances)
    commit_s, groups, fragmentation, switches = (
        _joined(result, name)
        for name in ("commit_s", "transfer_groups", "fragmentation_ratio", "num_switches")
    )
    found = none
    if commit_s is not None:
        found["commit_time_ratio"] = float(commit_s.sum()) / busy_s
    if groups is not None:
        found["transfer_groups_mean"] = float(groups.sum()) / num_steps
        found["transfer_groups_max"] = int(groups.max())
    if fragmentation is not None:
        durations_s = np.concatenate([one.run_durations_s for one in result.instances])
        found["fragmentation_mean_ratio"] = float((fragmentation * durations_s).sum()) / busy_s
        found["fragmentation_max_ratio"] = float(fragmentation.max())
    if switches is not None:
        found["num_graph_switches"] = int(switches.sum())
    return found


def _bubbles(result: SimulationResult, deployment: Deployment) -> Metrics:
    """What decode-only steps wait for their longest member, on a sample of them.

    With the kernel and kind of executor that ran, as a share of their time; with each family of
    kernels, in the mean. None where lengths decide nothing: by peaks alone, or in a fixed shape.
    """
    names = {family: f"iteration_bubble_{family}_s" for family in FAMILIES}
    found: Metrics = {"iteration_bubble_ratio": None, **dict.fromkeys(names.values())}
    cost = deployment.gpu_cost
    if not isinstance(cost, CalibratedCost) or not deployment.fitting.reads_real_lengths:
        return found
    steps = sampled_decode_steps(result) if families_of(cost) else None
    if steps is None:
        return found
    for family, name in names.items():
        waits_s = bubbles_s(cost, steps.lengths, family)
        found[name] = float(waits_s.mean())
        if family == cost.kernel.family:
            found["iteration_bubble_ratio"] = float(waits_s.sum() / steps.duration_s.sum())
    return found


def _joined(result: SimulationResult, name: str) -> FloatArray | None:
    """A column of the executor's records over the runs of all instances; None: not modelled."""
    assert result.executor is not None
    parts = [getattr(one, name) for one in result.executor]
    return None if any(part is None for part in parts) else np.concatenate(parts)
