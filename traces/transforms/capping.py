"""Longest prompt and longest output."""

from dataclasses import replace

import numpy as np

from traces.schema import PromptRuns, TraceTable
from traces.transforms.length_runs import LengthRuns
from traces.transforms.record import recorded


def cap_outputs(table: TraceTable, max_tokens: int) -> TraceTable:
    """Outputs of at most `max_tokens`.

    A later prompt that holds a cut output becomes shorter by as much.
    """
    num_cut = int(np.count_nonzero(table.output_tokens > max_tokens))
    done = {"max_output_tokens": max_tokens, "num_outputs_cut": num_cut}
    output_tokens = np.minimum(table.output_tokens, max_tokens)
    if table.runs is None or table.output_run is None or not (table.output_run >= 0).any():
        return recorded(replace(table, output_tokens=output_tokens), **done)
    runs = LengthRuns.of(table)
    tokens = np.where(runs.is_output, np.minimum(runs.tokens, max_tokens), runs.tokens)
    prompt_tokens = table.prompt_tokens - runs.prompt_sums(runs.tokens - tokens)
    table = replace(table, prompt_tokens=prompt_tokens, output_tokens=output_tokens)
    return recorded(runs.into(table, tokens), **done)


def cap_prompts(table: TraceTable, max_tokens: int) -> TraceTable:
    """Prompts of at most `max_tokens`: the first ones of longer prompts.

    A cut prompt no longer continues a parent that it does not hold as a whole. Where the cut lies
    inside the parent's output, that part of the output is not found in the cache; the provenance
    says of how many requests (`num_outputs_not_reused`).
    """
    is_cut = table.prompt_tokens > max_tokens
    done = {"max_prompt_tokens": max_tokens, "num_prompts_cut": int(np.count_nonzero(is_cut))}
    prompt_tokens = np.minimum(table.prompt_tokens, max_tokens)
    if table.parent_id is not None:
        end = (prompt_tokens + table.output_tokens)[table.parent_id]
        has_lost = is_cut & (table.parent_id >= 0) & (end > max_tokens)
        inside = has_lost & (prompt_tokens[table.parent_id] < max_tokens)
        if table.output_run is not None and inside.any():
            parents = np.unique(table.parent_id[inside])
            num_lost = int(np.count_nonzero(table.output_run[parents] >= 0))
            done["num_outputs_not_reused"] = num_lost
        table = replace(table, parent_id=np.where(has_lost, -1, table.parent_id))
    if not is_cut.any():
        return recorded(table, **done)
    cut = replace(table, prompt_tokens=prompt_tokens)
    if table.runs is None:
        return recorded(cut, **done)
    runs = LengthRuns.of(table)
    if table.runs.block_tokens is not None and table.output_run is None:
        return recorded(replace(cut, runs=_first_blocks(runs, cut, table.runs)), **done)
    total = np.append(0, np.cumsum(runs.tokens))
    start = total[:-1] - np.repeat(total[runs.offsets[:-1]], np.diff(runs.offsets))
    tokens = np.clip(max_tokens - start, 0, runs.tokens)
    return recorded(runs.into(cut, tokens), **done)


def _first_blocks(runs: LengthRuns, cut: TraceTable, blocks: PromptRuns) -> PromptRuns:
    """The blocks that begin inside the cut prompts."""
    assert blocks.block_tokens is not None
    counts = np.minimum(np.diff(runs.offsets), -(-cut.prompt_tokens // blocks.block_tokens))
    offsets = np.append(0, np.cumsum(counts))
    source = np.arange(offsets[-1]) + np.repeat(runs.offsets[:-1] - offsets[:-1], counts)
    return replace(blocks, ids=runs.keys[source], offsets=offsets)
