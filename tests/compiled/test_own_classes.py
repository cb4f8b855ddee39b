"""Classes of users that derive from the engine's, and odd answers of policies: in both forms."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hwmodels.device import load_profile
from hwmodels.model_catalogue import load_model
from hwmodels.roofline import RooflineCost
from policies.batching.fcfs import FCFS
from sim.compiled import form_in_use
from sim.errors import ConfigError, InvalidDecisionError
from sim.interfaces import ClusterView, EvictionPolicy, Router
from sim.request import Request
from sim.vllm_v1 import VllmV1
from tests.engine_runs import LinearCost, cluster_of, run_engine
from tests.twin.stories import Ask, workload_of

ROOT = Path(__file__).parents[2]
ASKS = [Ask(0.1 * k, 40 + k, 5 + k % 7, (0,)) for k in range(20)]
WORKLOAD = workload_of(ASKS, [(-1, 24)])
IS_COMPILED = form_in_use() == "compiled engine"


class Matching(Router):
    """Answers with a number of another library."""

    uses_prefix_match = True

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> Any:
        matched = cluster.matched_tokens(request)
        return self.answer(matched) if callable(self.answer) else self.answer


@pytest.mark.parametrize("options", [{}, {"view_delay_s": 0.05}, {"publish_period_s": 0.1}])
def test_a_router_may_answer_with_a_number_of_numpy(options: dict[str, float]) -> None:
    found = [
        run_engine(WORKLOAD, router=Matching(answer), num_instances=2, **options)
        for answer in (np.argmax, lambda matched: int(np.argmax(matched)))
    ]
    same = [run.requests.finish_s.tolist() for run in found]
    assert same[0] == same[1]


@pytest.mark.parametrize("answer", ["x", None, 7, -1])
def test_a_wrong_answer_of_a_router_that_matches_is_one_line(answer: Any) -> None:
    with pytest.raises(
        InvalidDecisionError, match=rf"Matching: chose instance {answer!r}, allowed"
    ):
        run_engine(WORKLOAD, router=Matching(answer), num_instances=2)


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("decides", 1, "has decides=1, allowed are 'every_step' and 'on_change'"),
        ("decides", None, "has decides=None"),
        ("admits_in_arrival_order", 1, "has admits_in_arrival_order=1, allowed are True and False"),
        ("admits_in_arrival_order", np.bool_(True), "has admits_in_arrival_order=np.True_"),
    ],
)
def test_a_flag_that_is_none_is_one_line(name: str, value: Any, line: str) -> None:
    policy = type("Odd", (FCFS,), {name: value})
    with pytest.raises(InvalidDecisionError, match=f"policy Odd: {line}"):
        run_engine(WORKLOAD, batching=lambda _index: policy())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_instances", np.int64(2)),
        ("num_gpu_blocks", 101.0),
        ("max_model_len", np.int64(900)),
        ("block_tokens", True),
        ("prefix_caching", 1),
        ("macro_steps", np.bool_(False)),
        ("check", None),
    ],
)
def test_a_spec_of_other_types_is_one_line(name: str, value: Any) -> None:
    options = {name: value}
    if name == "num_gpu_blocks":
        options = {"usable_blocks": value - 1}
    with pytest.raises(ConfigError, match=rf"ClusterSpec\.{name}=.*: must be "):
        cluster_of(**options).validate()


class OldestByNanoseconds(EvictionPolicy):
    """Keys that a double cannot tell apart."""

    is_release_order = False

    def key(self, owner: int, first: int, num_blocks: int, release_index: int) -> float:
        return 2**60 + release_index % 5


class OldestByDoubles(OldestByNanoseconds):
    def key(self, owner: int, first: int, num_blocks: int, release_index: int) -> float:
        return float(super().key(owner, first, num_blocks, release_index))


def test_eviction_keys_are_doubles() -> None:
    hits = [
        run_engine(WORKLOAD, eviction=eviction, usable_blocks=30).requests.cached_tokens.tolist()
        for eviction in (OldestByNanoseconds, OldestByDoubles)
    ]
    assert hits[0] == hits[1]


class SingleCost(LinearCost):
    """Prices in single precision."""

    def decode_step_s(self, batch: Any) -> Any:
        return np.float32(super().decode_step_s(batch))

    def mixed_step_s(self, batch: Any, chunks: Any) -> Any:
        return np.float32(0.3)


class RoundedCost(LinearCost):
    """The same as doubles."""

    def decode_step_s(self, batch: Any) -> float:
        return float(np.float32(super().decode_step_s(batch)))

    def mixed_step_s(self, batch: Any, chunks: Any) -> float:
        return float(np.float32(0.3))


def test_prices_of_another_precision_do_not_change_the_clock() -> None:
    ends = [
        run_engine(WORKLOAD, cost=cost, macro_steps=False).end_s
        for cost in (SingleCost(), RoundedCost())
    ]
    assert ends[0] == ends[1]


def test_a_horizon_of_whole_seconds_is_a_time() -> None:
    assert type(run_engine(WORKLOAD, horizon_s=1).end_s) is float


# -- subclasses of compiled classes ---------------------------------------------------------------


class Lagging(VllmV1):
    """A value of the class, which `VllmV1.__init__` overrules."""

    lag = 1


class Narrow(VllmV1):
    """A property in the place of an attribute."""

    @property
    def max_num_seqs(self) -> int:
        return 4

    @max_num_seqs.setter
    def max_num_seqs(self, value: int) -> None:
        pass


class Fewer(VllmV1):
    """As it should be."""

    def __init__(self, max_num_seqs: int, max_num_batched_tokens: int) -> None:
        super().__init__(max_num_seqs, max_num_batched_tokens)
        self.max_num_seqs = 4


class TreeCost(RooflineCost):
    """Says what the interface lets a class say."""

    uses_prefix_tree = True


@pytest.mark.parametrize("rules", [Lagging(8, 64), Narrow(8, 64)])
def test_what_the_engine_would_not_see_is_refused(rules: VllmV1) -> None:
    if not IS_COMPILED:
        cluster_of(rules=rules).validate()
        return
    name = "lag" if isinstance(rules, Lagging) else "max_num_seqs"
    line = rf"{type(rules).__name__}\.{name} hides an attribute of a compiled class"
    with pytest.raises(ConfigError, match=line):
        cluster_of(rules=rules).validate()


def test_what_it_sees_is_not() -> None:
    cost = TreeCost(load_profile("a100_sxm_80gb"), load_model("llama3_8b"))
    run = run_engine(WORKLOAD, rules=Fewer(8, 64), cost=cost, usable_blocks=900, block_tokens=16)
    assert run.num_finished == len(ASKS)


# -- Ctrl-C ---------------------------------------------------------------------------------------

ENDLESS = """
import os, signal, threading
from hwmodels.device import load_profile
from hwmodels.model_catalogue import load_model
from hwmodels.roofline import RooflineCost
from policies.batching.fcfs import FCFS
from policies.routing.least_requests import LeastRequests
from sim.cluster_spec import ClusterSpec
from sim.simulation import simulate
from sim.vllm_v1 import VllmV1
from sim.workload import Workload
import numpy as np
spec = ClusterSpec(
    num_instances=1, num_gpu_blocks=10**7, rules=VllmV1(8, 64), macro_steps=False,
    cost=RooflineCost(load_profile("a100_sxm_80gb"), load_model("llama3_8b")),
    batching=lambda _: FCFS(), router=LeastRequests())
load = Workload.without_sharing(np.array([0.0]), np.array([10]), np.array([10**8]))
timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
signal.signal(signal.SIGINT, signal.default_int_handler)
timer.start()
print(simulate(load, spec).is_interrupted)
"""


def test_ctrl_c_stops_a_run_that_asks_nobody(tmp_path: Path) -> None:
    """Of 10**8 steps, in which no policy has anything to decide."""
    done = subprocess.run(
        [sys.executable, "-c", ENDLESS], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.strip() == "True", done.stderr
