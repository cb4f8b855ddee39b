"""vLLM's rule for a common prefix, and what it adds to attention over the suffixes."""

from collections.abc import Sequence

import numpy as np
from mypy_extensions import mypyc_attr

from hwmodels.attention.decode_steps import DecodeSteps
from hwmodels.attention.prefill_pricer import PrefillPricer
from hwmodels.kernels.cascade import MIN_BATCH_SIZE, MIN_PREFIX_TOKENS, uses_cascade
from hwmodels.kernels.decode_attention import DecodeAttentionModel
from hwmodels.kernels.shared_prefix import SharedPrefixModel
from hwmodels.model_shape import ModelShape
from sim.interfaces import FloatArray, PrefillChunk, RunningTree


@mypyc_attr(allow_interpreted_subclasses=True)
class CascadeRule:
    """The rule for one model on one GPU.

    Args:
        decode: form of the decode kernel.
        prefill: prices the pass over the prefix.
        shared: rate of the merge.
        shard: the part of the model that the GPU holds.
        block_tokens: tokens of a KV block; only whole blocks are common.

    Attributes:
        scale: measured time of a cascade over that of its parts.

    Source: vLLM v1; `hwmodels.kernels.cascade` states the rule.
    """

    def __init__(
        self,
        decode: DecodeAttentionModel,
        prefill: PrefillPricer,
        shared: SharedPrefixModel,
        shard: ModelShape,
        block_tokens: int,
    ) -> None:
        self._num_sms = decode.num_sms
        self._heads = shard.num_attention_heads, shard.num_kv_heads
        self._prefill = prefill
        self._block_tokens = block_tokens
        self._launch_s = shard.num_layers * decode.launch_s
        self._merge_s = shard.num_layers * float(
            shared.packed.merge_s(1, shard.num_attention_heads, shard.head_dim)
        )
        self.scale = shared.cascade_scale
        self._is_used: dict[tuple[int, int, int], bool] = {}

    def decode_tokens(self, batch_size: int, tree: RunningTree) -> int:
        """Common tokens that a decode step cascades, 0 if it does not."""
        if batch_size < MIN_BATCH_SIZE:
            return 0
        prefix = tree.common_tokens // self._block_tokens * self._block_tokens
        return prefix if self._uses(batch_size, prefix, 1) else 0

    def mixed_tokens(
        self, batch_size: int, tree: RunningTree, chunks: Sequence[PrefillChunk]
    ) -> int:
        """The same for a step with chunks, whose KV must hold the prefix already."""
        size = batch_size + len(chunks)
        if size < MIN_BATCH_SIZE:
            return 0
        computed = min([chunk.prefix_tokens for chunk in chunks])
        prefix = min(tree.common_tokens, computed) // self._block_tokens * self._block_tokens
        most_queries = max([chunk.new_tokens for chunk in chunks])
        return prefix if self._uses(size, prefix, most_queries) else 0

    def extra_s(self, num_queries: int, prefix_tokens: int) -> float:
        """Pass over the prefix and merge, all layers, seconds."""
        pass_s = self._prefill.prefix_pass_s(num_queries, prefix_tokens)
        return pass_s + self._launch_s + num_queries * self._merge_s

    def many(self, steps: DecodeSteps) -> tuple[FloatArray, FloatArray]:
        """Common tokens of each step (0: no cascade), and what they add to its decodes.

        Shape (steps,) each.
        """
        prefix = steps.trees.common[steps.tree] // self._block_tokens * self._block_tokens
        keys = np.stack([steps.batch_size.astype(np.int64), prefix, steps.cascaded])
        distinct, index = np.unique(keys, axis=1, return_inverse=True)
        common, extra_s = np.zeros(distinct.shape[1]), np.zeros(distinct.shape[1])
        for column, (size, tokens, known) in enumerate(distinct.T.tolist()):
            is_used = self._uses(size, tokens, 1) if known < 0 else known > 0
            if is_used:
                common[column] = tokens if known < 0 else known
                extra_s[column] = self.extra_s(size, int(common[column]))
        index = index.reshape(-1)
        return common[index], extra_s[index]

    def _uses(self, batch_size: int, prefix_tokens: int, longest_query: int) -> bool:
        if prefix_tokens < MIN_PREFIX_TOKENS or batch_size < MIN_BATCH_SIZE:
            return False
        key = (batch_size, prefix_tokens, min(longest_query, 2))
        if key not in self._is_used:
            self._is_used[key] = bool(
                uses_cascade(
                    batch_size,
                    prefix_tokens,
                    *self._heads,
                    self._num_sms,
                    longest_query_tokens=longest_query,
                )
            )
        return self._is_used[key]
