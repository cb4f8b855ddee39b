"""Step times that a router predicts with, from constants of its own.

A router has no cost model of the engine it sends to; it has a fit. The simulator's own prices stay
unknown to it, so that a wrong fit shows in the results.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from policies.routing.option_checks import refuse_outside
from sim.interfaces import ClusterView

BASE_S = 7.5e-3
TOKEN_S = 5e-5
PAIR_S = 8e-9
CONTEXT_S = 6e-7
"""Seconds of a step, and per token computed, per pair of prefill attention, per context token of
a decode. Source: cache_delay_eval (fit to vLLM v1 on an A30); refit for another GPU or model."""

TOKEN_BUDGET = 2048
"""Tokens per step. Source: as above."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What one instance would give a request.

    Attributes:
        ttft_s: from now to the first token, seconds.
        tpot_s: duration of a decode step that includes it, seconds.
        prefill_s: its own share of the prefill work, seconds.
    """

    ttft_s: float
    tpot_s: float
    prefill_s: float


class PredictedTimes:
    """Linear step times.

    With W = tokens queued on the instance (less those found cached) + tokens of the request that
    miss, C = tokens held by running requests, n = requests there:
    ttft = ceil(W / token_budget) * (base + context * C) + token * W + pair * pairs, where pairs are
    those of the request alone, misses * (hit + (misses + 1) / 2);
    tpot = base + context * (C + prompt) + token * (n + 1).

    Args:
        base_s: seconds per step.
        token_s: seconds per token computed.
        pair_s: seconds per pair of a prefilled token and a token before it.
        context_s: seconds per token that decoding requests hold.
        token_budget: tokens per step.

    Raises:
        ConfigError: a constant is out of range.
    """

    def __init__(
        self,
        base_s: float,
        token_s: float,
        pair_s: float,
        context_s: float,
        token_budget: int,
    ) -> None:
        constants = {
            "base_s": base_s,
            "token_s": token_s,
            "pair_s": pair_s,
            "context_s": context_s,
        }
        for name, value in constants.items():
            refuse_outside(name, value, 0)
        refuse_outside("token_budget", token_budget, 1)
        self._base_s = base_s
        self._token_s = token_s
        self._pair_s = pair_s
        self._context_s = context_s
        self._token_budget = token_budget

    def of_instances(
        self, prompt_tokens: int, matched: Sequence[int], cluster: ClusterView
    ) -> list[Prediction]:
        """One prediction per instance.

        Args:
            prompt_tokens: prompt of the request, tokens.
            matched: its hit on each instance, tokens.
            cluster: what the router sees.
        """
        columns = zip(
            matched,
            cluster.queued_prefill_tokens,
            cluster.queued_hit_tokens,
            cluster.kv_tokens(),
            cluster.num_requests,
            strict=True,
        )
        return [
            self._predict(prompt_tokens, hit, queued - found, held, size)
            for hit, queued, found, held, size in columns
        ]

    def _predict(
        self, prompt: int, hit: int, queued_tokens: int, held_tokens: int, num_requests: int
    ) -> Prediction:
        missed = prompt - hit
        work = queued_tokens + missed
        num_steps = -(-work // self._token_budget)
        prefill_s = self._token_s * missed + self._pair_s * missed * (hit + (missed + 1) / 2)
        step_s = self._base_s + self._context_s * held_tokens
        return Prediction(
            ttft_s=num_steps * step_s + self._token_s * queued_tokens + prefill_s,
            tpot_s=step_s + self._context_s * prompt + self._token_s * (num_requests + 1),
            prefill_s=prefill_s,
        )
