"""Longer or shorter prompts and outputs with the same sharing between them."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from sim.errors import ConfigError
from sim.workload import IntArray
from traces.options import MAX_TOKENS
from traces.schema import TraceTable
from traces.transforms.length_runs import LengthRuns
from traces.transforms.record import recorded

CHUNK_RUNS = 1 << 22
"""Runs that are scaled at a time; the work takes some ten arrays of them."""


def scale_lengths(table: TraceTable, scale_prompt: float, scale_output: float) -> TraceTable:
    """Prompt and output lengths times a factor, at least 1 token.

    A reused output counts as output wherever it stands, so a later prompt holds exactly what its
    parent now generates. Run boundaries lie at the rounded product of the tokens before them, but
    at least one token apart, so that equal beginnings stay equal and no run vanishes.
    """
    done = {"scale_prompt": scale_prompt, "scale_output": scale_output}
    has_reuse = table.output_run is not None and bool((table.output_run >= 0).any())
    if table.runs is None or (scale_prompt == 1 and not has_reuse):
        scaled = replace(
            table,
            prompt_tokens=_times(table.prompt_tokens, scale_prompt),
            output_tokens=_times(table.output_tokens, scale_output),
        )
    else:
        scaled = _with_runs(table, scale_prompt, scale_output)
    for name in ("prompt", "output"):
        longest = int(getattr(scaled, f"{name}_tokens").max())
        if longest > MAX_TOKENS:
            raise ConfigError(
                f"trace.scale_{name}={done[f'scale_{name}']:g}: the longest {name} would have "
                f"{longest:,} tokens, allowed: {MAX_TOKENS:,}"
            )
    return recorded(scaled, **{name: factor for name, factor in done.items() if factor != 1})


def _with_runs(table: TraceTable, scale_prompt: float, scale_output: float) -> TraceTable:
    runs = LengthRuns.of(table)
    tokens = np.empty_like(runs.tokens)
    for first, last in _row_chunks(runs.offsets):
        part = slice(runs.offsets[first], runs.offsets[last])
        offsets = runs.offsets[first : last + 1] - runs.offsets[first]
        is_output = runs.is_output[part]
        of_prompts = _sums_in_row(np.where(is_output, 0, runs.tokens[part]), offsets)
        of_outputs = _sums_in_row(np.where(is_output, runs.tokens[part], 0), offsets)
        # Functions of whole numbers of tokens: equal beginnings give equal ends to the last bit.
        ideal = np.rint(scale_prompt * of_prompts + scale_output * of_outputs).astype(np.int64)
        tokens[part] = _apart(ideal, offsets)
    outputs_inside = runs.prompt_sums(np.where(runs.is_output, runs.tokens, 0))
    inputs = table.prompt_tokens - outputs_inside
    whole = np.rint(scale_prompt * inputs + scale_output * outputs_inside).astype(np.int64)
    new_output = runs.output_values(tokens, _times(table.output_tokens, scale_output))
    prompt_tokens = np.maximum(np.maximum(whole, runs.prompt_sums(tokens)), 1)
    table = replace(table, prompt_tokens=prompt_tokens, output_tokens=new_output)
    return runs.into(table, tokens)


def _row_chunks(offsets: IntArray) -> Iterator[tuple[int, int]]:
    """Bounds of consecutive rows with about `CHUNK_RUNS` runs together."""
    first, num_rows = 0, len(offsets) - 1
    while first < num_rows:
        end = int(offsets[first]) + CHUNK_RUNS
        last = max(int(np.searchsorted(offsets, end, side="right")) - 1, first + 1)
        yield first, min(last, num_rows)
        first = last


def _times(tokens: IntArray, factor: float) -> IntArray:
    scaled: IntArray = np.maximum(np.rint(tokens * factor).astype(np.int64), 1)
    return scaled


def _sums_in_row(values: IntArray, offsets: IntArray) -> IntArray:
    """Sum of each row's values up to and including each one."""
    total = np.append(0, np.cumsum(values))
    sums: IntArray = total[1:] - np.repeat(total[offsets[:-1]], np.diff(offsets))
    return sums


def _apart(ends: IntArray, offsets: IntArray) -> IntArray:
    """Lengths of the runs that end as near to `ends` as lengths of at least 1 allow."""
    counts = np.diff(offsets)
    number = np.arange(1, len(ends) + 1) - np.repeat(offsets[:-1], counts)
    slack = np.maximum(ends - number, 0)
    # A row's first value exceeds all of the row before: one running maximum serves all rows.
    lift = np.repeat(np.arange(len(counts)) * (int(slack.max(initial=0)) + 1), counts)
    ends = np.maximum.accumulate(slack + lift) - lift + number
    return np.diff(ends, prepend=0) + np.where(number == 1, np.append(0, ends[:-1]), 0)
