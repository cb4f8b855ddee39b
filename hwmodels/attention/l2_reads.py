"""Context tokens that come from HBM in one decode step, when requests share prefixes through L2.

The traffic form of `hwmodels.kernels.tree_traffic` for one step at a time, in plain Python: what
depends on the tree is summed over its few distinct numbers of members. Hit ratios are brought up to
date whenever the mean context has grown by a KV block, for they change little from step to step; in
between, the tokens saved are constant.
"""

from math import ceil

from mypy_extensions import mypyc_attr

from hwmodels.kernels.l2_curve import L2Curve
from hwmodels.kernels.tree_traffic import MemberOrder, waves_with_node
from sim.interfaces import RunningTree

HIT_TOKENS = 16
"""Growth of the mean context, tokens, after which hit ratios are worked out anew."""

_ROUNDING = 1e-9

_ALL_MISS = 1e20
"""Odds of a miss at which `odds / (1 + odds)` is 1 to the last bit."""


@mypyc_attr(allow_interpreted_subclasses=True)
class L2Reads:
    """Reads of one attention layer on one GPU.

    Args:
        l2: hit curve; None: nothing hits.
        token_bytes: keys and values of a token in one layer.
        drift_tokens: tokens by which requests of a wave run apart.
        member_order: order in which requests take the processors.

    Attributes:
        has_l2: whether anything hits.
        drift_tokens: as above.
        curve: of the reads that miss: midpoints of the hit curve per token, exponent, and midpoints
            from which all miss.
    """

    def __init__(
        self, l2: L2Curve | None, token_bytes: int, drift_tokens: float, member_order: MemberOrder
    ) -> None:
        self.has_l2 = l2 is not None
        self.drift_tokens = drift_tokens
        self.curve = (0.0, 1.0, 1.0)
        if l2 is not None:
            scale, exponent = token_bytes / l2.midpoint_bytes, 1.0 / l2.log_width
            self.curve = scale, exponent, _ALL_MISS**l2.log_width
        self._member_order = member_order
        self._counts: dict[tuple[float, float], list[float]] = {}
        self._waves: dict[float, dict[int, tuple[float, list[float]]]] = {}

    def saved_tokens(
        self,
        batch_size: int,
        context_tokens: int,
        tree: RunningTree,
        requests_per_wave: float,
        common: int = 0,
    ) -> float:
        """Context tokens that do not come from HBM in a step; negative, to be added.

        It is the same for all steps of a batch in which the sum of the contexts lies between the
        same multiples of `HIT_TOKENS * batch_size`.

        Args:
            batch_size: decoding requests.
            context_tokens: sum of their contexts, without the common tokens.
            tree: their prefix tree.
            requests_per_wave: requests whose thread blocks run together.
            common: leading tokens of all of them that are read elsewhere and left out.
        """
        if not self.has_l2:
            return 0.0
        try:
            waves, in_waves = self._waves[requests_per_wave][batch_size]
        except KeyError:
            waves, in_waves = self.waves(batch_size, requests_per_wave)
        # Tokens of the shared nodes: each once, for every member, for every wave that reads them.
        once = tree.shared_tokens - common
        spread = float(once)
        path = tree.path_tokens - batch_size * common
        if waves > 1.0:
            spread = -common * in_waves[batch_size]
            for members, tokens in tree.tokens_by_members.items():
                spread += tokens * in_waves[members]
        scale, exponent, largest = self.curve
        per_block = HIT_TOKENS * batch_size
        bound = (context_tokens // per_block + 1) * per_block
        wave = within = (bound - path + spread) / waves * scale
        drift = self.drift_tokens * batch_size / bound
        if drift < 1.0:
            within *= drift
        # The share of reads that miss, twice the same lines, for a call would take as long.
        missed = 1.0
        if within < largest:
            odds = within**exponent
            missed = odds / (1.0 + odds)
        saved = once - path + (path - spread) * missed
        if waves > 1.0:
            missed = 1.0
            if wave < largest:
                odds = wave**exponent
                missed = odds / (1.0 + odds)
            saved += (spread - once) * missed
        return saved

    def waves(self, batch_size: int, requests_per_wave: float) -> tuple[float, list[float]]:
        """Waves of a batch, and how many of them read a node, by its number of members.

        One wave reads every node, so that there is no list.
        """
        waves = float(ceil(batch_size / requests_per_wave - _ROUNDING) or 1)
        in_waves: list[float] = []
        if waves == 1.0 or not self.has_l2:
            waves = 1.0
        else:
            in_waves = self._counts.get((requests_per_wave, waves), in_waves)
            if len(in_waves) <= batch_size:
                in_waves = self._count_waves(requests_per_wave, waves, batch_size)
        self._waves.setdefault(requests_per_wave, {})[batch_size] = waves, in_waves
        return waves, in_waves

    def _count_waves(self, requests_per_wave: float, waves: float, batch_size: int) -> list[float]:
        """Waves that read a node, by its number of members up to twice the batch size."""
        members = range(1, 2 * batch_size + 1)
        counts = waves_with_node(members, waves, requests_per_wave, self._member_order)
        found = self._counts[requests_per_wave, waves] = [0.0, *counts.tolist()]
        return found
