"""Retraction of SGLang, by hand: when, who, what it frees, and the ratio after it."""

import pytest

from policies.batching.fcfs import FCFS
from sim.interfaces import InstanceView
from sim.request import Request
from tests.engine_runs import token_steps
from tests.sglang_runs import run_sglang
from tests.twin.stories import Ask, workload_of
from tests.unit.sim.probes import rows

BOLD = {"init_new_token_ratio": 0.01}
"""Reserves next to nothing, so that decodes run out of tokens."""


def test_of_equal_output_the_longest_prompt_goes_first() -> None:
    # 40 - 22 tokens are 9 steps of two requests. The second then frees 9 + 12; the first goes on
    # alone and ends at 16; the second prefills 12 + 10 tokens anew.
    asks = [Ask(0, 10, 15), Ask(0.5, 12, 15)]
    result = run_sglang(workload_of(asks), num_tokens=40, rules=BOLD)
    assert result.requests.num_preemptions.tolist() == [0, 1]
    assert token_steps(result) == [
        [1, *range(3, 17)],
        [*range(2, 12), *range(17, 22)],
    ]


def test_the_fewest_output_goes_first_whatever_the_prompt() -> None:
    # After 8 steps of both 1 token is left; the longer prompt has 12 tokens of output, the other 9.
    asks = [Ask(0, 14, 15), Ask(3.5, 8, 15)]
    result = run_sglang(workload_of(asks), num_tokens=42, rules=BOLD)
    assert result.requests.num_preemptions.tolist() == [0, 1]


def test_of_equal_requests_the_one_running_last_goes_first() -> None:
    asks = [Ask(0, 5, 30), Ask(0.5, 5, 29)]
    result = run_sglang(workload_of(asks), num_tokens=40, rules=BOLD)
    assert result.requests.num_preemptions.tolist() == [0, 1]


@pytest.mark.parametrize(("num_tokens", "prefill_tokens"), [(62, 21), (60, 32)])
def test_room_is_made_for_20_steps_of_each_that_stays(num_tokens: int, prefill_tokens: int) -> None:
    # After 20 (19) steps of both the second gives back 20 (19) tokens. Where that is less than 20,
    # its prompt, the only leaf, is evicted at once.
    asks = [Ask(0, 10, 30), Ask(0.5, 12, 30)]
    result = run_sglang(workload_of(asks), num_tokens=num_tokens, rules=BOLD)
    assert result.requests.num_preemptions.tolist() == [0, 1]
    prefills = [row for row in rows(result, "num_prefills", "prefill_tokens") if row[0]]
    assert prefills == [(1, 10), (1, 12), (1, prefill_tokens)]


def test_retracted_requests_join_the_tail_of_the_queue() -> None:
    asks = [Ask(0, 10, 15), Ask(0.5, 12, 15), Ask(9.5, 30, 1)]
    result = run_sglang(workload_of(asks), num_tokens=40, rules=BOLD)
    assert result.requests.num_preemptions.tolist() == [0, 1, 0]
    assert token_steps(result)[2] == [17]
    assert token_steps(result)[1][10:] == [18, 19, 20, 21, 22]


class Noting(FCFS):
    """Notes the ratio whenever it is asked."""

    def __init__(self) -> None:
        self.ratios: list[float] = []

    def candidates(self, instance: InstanceView, now_s: float) -> list[Request]:
        batch = instance.batch  # type: ignore[attr-defined]
        self.ratios.append(batch.ratio.at(batch.clock))
        return list(instance.waiting.values())


def test_the_ratio_after_a_retraction_follows_from_those_that_stay() -> None:
    # The first has 10 of 99 tokens when the second goes; the decode step then planned does not
    # lower the ratio.
    policy = Noting()
    asks = [Ask(0, 10, 99), Ask(0.5, 12, 60)]
    result = run_sglang(
        workload_of(asks), num_tokens=110, rules=BOLD, batching=lambda _: policy, horizon_s=60
    )
    generated = 1 + (110 - 22) // 2
    assert result.requests.num_preemptions.tolist() == [0, 1]
    assert policy.ratios == [0.01, 0.01, (generated + 20) / 100]
