"""The KV router of NVIDIA Dynamo, in the forms it has had."""

from collections.abc import Sequence
from math import exp
from typing import ClassVar

from policies.routing.assumed_prefixes import AssumedPrefixes, PrefixSource, ReadPrefixes
from policies.routing.best_of import random_best
from policies.routing.option_checks import (
    refuse_not_above,
    refuse_outside,
    refuse_unknown_choice,
    refuse_unread,
)
from sim.interfaces import ClusterView, Router
from sim.request import Request
from sim.rng import stream

FORMULAS = ("ratio", "blocks", "credits", "lmetric")

OVERLAP_SCORE_WEIGHT = 1.0
"""Source: Dynamo documentation, v0.4."""

PREFILL_LOAD_SCALE = 1.0
DEVICE_CREDIT = 1.0
"""Source: Dynamo documentation, 2026 (host 0.75 and disk 0.25: those tiers are not modelled)."""

TTL_S = 120.0
MAX_TREE_BLOCKS = 1_048_576
"""Age at which the index without events forgets, and its size for all instances together. Source:
Dynamo documentation, `router-ttl-secs` and `router-max-tree-size` (v0.7 to 2026; both only with
`no-router-kv-events`)."""


class Dynamo(Router):
    """argmin_i cost_i, or a random draw around it; random among ties.

    With blocks of `block_tokens` tokens: p_i = blocks still to be prefilled on i, those of the
    request included, less what is cached; d_i = blocks held on i and waiting, and all of the
    request's.

    * `ratio` (first versions): minus (2 * hit / prompt - KV usage_i - waiting_i / max waiting).
    * `blocks` (from v0.4 on): overlap_score_weight * p_i + d_i.
    * `credits` (newest): prefill_load_scale * a_i + d_i, a_i = blocks to prefill with the request's
      whole prompt, less device_credit * blocks hit, at least 0.
    * `lmetric` (newest, by choice): a_i * (d_i + 1).

    With a temperature t > 0: i is drawn with weight exp(-(cost_i - min) / ((max - min) * t)).

    Args:
        formula: one of the above.
        temperature: t.
        overlap_score_weight: only for `blocks`; null is 1.
        prefill_load_scale: only for `credits`; null is 1.
        device_credit: only for `credits` and `lmetric`; null is 1.
        block_tokens: tokens per block.
        prefix_index: "exact": events of the caches; "assumed": what was sent, forgotten after
            `ttl_s` or where more than `max_tree_blocks` were sent.
        ttl_s: only for "assumed", seconds; null is 120.
        max_tree_blocks: only for "assumed", blocks of all instances together; null is 1,048,576.
        seed: the run's seed; draws come from its stream "routing.dynamo".

    Raises:
        ConfigError: an option is unknown, out of range or not read.

    Source: NVIDIA Dynamo documentation, v0.4 to 2026. Not modelled: blocks shared by running
    requests count once for each of them; the queue at the router (off in some versions, at 2 or 4
    times the token budget of every worker in others); lower tiers.
    """

    uses_prefix_match = True
    uses_kv_usage = True
    smaller_is_better: ClassVar[bool] = True

    def __init__(
        self,
        formula: str = "blocks",
        temperature: float = 0.0,
        overlap_score_weight: float | None = None,
        prefill_load_scale: float | None = None,
        device_credit: float | None = None,
        block_tokens: int = 16,
        prefix_index: str = "exact",
        ttl_s: float | None = None,
        max_tree_blocks: int | None = None,
        seed: int = 0,
    ) -> None:
        refuse_unknown_choice("formula", formula, FORMULAS)
        refuse_unknown_choice("prefix_index", prefix_index, ("exact", "assumed"))
        refuse_outside("temperature", temperature, 0)
        refuse_outside("block_tokens", block_tokens, 1)
        readers = {
            "overlap_score_weight": (overlap_score_weight, ("blocks",)),
            "prefill_load_scale": (prefill_load_scale, ("credits",)),
            "device_credit": (device_credit, ("credits", "lmetric")),
        }
        for name, (value, formulas) in readers.items():
            if formula not in formulas:
                refuse_unread({name: value}, f"routing.formula={formula}")
            elif value is not None:
                refuse_outside(name, value, 0)
        self._prefixes: PrefixSource = ReadPrefixes()
        if prefix_index == "assumed":
            age_s = TTL_S if ttl_s is None else ttl_s
            refuse_not_above("ttl_s", age_s)
            most = MAX_TREE_BLOCKS if max_tree_blocks is None else max_tree_blocks
            refuse_outside("max_tree_blocks", most, 1)
            self._prefixes = AssumedPrefixes(block_tokens, ttl_s=age_s, max_total_blocks=most)
        else:
            unread = {"ttl_s": ttl_s, "max_tree_blocks": max_tree_blocks}
            refuse_unread(unread, "routing.prefix_index=exact")
        self.uses_prefix_match = prefix_index == "exact"
        self.uses_kv_usage = formula == "ratio"
        self._formula = formula
        self._temperature = temperature
        self._weight = (
            OVERLAP_SCORE_WEIGHT if overlap_score_weight is None else overlap_score_weight
        )
        self._scale = PREFILL_LOAD_SCALE if prefill_load_scale is None else prefill_load_scale
        self._credit = DEVICE_CREDIT if device_credit is None else device_credit
        self._block_tokens = block_tokens
        self.tie_rng = stream(seed, "routing.dynamo")
        self.last_scores: Sequence[float] | None = None

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        """Instance with the smallest cost, or one near it."""
        matched = self._prefixes.matched_tokens(request, cluster, now_s)
        if self._formula == "ratio":
            costs = _ratio_costs(request, cluster, matched)
        else:
            costs = self._block_costs(request, cluster, matched)
        self.last_scores = costs
        choice = self._draw(costs)
        self._prefixes.record(request, choice, now_s)
        return choice

    def _block_costs(
        self, request: Request, cluster: ClusterView, matched: Sequence[int]
    ) -> list[float]:
        size, prompt = self._block_tokens, request.prompt_tokens
        costs: list[float] = []
        for queued, found, held, hit in zip(
            cluster.queued_prefill_tokens,
            cluster.queued_hit_tokens,
            cluster.kv_tokens(),
            matched,
            strict=True,
        ):
            decode = (held + queued + prompt) / size
            if self._formula == "blocks":
                costs.append(self._weight * (queued - found + prompt - hit) / size + decode)
                continue
            adjusted = max(0.0, (queued - found + prompt - self._credit * hit) / size)
            if self._formula == "credits":
                costs.append(self._scale * adjusted + decode)
            else:
                costs.append(adjusted * (decode + 1))
        return costs

    def _draw(self, costs: Sequence[float]) -> int:
        least, spread = min(costs), max(costs) - min(costs)
        if not (self._temperature and spread):
            return random_best([-cost for cost in costs], self.tie_rng)
        scale = spread * self._temperature
        weights = [exp((least - cost) / scale) for cost in costs]
        left = self.tie_rng.random() * sum(weights)
        for i, weight in enumerate(weights):
            left -= weight
            if left < 0:
                return i
        return len(costs) - 1


def _ratio_costs(request: Request, cluster: ClusterView, matched: Sequence[int]) -> list[float]:
    prompt, waiting = request.prompt_tokens, cluster.num_waiting
    most = max(waiting)
    return [
        usage + (queue / most if most else 0.0) - 2 * hit / prompt
        for hit, usage, queue in zip(matched, cluster.kv_usage(), waiting, strict=True)
    ]
