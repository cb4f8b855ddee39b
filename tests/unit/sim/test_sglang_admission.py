"""Admission of SGLang, by hand: what is reserved, what is charged, when the batch is full."""

import pytest

from sim.prefill_adder import PrefillAdder, Verdict
from tests.engine_runs import token_steps
from tests.sglang_runs import run_sglang
from tests.twin.stories import Ask, workload_of
from tests.unit.sim.probes import work
from tests.unit.sim.radix_stories import Story


@pytest.mark.parametrize(("prompt", "is_admitted"), [(5026, True), (5027, False)])
def test_at_most_4096_tokens_of_output_count(prompt: int, is_admitted: bool) -> None:
    # The first holds 10 tokens and has 9,999 to come: 4,096 * 0.7 = 2,867.2 of 11,990 are
    # reserved. Of the second 4,096 of 5,000 count: 5,026 + 4,096 < 9,122.8.
    asks = [Ask(0, 10, 10_000), Ask(0.5, prompt, 5_000)]
    result = run_sglang(workload_of(asks), num_tokens=12_000, chunk=8192, horizon_s=3)
    assert (result.requests.admitted_s[1] == 1) == is_admitted


def test_output_that_is_reserved_is_clipped_for_each_request_until_less_is_to_come() -> None:
    asks = [Ask(0, 10, 50), Ask(0, 10, 9), Ask(6.5, 40, 1)]
    rules = {"clip_max_new_tokens": 5, "init_new_token_ratio": 1.0}
    rules["min_new_token_ratio_factor"] = 1.0
    # At 7 they hold 16 each and have 43 and 2 to come: 5 + 2 are reserved. 40 + 1 < 81 - 32 - 7.
    for num_tokens, admitted_s in ((81, 7), (80, 10)):
        result = run_sglang(workload_of(asks), num_tokens=num_tokens, rules=rules)
        assert result.requests.admitted_s[2] == admitted_s, num_tokens


@pytest.mark.parametrize(("output", "is_admitted"), [(49, True), (50, False)])
def test_a_request_must_leave_something_over(output: int, is_admitted: bool) -> None:
    # 90 are not held, 20 to come at 0.5: 30 + 49 < 80.
    asks = [Ask(0, 10, 21), Ask(0.5, 30, output)]
    rules = {"init_new_token_ratio": 0.5}
    result = run_sglang(workload_of(asks), num_tokens=100, rules=rules)
    assert (result.requests.admitted_s[1] == 1) == is_admitted


def test_requests_of_one_batch_are_charged_with_all_their_output() -> None:
    # 25 of 52 leave 27 for the second, which needs less than that.
    for output, num_prefills in ((14, 2), (15, 1)):
        asks = [Ask(0, 10, 15), Ask(0, 12, output)]
        result = run_sglang(workload_of(asks), num_tokens=52)
        assert work(result)[0][2] == num_prefills


def test_what_a_request_hits_cannot_be_evicted_for_it() -> None:
    nodes = [(-1, 30)]
    asks = [Ask(0, 30, 1, (0,)), Ask(2, 10, 5), Ask(2.5, 40, 21, (0,))]
    # The cached 30 are evictable until the third locks them: 100 - 10 - 30 less 0.7 * 4.
    rules = {"init_new_token_ratio": 0.5}
    for num_tokens, admitted_s in ((74, 3), (73, 7)):
        result = run_sglang(workload_of(asks, nodes), num_tokens=num_tokens, rules=rules)
        assert result.requests.admitted_s[2] == admitted_s, num_tokens
        assert result.requests.cached_tokens[2] == 30


def test_a_full_batch_looks_at_nobody_until_it_has_shrunk() -> None:
    # At 1 the third does not fit (76 of 80 - 4.9). At 3 the first has ended; the decode step then
    # planned notices, so the third is admitted at 4.
    asks = [Ask(0, 10, 3), Ask(0, 10, 6), Ask(0.5, 60, 16)]
    result = run_sglang(workload_of(asks), num_tokens=100)
    assert token_steps(result)[:2] == [[1, 2, 3], [1, 2, 3, 4, 6, 7]]
    assert result.requests.admitted_s[2] == 4


def test_a_full_batch_is_one_long_run() -> None:
    asks = [Ask(0, 10, 60), Ask(0.5, 60, 16)]
    result = run_sglang(workload_of(asks), num_tokens=100)
    assert work(result)[:2] == [(1, 0, 1, 10), (59, 1, 0, 0)]


def test_a_request_that_ends_with_its_prefill_makes_the_batch_look_again() -> None:
    # At 1 the second is charged with 21 of 90 - 20.3, and the third needs 64. At 2 the second has
    # ended, and what it left in the cache can be evicted.
    asks = [Ask(0, 10, 30), Ask(0.5, 20, 1), Ask(0.5, 60, 4)]
    result = run_sglang(workload_of(asks), num_tokens=100)
    assert result.requests.admitted_s.tolist() == [0, 1, 2]


def test_alone_a_request_is_admitted_whatever_it_reserves() -> None:
    for num_tokens in (20, 19):  # 10 + 10 < 20 fails
        result = run_sglang(workload_of([Ask(0, 10, 10)]), num_tokens=num_tokens)
        assert token_steps(result) == [list(range(1, 11))]


def adder_over(story: Story, chunk: int, *, may_overdraw: bool = True) -> PrefillAdder:
    return PrefillAdder(
        story.kv,
        reserved_tokens=0.0,
        clip_tokens=4096,
        rem_input_tokens=16384,
        rem_chunk_tokens=chunk,
        may_overdraw=may_overdraw,
    )


def test_a_request_that_is_cut_is_charged_with_no_output() -> None:
    story = Story(20)
    # 11 of 20 are charged; with the 9 of its output nothing would be left.
    assert adder_over(story, 11).try_request(story.ask(12, 9)) is Verdict.LAST
    assert adder_over(story, 12).try_request(story.ask(12, 9)) is Verdict.FILLS


def test_the_last_part_of_a_prompt_is_charged_with_the_output() -> None:
    for output, verdict in ((7, Verdict.LAST), (8, Verdict.NO_TOKENS)):
        story = Story(20)
        request = story.ask(12, output)
        request.computed_tokens = 8
        adder = adder_over(story, 6, may_overdraw=False)
        adder.add_chunked(request)
        # 4 + 7 of 20 leave 9 for 7 + 1.
        assert adder.try_request(story.ask(7, 1)) is verdict


def test_what_does_not_fit_is_left_unlocked() -> None:
    story = Story(60, [(-1, 30)])
    story.serve(story.ask(30, path=(0,)))
    adder = adder_over(story, 64, may_overdraw=False)
    assert adder.try_request(story.ask(40, 21, (0,))) is Verdict.NO_TOKENS
    story.check()
    assert adder.try_request(story.ask(40, 19, (0,))) is Verdict.ADDED
