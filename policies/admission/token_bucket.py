"""Rate limit on prompt tokens."""

import math

from sim.errors import ConfigError
from sim.interfaces import AdmissionPolicy
from sim.request import Request

ROUNDING_RATIO = 1e-9
"""Shortage, as a fraction of the burst, that is put down to floating-point time. Ours."""


class TokenBucket(AdmissionPolicy):
    """Admit a request iff prompt_tokens <= level, and then take them out of the bucket.

    level(t) = min(burst, level(t') + rate * (t - t')), full at t = 0. A refused request takes
    nothing and does not come back. A prompt longer than the burst can never pass.

    Args:
        rate_tokens_per_s: refill, prompt tokens per second, > 0. Default: what one A100 prefills of
            an 8-billion-parameter model, to the order of magnitude.
        burst_tokens: capacity of the bucket, prompt tokens, >= 1. Default: the longest context of
            Llama 3.1, so that no prompt is shut out.

    Raises:
        ConfigError: a value is not a number in its range.

    Source: token bucket filter of RFC 2215, section 3.6 (r, b), counting prompt tokens in place of
    bytes; defaults are ours.
    """

    def __init__(
        self, rate_tokens_per_s: float = 20_000.0, burst_tokens: float = 131_072.0
    ) -> None:
        if not _is_finite(rate_tokens_per_s) or rate_tokens_per_s <= 0:
            raise ConfigError(
                f"admission.rate_tokens_per_s={rate_tokens_per_s!r}: must be a finite number > 0"
            )
        if not _is_finite(burst_tokens) or burst_tokens < 1:
            raise ConfigError(
                f"admission.burst_tokens={burst_tokens!r}: must be a finite number >= 1"
            )
        self._rate_tokens_per_s = rate_tokens_per_s
        self._burst_tokens = burst_tokens
        self._level_tokens = float(burst_tokens)
        self._updated_s = 0.0

    def admit(self, request: Request, now_s: float) -> bool:
        """Whether the bucket holds the prompt's tokens; takes them if so."""
        refill_tokens = self._rate_tokens_per_s * (now_s - self._updated_s)
        level_tokens = min(self._burst_tokens, self._level_tokens + refill_tokens)
        self._updated_s = now_s
        prompt_tokens = request.prompt_tokens
        slack_tokens = ROUNDING_RATIO * self._burst_tokens
        may_enter = prompt_tokens <= min(level_tokens + slack_tokens, self._burst_tokens)
        self._level_tokens = level_tokens - prompt_tokens if may_enter else level_tokens
        return may_enter


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
