"""`flashinfer` and `flash_pat`: builds of other kernels that read every context, tree or not.

The two bounds of `hwmodels.kernels.shared_prefix`, which are known from ratios of times alone.
"""

import numpy as np
from mypy_extensions import mypyc_attr

from hwmodels.attention.choice import KernelChoice
from hwmodels.attention.decode_steps import DecodeSteps, saved_tokens
from hwmodels.attention.l2_reads import L2Reads
from hwmodels.attention.prefill_pricer import PrefillPricer
from hwmodels.attention.pricer import AttentionPricer, Savings
from hwmodels.kernels.arrays import smooth_max
from hwmodels.kernels.l2_curve import L2Curve
from hwmodels.kernels.shared_prefix import SharedPrefixModel
from hwmodels.model_shape import ModelShape
from sim.interfaces import FloatArray, RunningTree

_KV_BYTES = 4
_TILE_QUERIES = 64


@mypyc_attr(allow_interpreted_subclasses=True)
class ObliviousPricer(AttentionPricer):
    """A kernel that takes `launch + pnorm(reads / read rate, HBM bytes / HBM rate)`.

    Args:
        prefill: prices prefill chunks.
        shared: its constants.
        l2: hit curve; None: every byte comes from HBM.
        shard: the part of the model that the GPU holds.
        choice: which of the kernels.
    """

    def __init__(
        self,
        prefill: PrefillPricer,
        shared: SharedPrefixModel,
        l2: L2Curve | None,
        shard: ModelShape,
        choice: KernelChoice,
    ) -> None:
        super().__init__(prefill)
        heads, kv_heads = shard.num_attention_heads, shard.num_kv_heads
        token_bytes = _KV_BYTES * kv_heads * shard.head_dim
        query_tiles = -(-heads // (kv_heads * _TILE_QUERIES))
        self.uses_tree = l2 is not None
        self._l2 = l2
        self._shared = shared
        self._member_order = choice.member_order
        self._token_bytes = token_bytes
        self._per_wave = max(shared.cta_slots / (kv_heads * query_tiles), 1.0)
        self._launch_s = shard.num_layers * shared.launch_s
        read_rate = shared.read_bytes_per_s(choice.name, heads > kv_heads)
        self._read_s = shard.num_layers * token_bytes / read_rate
        self._hbm_s = shard.num_layers * token_bytes / shared.hbm_bytes_per_s
        self._reads = L2Reads(l2, token_bytes, shared.drift_tokens, choice.member_order)

    def step_s(
        self,
        batch_size: int,
        context_tokens: int,
        squares: int,
        longest: int,
        tree: RunningTree | None,
    ) -> float:
        """Seconds of a decode step."""
        hbm = float(context_tokens)
        if tree is not None and tree.tokens_by_members:
            hbm += self._reads.saved_tokens(batch_size, context_tokens, tree, self._per_wave)
        bound_s = joined(context_tokens * self._read_s, hbm * self._hbm_s, self._shared.p_norm)
        return self._launch_s + bound_s

    def many_s(self, steps: DecodeSteps) -> FloatArray:
        """Seconds of the decodes of many steps, as if nothing else were in them."""
        read = steps.context_tokens
        hbm = read + self._saved_tokens(steps)
        bound_s = smooth_max(read * self._read_s, hbm * self._hbm_s, self._shared.p_norm)
        seconds: FloatArray = self._launch_s + bound_s
        return seconds

    def savings(self, steps: DecodeSteps) -> Savings:
        """What the decodes of many steps need not read from HBM."""
        return Savings(np.zeros(len(steps)), -self._saved_tokens(steps))

    def _saved_tokens(self, steps: DecodeSteps) -> FloatArray:
        return saved_tokens(
            steps,
            self._l2,
            token_bytes=self._token_bytes,
            requests_per_wave=np.full(len(steps), self._per_wave),
            drift_tokens=self._shared.drift_tokens,
            member_order=self._member_order,
        )


def joined(one: float, other: float, exponent: float) -> float:
    """`hwmodels.kernels.arrays.smooth_max` of two numbers, of which one is positive."""
    if one < other:
        one, other = other, one
    joined_s: float = one * (1.0 + (other / one) ** exponent) ** (1.0 / exponent)
    return joined_s
