"""Outputs that a later prompt quotes, for traces whose prompts are hashed in blocks.

A block trace names the blocks of prompts only. But where a follow-up's prompt goes on after its
parent's prompt and output, its ids also name the blocks that the parent's decode filled: with
blocks of B tokens, those from number floor(P / B) to before number floor((P + O) / B), for a parent
of P prompt and O output tokens. Here the output becomes a run of its own
(`TraceTable.output_run`), in the parent and in every prompt that begins with all these blocks, so
that a cache of B-token blocks finds exactly them again.

A child continues its parent if it begins with all full blocks of the parent's prompt and has at
least P + O tokens. That it quotes the output unchanged is assumed: no id can tell, for the block in
which the parent's prompt ends has another id once output fills it. Where children of equal prompts
disagree about an output, the first in the trace counts.

Exact in full blocks of B tokens but for this: a prompt that departs from a quoted output before its
end, or ends inside it, shares no block of that output; of two quoted outputs that overlap, only the
one that ends first counts; and prefixes are compared by hash (`traces.prefix_hashes`).
"""

from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from sim.workload import IntArray
from traces.prefix_hashes import HashArray, PrefixHashes
from traces.schema import IdArray, PromptRuns, TraceTable


@dataclass(frozen=True, slots=True)
class QuotedOutputs:
    """The distinct outputs that some prompt quotes, and whose they are.

    Attributes:
        key: hash of prompt and output up to the last block they fill, increasing.
            Shape (num_outputs,), as the next three.
        prompt_tokens: length of the prompt before it.
        output_tokens: its length.
        tail_id: id of the prompt's last block; read where that block is partial.
        owner: rows that generate one of them. Shape (num_owners,).
        owned: which one each of them generates. Shape (num_owners,).
    """

    key: HashArray
    prompt_tokens: IntArray
    output_tokens: IntArray
    tail_id: IdArray
    owner: IntArray
    owned: IntArray

    @property
    def end_tokens(self) -> IntArray:
        """Tokens of prompt and output together."""
        return self.prompt_tokens + self.output_tokens


def with_reused_outputs(table: TraceTable, parent: IntArray) -> TraceTable:
    """`table` with runs and `output_run` that let a child find what its parent's decode cached.

    Args:
        table: its runs are blocks, one for every started block of each prompt.
        parent: row whose prompt and output each row may continue, -1 where none. Shape (n,).
    """
    runs = table.runs
    assert runs is not None
    assert runs.block_tokens is not None
    if not (parent >= 0).any():
        return table
    hashes = PrefixHashes(runs)
    outputs = _quoted_outputs(table, runs, parent, hashes)
    if not len(outputs.key):
        return table
    row, output = _quotes(table.prompt_tokens, outputs, hashes)
    first_id = int(runs.ids.max()) + 1
    is_wide = first_id + len(outputs.key) > 2**31
    ids: IdArray = runs.ids.astype(np.int64) if is_wide else runs.ids.copy()
    ends_inside = table.prompt_tokens[outputs.owner] % runs.block_tokens > 0
    last_block = runs.offsets[outputs.owner + 1] - 1
    ids[last_block[ends_inside]] = outputs.tail_id[outputs.owned[ends_inside]]
    output_run = np.full(table.num_requests, -1, dtype=np.int64)
    output_run[outputs.owner] = first_id + outputs.owned
    blocks = replace(runs, ids=ids)
    with_outputs = _rewritten(blocks, table.prompt_tokens, outputs, row, output, first_id)
    return replace(table, runs=with_outputs, output_run=output_run)


def _quoted_outputs(
    table: TraceTable, runs: PromptRuns, parent: IntArray, hashes: PrefixHashes
) -> QuotedOutputs:
    block_tokens = runs.block_tokens
    assert block_tokens is not None
    child = np.flatnonzero(parent >= 0)
    owner = parent[child]
    prompt_tokens = table.prompt_tokens[owner]
    end_tokens = prompt_tokens + table.output_tokens[owner]
    num_full, num_filled = prompt_tokens // block_tokens, end_tokens // block_tokens
    is_quoted = (num_filled > num_full) & (table.prompt_tokens[child] >= end_tokens)
    child, owner, num_full, num_filled = (
        column[is_quoted] for column in (child, owner, num_full, num_filled)
    )
    continues = hashes.of(owner, num_full) == hashes.of(child, num_full)
    child, owner, num_filled = (c[continues] for c in (child, owner, num_filled))
    owner, first_child = np.unique(owner, return_index=True)
    child, num_filled = child[first_child], num_filled[first_child]
    by_child = np.argsort(child, kind="stable")
    owner, child, num_filled = owner[by_child], child[by_child], num_filled[by_child]
    key, first, owned = np.unique(
        hashes.of(child, num_filled), return_index=True, return_inverse=True
    )
    model = owner[first]
    # Two prompts that differ in length by less than a block may give the same key.
    is_same = (table.prompt_tokens[owner] == table.prompt_tokens[model][owned]) & (
        table.output_tokens[owner] == table.output_tokens[model][owned]
    )
    return QuotedOutputs(
        key=key,
        prompt_tokens=table.prompt_tokens[model],
        output_tokens=table.output_tokens[model],
        tail_id=runs.ids[runs.offsets[model + 1] - 1],
        owner=owner[is_same],
        owned=owned[is_same],
    )


