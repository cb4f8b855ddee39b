"""The macro-stepping SGLang engine gives what the per-token twin gives, step for step."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sim.records import SimulationResult
from tests.engine_runs import token_steps
from tests.sglang_runs import options_of, random_limits, run_sglang
from tests.twin.loops import random_loop
from tests.twin.stories import Ask, workload_of
from tests.twin.workloads import random_workload
from tests.twin_sglang.request import TwinResult
from tests.twin_sglang.scheduler import Limits, run_twin

seeds = st.integers(0, 2**32)


def run_both(
    seed: int, *, structured: bool, is_loop: bool, macro_steps: bool
) -> tuple[TwinResult, SimulationResult]:
    load = random_loop if is_loop else random_workload
    workload, _ = load(seed, structured=structured, max_requests=40)
    limits = random_limits(seed, workload)
    ours = run_sglang(workload, macro_steps=macro_steps, **options_of(limits))
    return run_twin(workload, limits), ours


@pytest.mark.parametrize("macro_steps", [True, False], ids=["macro", "plain"])
@settings(max_examples=100, deadline=None)
@given(seed=seeds, structured=st.booleans(), is_loop=st.booleans())
@example(seed=78, structured=False, is_loop=True)  # a retraction after an eviction in vain
def test_admissions_hits_retractions_and_tokens_equal_those_of_the_per_token_twin(
    macro_steps: bool, seed: int, structured: bool, is_loop: bool
) -> None:
    check_equal(*run_both(seed, structured=structured, is_loop=is_loop, macro_steps=macro_steps))


@pytest.mark.parametrize("macro_steps", [True, False], ids=["macro", "plain"])
@pytest.mark.parametrize(("num_tokens", "found"), [(33, 0), (100, 1)])
def test_a_decode_step_that_does_not_fit_has_evicted_everything_when_it_retracts(
    macro_steps: bool, num_tokens: int, found: int
) -> None:
    # Of 33 tokens 1 is left of the first request, 22 are prompts, and 10 serve 5 decode steps of
    # two. The sixth step evicts that 1 token in vain before the third request is retracted, which
    # frees enough. The fourth looks for the token when the second has ended, at 9.
    workload = workload_of(
        [Ask(0, 1, 1, (0,)), Ask(0.5, 10, 8), Ask(0.5, 12, 8), Ask(7.5, 4, 1, (0,))], [(-1, 1)]
    )
    limits = Limits(
        num_tokens=num_tokens,
        max_running_requests=8,
        chunked_prefill_size=64,
        start_ratio=0.01,
        min_ratio=0.01,
        retract_decode_steps=1,
        clip=1,
    )
    twin = run_twin(workload, limits)
    ours = run_sglang(workload, macro_steps=macro_steps, **options_of(limits))
    assert [request.hits[0] for request in twin.requests] == [0, 0, 0, found]
    assert [request.retractions for request in twin.requests] == [0, 0, 1 - found, 0]
    check_equal(twin, ours)


@pytest.mark.parametrize("macro_steps", [True, False], ids=["macro", "plain"])
@pytest.mark.parametrize(("order", "found"), [("abc", 15), ("acb", 10)])
def test_requests_are_cached_in_the_order_of_the_batch_whether_they_go_on_or_end(
    macro_steps: bool, order: str, found: int
) -> None:
    # a and b end with the batch, c goes on and shares 10 tokens with a. It splits the entry of a,
    # whose other 5 tokens are thereby met after b only if c comes after b. Of 37 tokens 23 are in
    # the tree, and 14 serve 14 decode steps; the next one evicts the older of the two leaves. Then
    # a prompt like that of a looks for both parts.
    asks = {"a": Ask(0, 15, 1, (0, 1)), "b": Ask(0, 6, 1, (3,)), "c": Ask(0, 12, 20, (0, 2))}
    nodes = [(-1, 10), (0, 5), (0, 2), (-1, 6)]
    probe = Ask(15.5, 16, 1, (0, 1))
    workload = workload_of([*[asks[name] for name in order], probe], nodes)
    limits = Limits(
        num_tokens=37,
        max_running_requests=8,
        chunked_prefill_size=64,
        start_ratio=0.01,
        min_ratio=0.01,
        clip=1,
    )
    twin = run_twin(workload, limits)
    ours = run_sglang(workload, macro_steps=macro_steps, **options_of(limits))
    assert [request.hits for request in twin.requests] == [[0], [0], [0], [found]]
    check_equal(twin, ours)


def check_equal(twin: TwinResult, ours: SimulationResult) -> None:
    """Admissions, hits, retractions, tokens and times of every request are the same."""
    requests = ours.requests
    assert requests.cached_tokens.tolist() == [r.hits[0] for r in twin.requests]
    assert requests.admitted_s.tolist() == [r.admitted_s[0] for r in twin.requests]
    assert requests.num_preemptions.tolist() == [r.retractions for r in twin.requests]
    assert token_steps(ours) == [r.token_steps for r in twin.requests]
    assert ours.instances[0].step_end_s.tolist() == twin.step_end_s
    assert requests.arrival_s.tolist() == twin.arrival_s


@settings(max_examples=100, deadline=None)
@given(seed=seeds, structured=st.booleans(), is_loop=st.booleans())
@example(seed=78, structured=False, is_loop=True)
def test_the_work_and_the_memory_of_each_step_equal_those_of_the_per_token_twin(
    seed: int, structured: bool, is_loop: bool
) -> None:
    twin, ours = run_both(seed, structured=structured, is_loop=is_loop, macro_steps=False)
    instance = ours.instances[0]
    columns = ("num_decodes", "num_prefills", "prefill_tokens")
    work = zip(*[instance.run_column(name).tolist() for name in columns], strict=True)
    assert list(work) == twin.work
    num_tokens = ours.num_gpu_blocks - 1
    assert instance.run_column("used_blocks").tolist() == [num_tokens - u for u in twin.unheld]
