"""What the steps of a run asked of the kernels: batch sizes, contexts, chunks, prefixes.

One row per run of equal steps, all instances together. Contexts and chunks of one step are known
as means. What stands before the chunks of a prompt is worked out from the steps that its prefill
took: a request that is preempted before its first token blurs it.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim.records import SimulationResult

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunShapes:
    """Columns over runs of steps that ended. Shape (runs,) each.

    Attributes:
        num_steps: steps of the run.
        duration_s: its time, seconds.
        num_decodes: requests that decode in each step.
        num_chunks: prefill chunks in each step.
        num_tokens: tokens of each step.
        context_tokens: sum of the contexts of the decodes, in the first step.
        mean_context_tokens: their mean; it grows by 1 with every step. 0 without decodes.
        mean_chunk_tokens: mean of the chunks; 0 without chunks.
        prefix_tokens: largest number of tokens that stand before a chunk; 0 without chunks.
    """

    num_steps: FloatArray
    duration_s: FloatArray
    num_decodes: FloatArray
    num_chunks: FloatArray
    num_tokens: FloatArray
    context_tokens: FloatArray
    mean_context_tokens: FloatArray
    mean_chunk_tokens: FloatArray
    prefix_tokens: FloatArray


def run_shapes(result: SimulationResult, lag: int = 0) -> RunShapes:
    """What the steps of all instances looked like.

    Args:
        result: the records.
        lag: steps that the engine plans ahead.
    """
    parts = [_columns(result, index, lag) for index in range(len(result.instances))]
    return RunShapes(**{name: np.concatenate([one[name] for one in parts]) for name in parts[0]})


def _columns(result: SimulationResult, index: int, lag: int) -> dict[str, FloatArray]:
    instance = result.instances[index]
    first_step, num_steps = (instance.run_column(name) for name in ("first_step", "num_steps"))
    is_done = first_step + num_steps <= len(instance.step_end_s)
    first_step, num_steps = first_step[is_done], num_steps[is_done]
    start_s = instance.step_start_s[first_step]
    decodes, chunks, prefill_tokens, contexts = (
        instance.run_column(name)[is_done].astype(np.float64)
        for name in ("num_decodes", "num_prefills", "prefill_tokens", "context_tokens")
    )
    return {
        "num_steps": num_steps.astype(np.float64),
        "duration_s": instance.step_end_s[first_step + num_steps - 1] - start_s,
        "num_decodes": decodes,
        "num_chunks": chunks,
        "num_tokens": decodes + prefill_tokens,
        "context_tokens": contexts,
        "mean_context_tokens": contexts / np.maximum(decodes, 1.0),
        "mean_chunk_tokens": prefill_tokens / np.maximum(chunks, 1.0),
        "prefix_tokens": _prefixes(result, index, first_step, prefill_tokens, chunks == 1, lag)
        * (chunks > 0),
    }


def _prefixes(
    result: SimulationResult,
    index: int,
    first_step: IntArray,
    tokens: FloatArray,
    is_alone: npt.NDArray[np.bool_],
    lag: int,
) -> FloatArray:
    """Largest number of tokens before a chunk of each run. Shape (runs,).

    A request has a chunk in every step with chunks from its admission to its first token. Those in
    between are whole steps, since prompts are prefilled one after the other.

    Args:
        result: the records.
        index: of the instance.
        first_step: steps before each run. Shape (runs,).
        tokens: prefill tokens of each run. Shape (runs,).
        is_alone: runs with a single chunk. Shape (runs,).
        lag: steps that the engine plans ahead.
    """
    longest = np.zeros(len(first_step))
    requests, prompts = result.requests, result.workload.prompt_tokens
    rows = np.flatnonzero((requests.instance == index) & (requests.first_step > 0))
    if not len(longest) or not len(rows):
        return longest
    last = np.searchsorted(first_step, requests.first_step[rows] - 1, side="right") - 1
    first = np.minimum(_admitting(result, index, first_step, rows, lag), last)
    cached = requests.cached_tokens[rows].astype(np.float64)
    before = np.append(0.0, np.cumsum(tokens))
    edges = prompts[rows] - cached - np.maximum(before[last] - before[first + 1], 0.0)
    # What the first of them took is known where it or the last is alone in its step, else within
    # bounds.
    least = np.maximum(edges - tokens[last], 0.0)
    most = np.maximum(np.minimum(edges, tokens[first]), least)
    taken = np.where(is_alone[first], most, np.where(is_alone[last], least, (least + most) / 2))
    counts = last - first + 1
    which = np.repeat(np.arange(len(rows)), counts)
    number = np.arange(len(which)) - (np.cumsum(counts) - counts)[which]
    run = first[which] + number
    computed = np.where(number, taken[which] + before[run] - before[first[which] + 1], 0.0)
    prefix = np.minimum(cached[which] + np.floor(computed), prompts[rows][which] - 1.0)
    np.maximum.at(longest, run, prefix)
    return longest


def _admitting(
    result: SimulationResult, index: int, first_step: IntArray, rows: IntArray, lag: int
) -> IntArray:
    """The run with the first chunk of each request. Shape (rows,).

    An engine that plans ahead does so while the step before executes, unless it was idle.
    """
    instance, admitted_s = result.instances[index], result.requests.admitted_s[rows]
    start_s = instance.step_start_s[first_step]
    run = np.searchsorted(start_s, admitted_s, side="right") - 1
    was_busy = ~np.isin(admitted_s, instance.busy_from_s)
    first: IntArray = np.maximum(run, 0) + lag * was_busy
    return first
