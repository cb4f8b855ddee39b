"""Mean share of the KV blocks in use, exact although blocks are not followed one by one.

Blocks held after each plan are recorded; within a run of decode steps the growth follows from the
decode intervals: a request takes a block in every step in which its tokens fill the last one.
"""

import numpy as np
import numpy.typing as npt

from sim.records import InstanceRecords, SimulationResult

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def kv_usage_mean_ratio(result: SimulationResult, makespan_s: float) -> float | None:
    """Time mean over instances of (blocks held / usable blocks); None without a makespan."""
    if makespan_s <= 0:
        return None
    ids = range(len(result.instances))
    if result.handover is None:
        usable = (result.num_gpu_blocks - 1) * len(ids)
    else:
        pools = result.handover.pools
        usable = sum((pool.num_gpu_blocks - 1) * len(pool.instances) for pool in pools)
    return sum(block_seconds(result, i) for i in ids) / (makespan_s * usable)


def block_seconds(result: SimulationResult, index: int) -> float:
    """Integral over time of the blocks held on an instance."""
    instance = result.instances[index]
    more = 0.0 if result.handover is None else result.handover.more_block_seconds[index]
    if not len(instance.step_end_s):
        return more
    first_step = instance.run_column("first_step")
    last_step = first_step + instance.run_column("num_steps") - 1
    start_s = instance.step_start_s
    run_s = instance.step_end_s[last_step] - start_s[first_step]
    planned = float((instance.run_column("used_blocks") * run_s).sum())
    return planned + _growth_block_seconds(result, index, instance, start_s) + more


def _growth_block_seconds(
    result: SimulationResult, index: int, instance: InstanceRecords, start_s: FloatArray
) -> float:
    """Block-seconds of the blocks that decodes take after the first step of a run."""
    size = result.block_tokens
    first_step = instance.run_column("first_step")
    num_steps = instance.run_column("num_steps")
    run_end_s = np.repeat(instance.step_end_s[first_step + num_steps - 1], num_steps)
    held_s = run_end_s - start_s
    held_s[first_step] = 0.0
    strided = _strided_sums(held_s, size)
    rows, first, last = result.requests.intervals(index)
    last = np.minimum(last, len(start_s))
    held_tokens = result.workload.prompt_tokens[rows] + tokens_before(rows, first, last)
    if result.handover is not None:
        held_tokens += result.handover.is_handed_over[rows]
    phase = (first + 1 - held_tokens) % size
    newest = last - (last - phase) % size
    oldest = first - (first - phase) % size
    return float((strided[newest + size] - strided[oldest + size]).sum())


def _strided_sums(values: FloatArray, stride: int) -> FloatArray:
    """Entry k + stride: sum of the values of steps k, k - stride, ... (steps count from 1)."""
    rows = -(-(len(values) + 1) // stride) + 1
    padded = np.zeros(rows * stride)
    padded[stride + 1 : stride + 1 + len(values)] = values
    return padded.reshape(rows, stride).cumsum(axis=0).reshape(-1)


def tokens_before(rows: IntArray, first: IntArray, last: IntArray) -> IntArray:
    """Tokens that a request produced in its earlier intervals. Shape (k,)."""
    produced = last - first + 1
    total = np.append(0, np.cumsum(produced))[:-1]
    is_new = np.append(True, rows[1:] != rows[:-1])
    start = np.maximum.accumulate(np.where(is_new, np.arange(len(rows)), 0))
    before: IntArray = total - total[start]
    return before
