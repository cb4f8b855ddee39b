"""Every attention kernel inside the engine: records and accounts do not depend on macro-steps."""

import json
from collections.abc import Mapping
from dataclasses import fields
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwmodels.attention.choice import KernelChoice
from hwmodels.calibrated import CalibratedCost
from hwmodels.device import load_profile
from hwmodels.model_catalogue import load_model
from sim.cost_totals import COST_COLUMNS, CostTotals
from sim.records import SimulationResult
from sim.workload import Workload
from tests.engine_runs import run_engine
from tests.twin.stories import Ask, workload_of
from tests.twin.workloads import random_workload

SECONDS = [i for i, name in enumerate(COST_COLUMNS) if name.endswith("_s")]
SMALL_L2_BYTES = 6e6
"""So small that the batches of these tests lie on the slope of the hit curve."""

CHOICES = [
    KernelChoice(name="flash", mixed_batch="fused_varlen"),
    KernelChoice(name="flash", family="per_head", member_order="contiguous"),
    KernelChoice(name="flash", family="padded"),
    KernelChoice(name="flash_cascade", mixed_batch="fused_varlen"),
    KernelChoice(name="flash_cascade"),
    KernelChoice(name="flashinfer", member_order="contiguous"),
    KernelChoice(name="flash_pat"),
    KernelChoice(name="packed"),
]
GPUS = [
    ("a100_sxm_80gb", "llama3_8b"),
    ("h200_sxm", "llama2_7b"),
    ("a100_sxm_80gb", "qwen2_5_0_5b"),
]
"""Contexts of 8 KV heads; 32, split; 2, split up to large batches."""

Costs = Mapping[tuple[int, KernelChoice, bool], CalibratedCost]


@pytest.fixture(scope="module")
def costs(tmp_path_factory: pytest.TempPathFactory) -> Costs:
    """Cost models by the number of their GPU, kernel, and whether L2 counts."""
    folder = tmp_path_factory.mktemp("gpus")
    (folder / "kernels").mkdir()
    found = {}
    for number, (device, model) in enumerate(GPUS):
        _write_with_small_l2(folder, device)
        for choice in CHOICES:
            for uses_l2 in (False, True):
                found[number, choice, uses_l2] = CalibratedCost(
                    load_profile(folder / f"{device}.json"),
                    load_model(model),
                    kernel=choice,
                    uses_l2=uses_l2,
                )
    return found


def _write_with_small_l2(folder: Path, device: str) -> None:
    packaged = files("hwmodels") / "profiles"
    (folder / f"{device}.json").write_text((packaged / f"{device}.json").read_text())
    kernels = json.loads((packaged / "kernels" / f"{device}.json").read_text())
    kernels["kernels"]["l2"]["values"]["midpoint_bytes"] = SMALL_L2_BYTES
    (folder / "kernels" / f"{device}.json").write_text(json.dumps(kernels))