def _quotes(
    prompt_tokens: IntArray, outputs: QuotedOutputs, hashes: PrefixHashes
) -> tuple[IntArray, IntArray]:
    """Which row quotes which output, by row and place; no two overlap in a row."""
    row, output = hashes.find(outputs.key)
    end_tokens = outputs.end_tokens[output]
    fits = prompt_tokens[row] >= end_tokens
    row, output, end_tokens = row[fits], output[fits], end_tokens[fits]
    begin_tokens = outputs.prompt_tokens[output]
    is_same_row = row[1:] == row[:-1]
    if not (is_same_row & (begin_tokens[1:] < end_tokens[:-1])).any():
        return row, output
    kept, last_row, taken = [], -1, 0
    columns = (row.tolist(), begin_tokens.tolist(), end_tokens.tolist())
    for index, (this_row, begin, end) in enumerate(zip(*columns, strict=True)):
        if this_row != last_row or begin >= taken:
            kept.append(index)
            last_row, taken = this_row, end
    return row[kept], output[kept]


def _rewritten(
    runs: PromptRuns,
    prompt_tokens: IntArray,
    outputs: QuotedOutputs,
    row: IntArray,
    output: IntArray,
    first_id: int,
) -> PromptRuns:
    """Runs in which each quote replaces the blocks it touches.

    In their place come what is left of the prompt's last block, the output, and what follows the
    output in its last block, unless the next quote begins in that block.
    """
    block_tokens = runs.block_tokens
    assert block_tokens is not None
    begin, end = outputs.prompt_tokens[output], outputs.end_tokens[output]
    first_block, last_block = begin // block_tokens, end // block_tokens
    same_row = row[1:] == row[:-1]
    joins_next = np.append(same_row & (first_block[1:] == last_block[:-1]), False)
    end_before = np.append(0, np.where(same_row, end[:-1], 0))
    head_tokens = begin - np.maximum(first_block * block_tokens, end_before)
    cuts_last = (end % block_tokens > 0) & ~joins_next
    rest_end = np.minimum((last_block + 1) * block_tokens, prompt_tokens[row])
    rest_tokens = np.where(cuts_last, rest_end - end, 0)

    start = runs.offsets[row] + first_block
    num_removed = last_block - first_block + cuts_last
    removed_before = np.append(0, np.cumsum(num_removed))
    is_kept = np.ones(len(runs.ids), dtype=np.bool_)
    is_kept[np.repeat(start - removed_before[:-1], num_removed) + np.arange(removed_before[-1])] = (
        False
    )
    rest_id = runs.ids[np.minimum(runs.offsets[row] + last_block, len(runs.ids) - 1)]
    new_ids = np.stack((outputs.tail_id[output], first_id + output, rest_id), axis=1)
    new_tokens = np.stack((head_tokens, outputs.output_tokens[output], rest_tokens), axis=1)
    is_run = new_tokens > 0
    where = np.repeat(start - removed_before[:-1], is_run.sum(axis=1))
    change = np.bincount(row, is_run.sum(axis=1) - num_removed, minlength=len(prompt_tokens))
    ids = np.insert(runs.ids[is_kept], where, new_ids[is_run])
    return PromptRuns(
        ids=cast(IdArray, ids),
        offsets=runs.offsets + np.append(0, np.cumsum(change.astype(np.int64))),
        tokens=np.insert(_block_lengths(runs, prompt_tokens)[is_kept], where, new_tokens[is_run]),
    )


def _block_lengths(runs: PromptRuns, prompt_tokens: IntArray) -> IntArray:
    """Tokens of every block."""
    assert runs.block_tokens is not None
    lengths = np.full(len(runs.ids), runs.block_tokens, dtype=np.int64)
    num_blocks = np.diff(runs.offsets)
    lengths[runs.offsets[1:] - 1] = prompt_tokens - (num_blocks - 1) * runs.block_tokens
    return lengths
