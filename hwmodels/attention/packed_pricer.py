"""`packed`: a kernel that reads every node of the prefix tree once for all its requests."""

import numpy as np
from mypy_extensions import mypyc_attr

from hwmodels.attention.decode_steps import DecodeSteps
from hwmodels.attention.oblivious import joined
from hwmodels.attention.prefill_pricer import PrefillPricer
from hwmodels.attention.pricer import AttentionPricer, Savings
from hwmodels.kernels.packed import PackedModel
from hwmodels.model_shape import ModelShape
from sim.interfaces import FloatArray, RunningTree

_KV_BYTES = 4


@mypyc_attr(allow_interpreted_subclasses=True)
class PackedPricer(AttentionPricer):
    """The packed kernel; its reads do not depend on L2.

    Args:
        prefill: prices prefill chunks.
        model: form of the kernel.
        shard: the part of the model that the GPU holds.
    """

    uses_tree = True

    def __init__(self, prefill: PrefillPricer, model: PackedModel, shard: ModelShape) -> None:
        super().__init__(prefill)
        layers, heads, width = shard.num_layers, shard.num_attention_heads, shard.head_dim
        self._model = model
        self._shard = shard
        self._token_bytes = _KV_BYTES * shard.num_kv_heads * width
        self._launch_s = layers * model.launch_s
        self._hbm_s = layers * self._token_bytes / model.hbm_bytes_per_s
        self._compute_s = layers * 4.0 * width * heads / model.flops_per_s
        self._partial_s = layers * float(model.merge_s(1, heads, width))

    def step_s(
        self,
        batch_size: int,
        context_tokens: int,
        squares: int,
        longest: int,
        tree: RunningTree | None,
    ) -> float:
        """Seconds of a decode step."""
        unique, partials = context_tokens, 0
        if tree is not None and tree.num_pairs:
            unique += tree.shared_tokens - tree.path_tokens
            partials = tree.num_pairs + batch_size
        bound_s = joined(unique * self._hbm_s, context_tokens * self._compute_s, self._model.p_norm)
        return self._launch_s + bound_s + partials * self._partial_s

    def many_s(self, steps: DecodeSteps) -> FloatArray:
        """Seconds of the decodes of many steps, as if nothing else were in them."""
        pairs, shard = steps.trees.num_pairs[steps.tree], self._shard
        seconds: FloatArray = shard.num_layers * self._model.time_s(
            steps.context_tokens,
            (steps.context_tokens - self.savings(steps).unread_tokens) * self._token_bytes,
            pairs + (pairs > 0) * steps.batch_size,
            shard.num_attention_heads,
            shard.head_dim,
        )
        return seconds

    def savings(self, steps: DecodeSteps) -> Savings:
        """Tokens of a node are read once; none of them hits."""
        unread = (steps.trees.path - steps.trees.once)[steps.tree].astype(np.float64)
        return Savings(unread, np.zeros(len(steps)))
