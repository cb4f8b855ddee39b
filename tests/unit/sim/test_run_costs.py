"""Cost terms run by run."""

from typing import Any

import numpy as np
import pytest

from hwmodels.device import load_profile
from hwmodels.model_catalogue import load_model
from hwmodels.roofline import RooflineCost
from sim.cost_totals import COST_COLUMNS
from sim.workload import Workload
from tests.engine_runs import run_engine
from tests.twin.workloads import random_workload

SECONDS = [i for i, name in enumerate(COST_COLUMNS) if name.endswith("_s")]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_the_terms_of_each_run_add_up_to_its_duration_and_to_the_totals(is_async: bool) -> None:
    workload, limits = random_workload(3, structured=False)
    cost = RooflineCost(load_profile("a100_sxm_80gb"), load_model("llama3_8b"))
    options: dict[str, Any] = {
        "usable_blocks": limits["num_gpu_blocks"] - 1,
        "budget": limits["max_num_batched_tokens"],
        "seats": limits["max_num_seqs"],
        "block_tokens": 16,
        "cost": cost,
        "is_async": is_async,
    }
    result = run_engine(workload, record_costs=True, **options)
    (instance,) = result.instances
    assert instance.run_costs is not None
    first = instance.run_column("first_step")
    last = first + instance.run_column("num_steps") - 1
    durations_s = instance.step_end_s[last] - instance.step_start_s[first]
    assert np.allclose(instance.run_costs[:, SECONDS].sum(axis=1), durations_s, rtol=1e-9)
    hbm_bytes = instance.run_costs[:, COST_COLUMNS.index("hbm_bytes")].sum()
    assert hbm_bytes == instance.costs.hbm_bytes
    plain = run_engine(workload, **options)
    assert plain.instances[0].run_costs is None
    assert plain.costs == result.costs
    assert (plain.requests.finish_s == result.requests.finish_s).all()


def test_a_step_that_the_horizon_cuts_off_is_in_no_total() -> None:
    workload = Workload.without_sharing(
        arrival_s=np.array([0.0]), prompt_tokens=np.array([96]), output_tokens=np.array([4])
    )
    cost = RooflineCost(load_profile("a100_sxm_80gb"), load_model("llama3_8b"))
    options: dict[str, Any] = {"budget": 32, "block_tokens": 16, "cost": cost}
    whole = run_engine(workload, record_costs=True, **options).instances[0]
    horizon_s = float(whole.step_end_s[1] + whole.step_end_s[2]) / 2
    cut = run_engine(workload, horizon_s, record_costs=True, **options).instances[0]
    assert len(cut.step_end_s) == 2
    assert whole.run_costs is not None
    assert cut.run_costs is not None
    assert (cut.run_costs == whole.run_costs[:2]).all()
    assert cut.costs.flops == int(whole.run_costs[:2, COST_COLUMNS.index("flops")].sum())
