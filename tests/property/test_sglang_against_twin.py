"""The macro-stepping SGLang engine gives what the per-token twin gives, step for step."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.records import SimulationResult
from tests.engine_runs import token_steps
from tests.sglang_runs import options_of, random_limits, run_sglang
from tests.twin.loops import random_loop
from tests.twin.workloads import random_workload
from tests.twin_sglang.request import TwinResult
from tests.twin_sglang.scheduler import run_twin

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
@settings(max_examples=50, deadline=None)
@given(seed=seeds, structured=st.booleans())
def test_admissions_hits_retractions_and_tokens_equal_those_of_the_per_token_twin(
    macro_steps: bool, seed: int, structured: bool
) -> None:
    check_equal(*run_both(seed, structured=structured, is_loop=False, macro_steps=macro_steps))


@pytest.mark.parametrize("macro_steps", [True, False], ids=["macro", "plain"])
@pytest.mark.parametrize("structured", [True, False])
def test_the_same_in_closed_loops(macro_steps: bool, structured: bool) -> None:
    for seed in range(40):
        check_equal(*run_both(seed, structured=structured, is_loop=True, macro_steps=macro_steps))


@pytest.mark.xfail(reason="known: one token more is found in about one of 120 closed loops")
def test_a_closed_loop_in_which_one_request_finds_a_token_more() -> None:
    check_equal(*run_both(78, structured=False, is_loop=True, macro_steps=False))


def check_equal(twin: TwinResult, ours: SimulationResult) -> None:
    """Admissions, hits, retractions, tokens and times of every request are the same."""
    requests = ours.requests
    assert requests.cached_tokens.tolist() == [r.hits[0] for r in twin.requests]
    assert requests.admitted_s.tolist() == [r.admitted_s[0] for r in twin.requests]
    assert requests.num_preemptions.tolist() == [r.retractions for r in twin.requests]
    assert token_steps(ours) == [r.token_steps for r in twin.requests]
    assert ours.instances[0].step_end_s.tolist() == twin.step_end_s
    assert requests.arrival_s.tolist() == twin.arrival_s


@settings(max_examples=50, deadline=None)
@given(seed=seeds, structured=st.booleans())
def test_the_work_and_the_memory_of_each_step_equal_those_of_the_per_token_twin(
    seed: int, structured: bool
) -> None:
    twin, ours = run_both(seed, structured=structured, is_loop=False, macro_steps=False)
    instance = ours.instances[0]
    columns = ("num_decodes", "num_prefills", "prefill_tokens")
    work = zip(*[instance.run_column(name).tolist() for name in columns], strict=True)
    assert list(work) == twin.work
    num_tokens = ours.num_gpu_blocks - 1
    assert instance.run_column("used_blocks").tolist() == [num_tokens - u for u in twin.unheld]
