"""A policy that returns something impossible ends the run with an error that names it."""

from collections.abc import Iterable

import numpy as np
import pytest

from sim.errors import InvalidDecisionError
from sim.interfaces import AdmissionPolicy, BatchPolicy, ClusterView, InstanceView, Router
from sim.request import Request
from tests.engine_runs import run_engine
from tests.twin.stories import Ask, workload_of

STORY = [Ask(0, 4, 3), Ask(0, 4, 50), Ask(2.5, 4, 9), Ask(80, 4, 1)]


class Lost(Router):
    """Sends requests to an instance of its choice."""

    def __init__(self, choice: object) -> None:
        self.choice = choice

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        return self.choice  # type: ignore[return-value]


@pytest.mark.parametrize("choice", [2, -1, None, "0", 0.0, 10**30])
def test_an_impossible_instance_is_an_error_that_names_the_router(choice: object) -> None:
    with pytest.raises(InvalidDecisionError, match=r"policy Lost: chose .*allowed are 0 to 1"):
        run_engine(workload_of(STORY), router=Lost(choice), num_instances=2)


@pytest.mark.parametrize("choice", [1, np.int64(1)])
def test_numpy_integers_are_instances_too(choice: int) -> None:
    result = run_engine(workload_of(STORY), router=Lost(choice), num_instances=2)
    assert result.requests.instance.tolist() == [1] * 4


class Stale(BatchPolicy):
    """Proposes requests that it remembers, whether they still wait or not."""

    def __init__(self) -> None:
        self.remembered: list[Request] = []

    def candidates(self, instance: InstanceView, now_s: float) -> Iterable[Request]:
        self.remembered += instance.waiting.values()
        return self.remembered


class Twice(BatchPolicy):
    """Proposes every request twice."""

    def candidates(self, instance: InstanceView, now_s: float) -> Iterable[Request]:
        return [request for request in instance.waiting.values() for _ in range(2)]


@pytest.mark.parametrize("policy", [Stale, Twice])
def test_a_candidate_that_does_not_wait_is_an_error_that_names_the_policy(
    policy: type[BatchPolicy],
) -> None:
    message = f"policy {policy.__name__}: chose Request.0, 4.3 tok"
    with pytest.raises(InvalidDecisionError, match=message):
        run_engine(workload_of(STORY), batching=lambda _index: policy())


class Answers(BatchPolicy):
    """Answers what it was told to."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def candidates(self, instance: InstanceView, now_s: float) -> Iterable[Request]:
        return self.answer  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "returned None, not requests"),
        (5, "returned 5, not requests"),
        ([0, 1], "chose 0, which is not a request waiting on instance 0"),
        ("ab", "chose 'a', which is not a request waiting"),
    ],
)
def test_an_answer_without_requests_is_an_error_that_names_the_policy(
    answer: object, message: str
) -> None:
    with pytest.raises(InvalidDecisionError, match=f"policy Answers: .*{message}"):
        run_engine(workload_of(STORY), batching=lambda _index: Answers(answer))


class Door(AdmissionPolicy):
    """Answers what it was told to."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def admit(self, request: Request, now_s: float) -> bool:
        return self.answer  # type: ignore[return-value]


@pytest.mark.parametrize("answer", [None, "x", 0, float("nan"), []])
def test_an_admission_must_answer_yes_or_no(answer: object) -> None:
    with pytest.raises(InvalidDecisionError, match=r"policy Door: .*allowed are True and False"):
        run_engine(workload_of(STORY), admission=Door(answer))


@pytest.mark.parametrize(("answer", "finished"), [(True, 4), (np.False_, 0)])
def test_numpy_answers_at_the_door_count_too(answer: object, finished: int) -> None:
    assert run_engine(workload_of(STORY), admission=Door(answer)).num_finished == finished


class Picky(BatchPolicy):
    """Never admits a long prompt."""

    def candidates(self, instance: InstanceView, now_s: float) -> Iterable[Request]:
        return [r for r in instance.waiting.values() if r.prompt_tokens < 10]


def test_requests_that_a_policy_abandons_are_an_error_that_names_it() -> None:
    asks = [Ask(0, 4, 3), Ask(0, 20, 1)]
    with pytest.raises(InvalidDecisionError, match="policy Picky: left 1 requests waiting on idle"):
        run_engine(workload_of(asks), batching=lambda _index: Picky(), check=False)


class Generator(BatchPolicy):
    """Walks through the queue while it is being admitted."""

    def candidates(self, instance: InstanceView, now_s: float) -> Iterable[Request]:
        yield from instance.waiting.values()


def test_a_policy_may_iterate_over_the_queue_itself() -> None:
    fcfs = run_engine(workload_of(STORY))
    walked = run_engine(workload_of(STORY), batching=lambda _index: Generator())
    assert walked.requests.finish_s.tolist() == fcfs.requests.finish_s.tolist()