def grouped_workload(seed: int) -> tuple[Workload, dict[str, Any]]:
    """Groups behind long prefixes, some of one group alone, and limits that make it tight."""
    rng = np.random.default_rng(seed)
    num_groups, count = int(rng.choice([1, 1, 2, 3])), int(rng.integers(12, 45))
    nodes: list[tuple[int, int]] = []
    paths: list[tuple[int, ...]] = []
    largest = 0
    for _ in range(num_groups):
        root = len(nodes)
        nodes.append((-1, 16 * int(rng.integers(8, 60))))
        paths.append((root,))
        for _ in range(int(rng.integers(0, 3))):
            nodes.append((root, int(rng.integers(1, 200))))
            paths.append((root, len(nodes) - 1))
    times = np.sort(rng.uniform(0.0, 0.05 * count * rng.choice([0.0, 0.1, 1.0]), count))
    asks = []
    for arrival_s in times.tolist():
        path = paths[int(rng.integers(len(paths)))]
        own, output = int(rng.integers(1, 90)), int(rng.integers(1, 70))
        prompt = sum(nodes[node][1] for node in path) + own
        largest = max(largest, -(-(prompt + output) // 16))
        asks.append(Ask(arrival_s, prompt, output, path))
    return workload_of(asks, nodes), {
        "usable_blocks": largest + int(rng.choice([5, 40, 120, 2000])),
        "seats": int(rng.choice([10, 25, 64])),
        "budget": int(rng.choice([200, 1100])),
        "block_tokens": 16,
    }


def limits_of(seed: int, structured: bool) -> tuple[Workload, dict[str, Any]]:
    """Many small trees, conversations included."""
    workload, limits = random_workload(seed, structured=structured, step_s=0.01)
    return workload, {
        "usable_blocks": limits["num_gpu_blocks"] - 1,
        "seats": limits["max_num_seqs"],
        "budget": limits["max_num_batched_tokens"],
        "block_tokens": 16,
    }


def columns(result: SimulationResult) -> dict[str, Any]:
    """Everything that must not change by a bit."""
    requests, (instance,) = result.requests, result.instances
    names = [n for n in requests.__slots__ if n != "more_intervals"]
    found: dict[str, Any] = {n: getattr(requests, n).tobytes() for n in names}
    found["more_intervals"] = dict(requests.more_intervals)
    found["step_ends"] = instance.step_end_s.tobytes()
    for name in ("hbm_bytes", "flops", "l2_read_bytes", "l2_hit_bytes"):
        found[name] = getattr(instance.costs, name)
        assert type(found[name]) is int
    return found


def check_both_ways(
    workload: Workload, limits: dict[str, Any], cost: CalibratedCost, is_async: bool
) -> CostTotals:
    """Run with and without macro-steps; returns the totals."""
    macro, plain = (
        run_engine(
            workload,
            cost=cost,
            is_async=is_async,
            macro_steps=macro_steps,
            record_costs=True,
            **limits,
        )
        for macro_steps in (True, False)
    )
    assert columns(macro) == columns(plain)
    for result in (macro, plain):
        (instance,) = result.instances
        assert instance.run_costs is not None
        first = instance.run_column("first_step")
        last = first + instance.run_column("num_steps") - 1
        durations_s = instance.step_end_s[last] - instance.step_start_s[first]
        terms_s = instance.run_costs[:, SECONDS]
        assert np.allclose(terms_s.sum(axis=1), durations_s, rtol=1e-9, atol=0)
        assert (terms_s >= 0).all()
    one, other = macro.instances[0].costs, plain.instances[0].costs
    for item in fields(CostTotals):
        assert getattr(one, item.name) == pytest.approx(getattr(other, item.name), rel=1e-9)
    assert 0 <= one.l2_hit_bytes <= one.l2_read_bytes
    assert (one.l2_read_bytes > 0) == (cost.uses_l2 and one.attention_decode_s > 0)
    return one


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    gpu=st.sampled_from(range(len(GPUS))),
    choice=st.sampled_from(CHOICES),
    uses_l2=st.sampled_from([True, True, False]),
    is_async=st.booleans(),
)
def test_groups_behind_prefixes_give_the_same_records_and_bytes(
    costs: Costs, seed: int, gpu: int, choice: KernelChoice, uses_l2: bool, is_async: bool
) -> None:
    workload, limits = grouped_workload(seed)
    check_both_ways(workload, limits, costs[gpu, choice, uses_l2], is_async)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    structured=st.booleans(),
    gpu=st.sampled_from(range(len(GPUS))),
    choice=st.sampled_from(CHOICES),
    is_async=st.booleans(),
)
def test_random_trees_give_the_same_records_and_bytes(
    costs: Costs, seed: int, structured: bool, gpu: int, choice: KernelChoice, is_async: bool
) -> None:
    workload, limits = limits_of(seed, structured)
    check_both_ways(workload, limits, costs[gpu, choice, True], is_async)


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("choice", CHOICES, ids=lambda c: f"{c.name}-{c.family}-{c.mixed_batch}")
def test_one_group_under_pressure_saves_bytes_with_every_kernel(
    costs: Costs, choice: KernelChoice, is_async: bool
) -> None:
    """Cascades come and go with the members of a second group."""
    asks = [Ask(0.002 * k, 640 + 9 + k, 20 + k % 40, (0,)) for k in range(30)]
    asks += [Ask(0.4, 90, 12, (1,))]
    asks += [Ask(0.5 + 0.02 * k, 640 + 30 + k, 30, (0,)) for k in range(12)]
    workload = workload_of(asks, [(-1, 640), (-1, 64)])
    limits = {"usable_blocks": 110, "seats": 64, "budget": 1100, "block_tokens": 16}
    result = run_engine(workload, cost=costs[0, choice, True], is_async=is_async, **limits)
    assert result.requests.num_preemptions.sum() > 0
    logical = check_both_ways(workload, limits, costs[0, CHOICES[1], False], is_async)
    totals = check_both_ways(workload, limits, costs[0, choice, True], is_async)
    assert totals.hbm_bytes < 0.999 * logical.hbm_bytes
    if choice.name != "packed":
        assert 0 < totals.l2_hit_bytes < totals.l2_read_bytes
    if choice.reads_nodes_once:
        without = check_both_ways(workload, limits, costs[0, choice, False], is_async)
        assert without.hbm_bytes < 0.999 * logical.hbm_bytes
        assert without.l2_hit_bytes == without.l2_read_bytes == 0


def test_contexts_that_come_to_be_split_in_the_middle_of_a_run_are_counted_in_every_step(
    costs: Costs,
) -> None:
    """Seven contexts of 700 to 1300 tokens: one wave of thread blocks, then two."""
    asks = [Ask(0.0, 720 + k, 600, (0,)) for k in range(7)]
    limits = {"usable_blocks": 4000, "seats": 8, "budget": 8000, "block_tokens": 16}
    totals = check_both_ways(
        workload_of(asks, [(-1, 700)]), limits, costs[0, CHOICES[0], True], False
    )
    assert 0 < totals.l2_hit_bytes < totals.l2_read_bytes
