"""Context tokens that come from HBM in one decode step, when requests share prefixes through L2.

The traffic form of `hwmodels.kernels.tree_traffic` for one step at a time, in plain Python: what
depends on the tree is summed over its few distinct numbers of members. Hit ratios are brought up to
date whenever the mean context has grown by a KV block, for they change little from step to step; in
between, the tokens saved are constant.
"""

from math import ceil

from hwmodels.kernels.l2_curve import L2Curve
from hwmodels.kernels.tree_traffic import MemberOrder, waves_with_node
from sim.interfaces import RunningTree

HIT_TOKENS = 16
"""Growth of the mean context, tokens, after which hit ratios are worked out anew."""

_ROUNDING = 1e-9


TreeSums = tuple[int, int, float, int]
"""Tokens of the shared nodes of a batch: once each; once for every member; once for every wave of
thread blocks that reads them; and the number of waves."""


class L2Reads:
    """Reads of one attention layer on one GPU.

    Args:
        l2: hit curve; None: nothing hits.
        token_bytes: keys and values of a token in one layer.
        drift_tokens: tokens by which requests of a wave run apart.
        member_order: order in which requests take the processors.
    """

    def __init__(
        self, l2: L2Curve | None, token_bytes: int, drift_tokens: float, member_order: MemberOrder
    ) -> None:
        self.has_l2 = l2 is not None
        self._member_order = member_order
        self._drift_tokens = drift_tokens
        if l2 is not None:
            self._scale = token_bytes / l2.midpoint_bytes
            self._exponent = 1.0 / l2.log_width
        self._waves: dict[tuple[float, int], list[float]] = {}

    def sums(
        self, batch_size: int, tree: RunningTree, requests_per_wave: float, common: int
    ) -> TreeSums:
        """Sums over the shared nodes.

        Args:
            batch_size: decoding requests.
            tree: their prefix tree.
            requests_per_wave: requests whose thread blocks run together.
            common: leading tokens of all of them that are read elsewhere and left out.
        """
        waves = ceil(batch_size / requests_per_wave - _ROUNDING) or 1
        once = tree.shared_tokens - common
        path = tree.path_tokens - batch_size * common
        if waves == 1 or not self.has_l2:
            return once, path, once, waves
        in_waves = self._waves.get((requests_per_wave, waves), ())
        if len(in_waves) <= batch_size:
            in_waves = self._count_waves(requests_per_wave, waves, batch_size)
        spread = -common * in_waves[batch_size]
        for members, tokens in tree.tokens_by_members.items():
            spread += tokens * in_waves[members]
        return once, path, spread, waves

    def saved_tokens(self, batch_size: int, context_tokens: int, sums: TreeSums) -> float:
        """Context tokens that do not come from HBM in a step; negative, to be added.

        It is the same for all steps of a batch in which the sum of the contexts lies between the
        same multiples of `HIT_TOKENS * batch_size`.
        """
        if not self.has_l2:
            return 0.0
        once, path, spread, waves = sums
        per_block = HIT_TOKENS * batch_size
        total = (context_tokens // per_block + 1) * per_block
        wave = (total - path + spread) / waves * self._scale
        drift = self._drift_tokens * batch_size / total
        within = wave * drift if drift < 1.0 else wave
        saved = once - path + (path - spread) * self._missed(within)
        if waves > 1:
            saved += (spread - once) * self._missed(wave)
        return saved

    def _missed(self, data_set: float) -> float:
        """Share of reads that miss; the data set in midpoints of the curve."""
        if data_set <= 0.0:
            return 0.0
        try:
            odds = data_set**self._exponent
        except OverflowError:
            return 1.0
        return odds / (1.0 + odds) if odds < 1e30 else 1.0

    def _count_waves(self, requests_per_wave: float, waves: int, batch_size: int) -> list[float]:
        """Waves that read a node, by its number of members up to twice the batch size."""
        members = range(1, 2 * batch_size + 1)
        counts = waves_with_node(members, waves, requests_per_wave, self._member_order)
        found = self._waves[requests_per_wave, waves] = [0.0, *counts.tolist()]
        return found
