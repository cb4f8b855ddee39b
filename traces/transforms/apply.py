"""Applies the transforms of a trace in their fixed order."""

from typing import Any

from traces.schema import TraceTable
from traces.transforms.capping import cap_outputs, cap_prompts
from traces.transforms.copying import copy_trace
from traces.transforms.options import Transforms
from traces.transforms.replay import at_concurrency
from traces.transforms.resampling import resample_stretches
from traces.transforms.rows import keep_first, keep_sample, keep_window
from traces.transforms.scaling import scale_lengths
from traces.transforms.sharing import anonymise, strip_prefixes
from traces.transforms.times import poissonise, scale_rate, shift


def transform(
    table: TraceTable, *, seed: int = 0, resample: bool = False, **options: Any
) -> TraceTable:
    """Apply transforms in the order that the package's docstring gives.

    Args:
        table: the trace, with at least one row.
        seed: of what is drawn at random.
        resample: draw stretches of the chosen rows anew, for a replication of a recording.
        options: as `Transforms`.

    Raises:
        ConfigError: a value is out of range or has no effect, or nothing is left.
        ValueError: the table's runs contradict its lengths.
    """
    asked = Transforms(**options)
    table = _choose_rows(table, asked, seed)
    if resample:
        table = resample_stretches(table, seed)
    table = _change_lengths(table, asked)
    if asked.strip_prefixes:
        table = strip_prefixes(table)
    if asked.copies > 1:
        table = copy_trace(table, asked.copies, asked.copy_offsets or "random", seed)
    if asked.poissonise:
        table = poissonise(table, seed)
    if asked.rate_scale != 1.0:
        table = scale_rate(table, float(asked.rate_scale))
    if asked.shift_s != 0.0:
        table = shift(table, float(asked.shift_s))
    if asked.anonymise:
        table = anonymise(table)
    if asked.replay_concurrency is not None:
        table = at_concurrency(table, asked.replay_concurrency, asked.replay_think_time_s or 0.0)
    return table


def _choose_rows(table: TraceTable, asked: Transforms, seed: int) -> TraceTable:
    if asked.window_s is not None:
        table = keep_window(table, asked.window_s)
    if asked.sample != 1.0:
        table = keep_sample(table, float(asked.sample), seed)
    if asked.limit is not None:
        table = keep_first(table, asked.limit)
    return table


def _change_lengths(table: TraceTable, asked: Transforms) -> TraceTable:
    if asked.scale_prompt != 1.0 or asked.scale_output != 1.0:
        table = scale_lengths(table, float(asked.scale_prompt), float(asked.scale_output))
    if asked.max_output_tokens is not None:
        table = cap_outputs(table, asked.max_output_tokens)
    if asked.max_prompt_tokens is not None:
        table = cap_prompts(table, asked.max_prompt_tokens)
    return table
