"""Cases: their ids, sizes and mistakes."""

from dataclasses import replace

import pytest

from hwmodels.microbench.cases import (
    CASES,
    CopyCase,
    DecodeAttentionCase,
    GemmCase,
    MixedCase,
    PackedCase,
    PrefillCase,
    SharedPrefixCase,
    case_of,
)
from hwmodels.microbench.errors import CaseError
from hwmodels.microbench.plans import PLANS, planned_cases
from tests.unit.hwmodels.microbench.stand_in import A100


def shared(member_order: str = "contiguous") -> SharedPrefixCase:
    case = case_of(
        "shared_prefix",
        {
            "groups": 2,
            "members": 3,
            "prefix_tokens": 1024,
            "suffix_tokens": 16,
            "num_heads": 32,
            "num_kv_heads": 8,
            "member_order": member_order,
            "cache": "cold",
        },
    )
    assert isinstance(case, SharedPrefixCase)
    return case


def test_an_id_names_the_benchmark_and_its_parameters_in_sorted_order() -> None:
    assert GemmCase(m=1, n=2, k=3, impl="triton").id == "gemm:impl=triton,k=3,m=1,n=2"
    copy = CopyCase(direction="h2d", num_bytes=8, pinned=False)
    assert copy.id == "copy:direction=h2d,num_bytes=8,pinned=false"


def test_a_case_comes_back_from_its_parameters() -> None:
    for item in planned_cases(PLANS["a100"], A100):
        assert case_of(item.case.name, item.case.params) == item.case


def test_a_shared_prefix_is_stored_once_and_read_by_every_member() -> None:
    case = shared()
    token_bytes = 2 * 2 * 128 * 8
    query_bytes = 2 * 2 * 128 * 32 * 6
    assert case.num_bytes == (2 * 1024 + 6 * 16) * token_bytes + query_bytes
    assert case.read_bytes == 6 * (1024 + 16) * token_bytes + query_bytes
    assert case.num_flops == 4 * 6 * (1024 + 16) * 32 * 128


def test_members_lie_side_by_side_or_in_turn() -> None:
    assert shared("contiguous").group_of_request == [0, 0, 0, 1, 1, 1]
    assert shared("interleaved").group_of_request == [0, 1, 0, 1, 0, 1]


def test_unequal_contexts() -> None:
    heads = {"num_heads": 8, "num_kv_heads": 1}
    one = DecodeAttentionCase(**heads, batch=3, context=10, lengths="one_long", ratio=4)
    spread = DecodeAttentionCase(**heads, batch=5, context=10, lengths="spread", ratio=5)
    assert one.contexts == [10, 10, 40]
    assert sorted(spread.contexts) == [10, 20, 30, 40, 50]
    assert spread.num_pairs == 150


def test_a_chunk_sees_its_prefix_and_itself_up_to_each_token() -> None:
    heads = {"num_heads": 8, "num_kv_heads": 1}
    prefill = PrefillCase(**heads, chunk_tokens=3, prefix_tokens=10, batch=2)
    mixed = MixedCase(**heads, batch=4, context=7, chunk_tokens=3, prefix_tokens=10, form="fused")
    assert prefill.num_pairs == 2 * (11 + 12 + 13)
    assert mixed.num_pairs == 4 * 7 + 11 + 12 + 13
    assert prefill.num_bytes == 2 * 13 * 512 + 2 * 2 * 128 * 8 * 6


def test_a_packed_tree_reads_each_token_once() -> None:
    case = PackedCase(
        groups=2, members=3, prefix_tokens=100, suffix_tokens=5, num_heads=8, num_kv_heads=8
    )
    assert case.read_bytes == case.num_bytes == (200 + 30) * 4096 + 2 * 2 * 128 * 8 * 6


@pytest.mark.parametrize(
    ("name", "params", "line"),
    [
        ("sort", {}, "unknown case 'sort'; allowed: stream, gemm"),
        ("gemm", {"m": 1, "n": 1, "k": 1}, "gemm: missing parameter impl"),
        ("stream", {"op": "read", "data_set_bytes": 1, "x": 2}, "stream: unknown parameter x"),
        ("stream", {"op": "write", "data_set_bytes": 1}, "op must be one of read, triad"),
        ("stream", {"op": "read", "data_set_bytes": 0}, "whole number of at least 1, found 0"),
        ("stream", {"op": "read", "data_set_bytes": True}, "of at least 1, found True"),
        ("stream", {"op": "read", "data_set_bytes": 2.0}, "of at least 1, found 2.0"),
        ("copy", {"direction": "h2d", "num_bytes": 1, "pinned": 1}, "pinned must be true or false"),
    ],
)
def test_a_wrong_parameter_gets_one_line(name: str, params: dict[str, object], line: str) -> None:
    with pytest.raises(CaseError, match=line):
        case_of(name, params)


def test_heads_must_form_whole_groups_and_equal_lengths_have_no_ratio() -> None:
    with pytest.raises(CaseError, match="num_heads 6 must be a multiple of num_kv_heads 4"):
        PrefillCase(num_heads=6, num_kv_heads=4, chunk_tokens=1, prefix_tokens=0)
    with pytest.raises(CaseError, match="equal lengths have ratio 1, found 4"):
        DecodeAttentionCase(num_heads=4, num_kv_heads=4, batch=2, context=8, ratio=4)


def test_a_shared_prefix_ends_with_a_page() -> None:
    params = {**shared().params, "prefix_tokens": 1000}
    with pytest.raises(CaseError, match="prefix_tokens must be a multiple of 16, found 1000"):
        case_of("shared_prefix", params)


def test_every_benchmark_is_in_a_plan() -> None:
    planned = planned_cases(PLANS["a100"], replace(A100, num_gpus=8))
    assert {item.case.name for item in planned} == set(CASES)
