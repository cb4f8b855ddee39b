"""Token bucket arithmetic at exact times."""

import math
from typing import Any

import pytest

from policies.admission.always import Always
from policies.admission.token_bucket import TokenBucket
from policies.routing.round_robin import RoundRobin
from sim.errors import ConfigError
from sim.recorder import NOT_REJECTED, REFUSED
from tests.unit.policies.clusters import play, request


def bucket(rate: float = 10.0, burst: float = 100.0) -> TokenBucket:
    return TokenBucket(rate_tokens_per_s=rate, burst_tokens=burst)


def decisions(policy: TokenBucket, asks: list[tuple[float, int]]) -> list[bool]:
    """Answers to (time in seconds, prompt tokens) in a row."""
    return [policy.admit(request(prompt_tokens=tokens), now_s) for now_s, tokens in asks]


def test_it_starts_full_and_holds_exactly_the_burst() -> None:
    assert decisions(bucket(), [(0.0, 60), (0.0, 40), (0.0, 1)]) == [True, True, False]


def test_it_refills_at_the_rate() -> None:
    asks = [(0.0, 100), (2.0, 21), (2.0, 20), (2.0, 1), (2.125, 1), (2.25, 2)]
    assert decisions(bucket(), asks) == [True, False, True, False, True, False]


def test_it_never_holds_more_than_the_burst() -> None:
    assert decisions(bucket(), [(1000.0, 100), (1000.0, 1)]) == [True, False]
    assert decisions(bucket(), [(0.0, 50), (100.0, 60), (100.0, 41)]) == [True, True, False]


def test_a_refused_request_takes_nothing() -> None:
    asks = [(0.0, 90), (0.0, 50), (0.0, 50), (0.0, 10)]
    assert decisions(bucket(), asks) == [True, False, False, True]


def test_a_prompt_longer_than_the_burst_never_passes() -> None:
    assert decisions(bucket(), [(0.0, 101), (1e9, 101), (1e9, 100)]) == [False, False, True]
    big = 4_000_000_000
    assert decisions(bucket(burst=big), [(0.0, big + 1), (0.0, big)]) == [False, True]


def test_rounding_of_times_refuses_nobody() -> None:
    # 0.3 - 0.2 is a little less than 0.1 in floating point; the refill is meant to be 100 tokens.
    assert 1000.0 * (0.3 - 0.2) < 100.0
    asks = [(0.0, 100), (0.2, 100), (0.3, 100), (0.3, 1)]
    assert decisions(bucket(rate=1000.0), asks) == [True, True, True, False]


def test_refused_requests_are_rejected_and_counted() -> None:
    result = play(RoundRobin(), [0.0, 0.5, 1.0, 4.0], prompts=[80, 40, 30, 30], admission=bucket())
    reasons = result.requests.reject_reason.tolist()
    assert reasons == [NOT_REJECTED, REFUSED, NOT_REJECTED, NOT_REJECTED]
    assert (result.num_rejected, result.num_finished) == (1, 3)
    assert result.requests.instance.tolist() == [0, -1, 1, 0]


def test_always_admits_what_a_bucket_refuses() -> None:
    result = play(RoundRobin(), [0.0] * 5, prompts=10_000, admission=Always())
    assert (result.num_rejected, result.num_finished) == (0, 5)


@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, "fast", None, True])
def test_a_rate_out_of_range_is_refused_in_one_line(value: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        TokenBucket(rate_tokens_per_s=value)
    expected = f"admission.rate_tokens_per_s={value!r}: must be a finite number > 0"
    assert str(caught.value) == expected


@pytest.mark.parametrize("value", [0, 0.5, -8, math.nan, math.inf, "big", None, True])
def test_a_burst_out_of_range_is_refused_in_one_line(value: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        TokenBucket(burst_tokens=value)
    assert str(caught.value) == f"admission.burst_tokens={value!r}: must be a finite number >= 1"
