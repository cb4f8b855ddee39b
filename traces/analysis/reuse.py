"""What a prefix cache without limit finds."""

import numpy as np

from sim.workload import IntArray, Workload
from traces.analysis.node_uses import NodeUses


def matched_tokens(workload: Workload, uses: NodeUses | None = None) -> IntArray:
    """Tokens with which each prompt begins that an earlier request computed. Shape (n,).

    Earlier in order of arrival, as if it had ended: what it generated counts where a later prompt
    holds it.
    """
    uses = NodeUses.of(workload) if uses is None else uses
    is_found = uses.is_prompt & (uses.row_before >= 0)
    tokens = workload.tree.num_tokens[uses.node[is_found]]
    # whole numbers below 2**53, so that sums of doubles are exact
    matched = np.bincount(uses.row[is_found], tokens, workload.num_requests)
    return matched.astype(np.int64)


def hit_blocks(matched: IntArray, prompt_tokens: IntArray, block_tokens: int) -> IntArray:
    """Whole KV blocks among the matched tokens; the last prompt token is always computed."""
    blocks: IntArray = np.minimum(matched // block_tokens, (prompt_tokens - 1) // block_tokens)
    return blocks


def reuse_ratio(workload: Workload, block_tokens: int = 1) -> float:
    """Share of all prompt tokens that an unlimited cache of such blocks finds."""
    blocks = hit_blocks(matched_tokens(workload), workload.prompt_tokens, block_tokens)
    return int(blocks.sum()) * block_tokens / int(workload.prompt_tokens.sum())
