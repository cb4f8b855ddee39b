"""The door of a cluster: order of the checks, admission, and what a spec may say."""

from typing import Any

import pytest

from sim.errors import ConfigError
from sim.interfaces import AdmissionPolicy
from sim.recorder import COMPLETED, OVER_CAPACITY, OVER_MODEL_LEN, REFUSED, REJECTED
from sim.request import Request
from tests.engine_runs import cluster_of, run_engine
from tests.twin.stories import Ask, workload_of
from tests.unit.sim.probes import Probe


class OddOnly(AdmissionPolicy):
    def __init__(self) -> None:
        self.asked: list[tuple[int, float]] = []

    def admit(self, request: Request, now_s: float) -> bool:
        self.asked.append((request.request_id, now_s))
        return request.request_id % 2 == 1


def test_a_refused_request_is_rejected_and_seen_by_no_router() -> None:
    probe, door = Probe(), OddOnly()
    asks = [Ask(0, 4, 1), Ask(0.5, 4, 1), Ask(2, 4, 1)]
    result = run_engine(workload_of(asks), admission=door, router=probe)
    assert result.requests.status.tolist() == [REJECTED, COMPLETED, REJECTED]
    assert result.requests.reject_reason.tolist() == [REFUSED, 0, REFUSED]
    assert door.asked == [(0, 0.0), (1, 0.5), (2, 2.0)]
    assert len(probe.num_running) == 1


def test_what_can_never_run_is_rejected_before_the_door_is_asked() -> None:
    door = OddOnly()
    asks = [Ask(0, 4, 1), Ask(0, 9, 1), Ask(0, 4, 99), Ask(0, 4, 1)]
    result = run_engine(workload_of(asks), admission=door, usable_blocks=2, max_model_len=9)
    assert result.requests.reject_reason.tolist() == [REFUSED, OVER_MODEL_LEN, REFUSED, 0]
    result = run_engine(workload_of(asks), admission=door, usable_blocks=2)
    assert result.requests.reject_reason.tolist() == [REFUSED, OVER_CAPACITY, OVER_CAPACITY, 0]
    assert [request_id for request_id, _ in door.asked] == [0, 2, 3, 0, 3]


def test_every_instance_has_a_policy_and_blocks_of_its_own() -> None:
    made: list[int] = []

    def batching(index: int) -> Any:
        made.append(index)
        return cluster_of().batching(index)

    asks = [Ask(0, 12, 1, (0,))] * 4
    workload = workload_of(asks, [(-1, 12)])
    result = run_engine(workload, num_instances=3, batching=batching, router=Probe(), check=False)
    assert made == [0, 1, 2]
    assert result.requests.cached_tokens.tolist() == [0, 0, 0, 8]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_instances": 0}, "cluster.num_instances=0: must be 1 to 65,536"),
        ({"num_instances": 10**20}, "cluster.num_instances=10+: must be 1 to 65,536"),
        ({"block_tokens": 10**12}, "engine.block_tokens=10+: must be 1 to 65,536"),
        ({"usable_blocks": 0}, "engine.num_gpu_blocks=1: must be at least 2"),
        ({"view_delay_s": -1.0}, "must be finite and >= 0"),
        ({"publish_period_s": -0.1}, "must be finite and >= 0"),
        ({"view_delay_s": 1.0, "publish_period_s": 1.0}, "cannot both be set"),
    ],
)
def test_a_spec_that_contradicts_itself_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        run_engine(workload_of([]), **options)
