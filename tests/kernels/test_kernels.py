"""Every kernel against the float64 reference, and the check against kernels that are wrong."""

import numpy as np
import pytest
import torch

from hwmodels.microbench.cases import (
    AllReduceCase,
    CascadeCase,
    Case,
    CopyCase,
    DecodeAttentionCase,
    MixedCase,
    PackedCase,
    PrefillCase,
)
from hwmodels.microbench.errors import UnmeasurableError
from hwmodels.microbench.kernels.decode_attention import Partials
from hwmodels.microbench.kernels.merge import merge
from hwmodels.microbench.problems import Workspace, problem_of
from hwmodels.microbench.reference import attention, relative_error, sampled
from tests.kernels.tiny_cases import ALL_CASES, Heads

HEADS: Heads = {"num_heads": 4, "num_kv_heads": 2}


@pytest.fixture
def workspace() -> Workspace:
    return Workspace("cpu", num_sms=2, l2_bytes=1 << 14, seed=0)


@pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case.id)
def test_results_are_those_of_the_reference(workspace: Workspace, case: Case) -> None:
    problem = problem_of(workspace, case)
    error = problem.max_error()
    assert (error is None) == (problem.tolerance is None)
    if error is not None and problem.tolerance is not None:
        # fp16 rounds eight times finer than bf16, for which the tolerance is made.
        assert error <= problem.tolerance / 8


@pytest.mark.parametrize(
    "case",
    [
        DecodeAttentionCase(**HEADS, batch=3, context=70),
        DecodeAttentionCase(**HEADS, batch=3, context=200, splits=3),
        PackedCase(**HEADS, groups=2, members=2, prefix_tokens=90, suffix_tokens=33),
        CascadeCase(**HEADS, batch=3, prefix_tokens=90, suffix_tokens=33),
        PrefillCase(**HEADS, chunk_tokens=20, prefix_tokens=60),
        MixedCase(**HEADS, batch=2, context=70, chunk_tokens=20, prefix_tokens=30, form="separate"),
    ],
    ids=lambda case: case.id,
)
def test_the_check_sees_one_wrong_page(
    workspace: Workspace, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = problem_of(workspace, case)
    run = problem.run

    def run_on_other_data() -> None:
        pool = vars(problem)["_values"]
        kept = pool.clone()
        pages = {0, pool.shape[0] // 2}
        for page in pages:
            pool[page] = 0.0
        run()
        pool.copy_(kept)

    monkeypatch.setattr(problem, "run", run_on_other_data)
    error = problem.max_error()
    assert error is not None
    assert problem.tolerance is not None
    assert error > problem.tolerance


def test_results_that_are_not_written_are_wrong(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = problem_of(workspace, DecodeAttentionCase(**HEADS, batch=3, context=70))
    monkeypatch.setattr(problem, "run", lambda: None)
    assert problem.max_error() == float("inf")


def test_the_reference_in_small() -> None:
    query = np.array([[2.0, 0.0], [0.0, 0.0]])
    keys = np.array([[[1.0, 0.0]], [[0.0, 1.0]]])
    values = np.array([[[1.0, 0.0]], [[0.0, 1.0]]])
    weight = 1 / (1 + np.exp(-(2.0**0.5)))
    expected = [[weight, 1 - weight], [0.5, 0.5]]
    np.testing.assert_allclose(attention(query, keys, values), expected)


def test_an_error_is_relative_to_the_largest_result() -> None:
    expected = np.array([1.0, -4.0])
    assert relative_error(np.array([1.0, -4.2]), expected) == pytest.approx(0.05)
    assert relative_error(np.array([1.0, np.nan]), expected) == float("inf")


def test_samples_hold_the_first_and_the_last() -> None:
    rng = np.random.default_rng(0)
    assert list(sampled(3, 5, rng)) == [0, 1, 2]
    found = list(sampled(100, 5, rng))
    assert found[0] == 0
    assert found[-1] == 99
    assert len(set(found)) == 5
    assert found == sorted(found)


def test_a_merge_weighs_parts_by_their_sums_and_skips_empty_ones() -> None:
    values = torch.zeros(3, 1, 1, 128)
    values[0], values[1], values[2] = 1.0, 3.0, 7.0
    log_sums = torch.tensor([1.0, 2.0, -float("inf")]).view(3, 1, 1)
    result = torch.zeros(1, 1, 128, dtype=torch.float16)
    merge(Partials(values=values, log_sums=log_sums), result)
    # Weights 2 and 4 of 6.
    assert result.float().mean().item() == pytest.approx((2 * 1 + 4 * 3) / 6, rel=1e-3)


@pytest.mark.parametrize(
    "case",
    [
        CopyCase(direction="p2p", num_bytes=8, pinned=True),
        AllReduceCase(num_bytes=8, num_gpus=2),
    ],
    ids=lambda case: case.id,
)
def test_what_needs_more_gpus_is_told(workspace: Workspace, case: Case) -> None:
    with pytest.raises(UnmeasurableError, match=r"there (is|are) no"):
        problem_of(workspace, case)


def test_members_of_a_group_share_the_pages_of_their_prefix(workspace: Workspace) -> None:
    from hwmodels.microbench.cases import SharedPrefixCase

    case = SharedPrefixCase(
        **HEADS,
        groups=2,
        members=2,
        prefix_tokens=32,
        suffix_tokens=20,
        member_order="interleaved",
        cache="cold",
    )
    problem = problem_of(workspace, case)
    pages = vars(problem)["_nodes"].pages
    assert pages.shape == (4, 4)
    assert pages[0, :2].equal(pages[2, :2])
    assert pages[1, :2].equal(pages[3, :2])
    # All others are their own: 2 prefixes of 2 pages and 4 suffixes of 2.
    assert sorted(set(pages.flatten().tolist())) == list(range(12))


def test_data_repeats_with_the_seed(workspace: Workspace) -> None:
    other = Workspace("cpu", num_sms=2, l2_bytes=1 << 14, seed=0)
    third = Workspace("cpu", num_sms=2, l2_bytes=1 << 14, seed=1)
    assert workspace.normal(5, 7).equal(other.normal(5, 7))
    assert not workspace.normal(5, 7).equal(third.normal(5, 7))
