"""Plans: what fits a GPU, in which order."""

from dataclasses import replace

import pytest

from hwmodels.microbench.case import Case
from hwmodels.microbench.cases import SharedPrefixCase, StreamCase
from hwmodels.microbench.errors import MicrobenchError
from hwmodels.microbench.plans import COMPILE_S, PLANS, PlannedCase, plan_of, planned_cases
from hwmodels.microbench.row_format import DeviceInfo
from tests.unit.hwmodels.microbench.stand_in import A100

H200 = replace(
    A100, name="NVIDIA H200", compute_capability="9.0", memory_bytes=150_000_000_000, num_sms=132
)
SMALL = replace(A100, name="RTX 3060", compute_capability="8.6", memory_bytes=12_000_000_000)


@pytest.mark.parametrize(
    ("device", "name"),
    [
        (A100, "a100"),
        (H200, "hopper"),
        (SMALL, "generic"),
        (replace(A100, memory_bytes=42_000_000_000), "generic"),
    ],
)
def test_auto_takes_the_plan_made_for_the_gpu(device: DeviceInfo, name: str) -> None:
    assert plan_of("auto", device).name == name


@pytest.mark.parametrize(
    ("name", "device", "line"),
    [
        ("hopper", A100, "plan hopper is for compute capability 9.0, found NVIDIA A100"),
        ("auto", replace(A100, compute_capability="7.5"), "8.0 or later, found .* with 7.5"),
        ("a100", replace(A100, memory_bytes=42 * 10**9), "needs 75.0 GB .* with 42.0 GB"),
        ("auto", replace(SMALL, memory_bytes=4 * 10**9), "needs 7.5 GB .* with 4.0 GB"),
        ("b200", A100, "unknown plan 'b200'; allowed: auto, a100, hopper, generic"),
    ],
)
def test_a_gpu_that_does_not_fit_gets_one_line(name: str, device: DeviceInfo, line: str) -> None:
    with pytest.raises(MicrobenchError, match=line):
        plan_of(name, device)


def planned(device: DeviceInfo) -> list[PlannedCase]:
    return planned_cases(plan_of("auto", device), device)


def total_s(items: list[PlannedCase]) -> float:
    keys = {item.case.compile_key for item in items}
    return sum(item.cost_s for item in items) + COMPILE_S * len(keys)


@pytest.mark.parametrize("device", [A100, H200, SMALL])
def test_a_plan_fits_the_default_budget(device: DeviceInfo) -> None:
    assert 120 < total_s(planned(device)) < 300


def test_no_case_is_planned_twice_and_order_repeats() -> None:
    ids = [item.case.id for item in planned(A100)]
    assert len(set(ids)) == len(ids)
    assert ids == [item.case.id for item in planned(A100)]
    assert ids != [item.case.id for item in planned_cases(PLANS["a100"], A100, seed=1)]


def test_the_l2_curve_and_shared_prefixes_come_first() -> None:
    names = [item.case.name for item in planned(H200)]
    assert set(names[:20]) == {"stream"}
    assert set(names[20:100]) == {"shared_prefix"}


def test_the_shared_prefix_grid_spans_orders_caches_and_the_l2_size() -> None:
    cases = [item.case for item in planned(A100) if isinstance(item.case, SharedPrefixCase)]
    pairs = {(case.member_order, case.cache) for case in cases}
    assert len(pairs) == 4
    assert min(case.num_bytes for case in cases) < A100.l2_bytes / 4
    assert max(case.num_bytes for case in cases) > A100.l2_bytes * 10
    # One group reads the same in either order.
    assert all(case.groups > 1 for case in cases if case.member_order == "interleaved")


def test_the_a100_curve_is_dense_around_its_midpoint() -> None:
    sizes = sorted(
        item.case.data_set_bytes / 2**20
        for item in planned(A100)
        if isinstance(item.case, StreamCase) and item.case.op == "read"
    )
    assert len([size for size in sizes if 24 <= size <= 56]) >= 10
    assert sizes[-1] == 2048


def test_cases_that_do_not_fit_the_device_are_left_out() -> None:
    def of_peers(device: DeviceInfo) -> list[Case]:
        cases = [item.case for item in planned(device)]
        return [case for case in cases if "p2p" in case.id or case.name == "all_reduce"]

    assert not of_peers(A100)
    assert {case.params.get("num_gpus", 2) for case in of_peers(replace(A100, num_gpus=4))} == {
        2,
        4,
    }
    largest = max(item.case.memory_bytes for item in planned(SMALL))
    assert largest < 0.8 * SMALL.memory_bytes
