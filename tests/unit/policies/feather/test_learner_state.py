"""What was learned is written and read again, byte for byte."""

import json
from pathlib import Path
from typing import Any

import pytest

from policies.batching.feather.learner import ADD, STOP, Decision, state_of
from policies.batching.feather.learner_state import LearnerKind, LearnerState, read_learner_state
from policies.batching.feather.scheduler import Feather
from sim.errors import ConfigError
from tests.engine_runs import LinearCost, run_engine
from tests.twin.workloads import random_workload
from tests.unit.policies.batching_view import PlayedInstance, grouped_requests


def serve(workload_seed: int, num_instances: int = 1, **options: Any) -> list[Feather]:
    """Policies after a busy run."""
    made: list[Feather] = []

    def batching(_index: int) -> Feather:
        made.append(Feather(20, **options))
        return made[-1]

    workload, _ = random_workload(workload_seed, structured=True, step_s=0.001)
    run_engine(
        workload,
        usable_blocks=400,
        seats=12,
        budget=200,
        block_tokens=16,
        cost=LinearCost(),
        batching=batching,
        num_instances=num_instances,
    )
    return made[:num_instances]  # the check makes one more


def test_a_table_survives_the_file(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    (policy,) = serve(3, state_out=str(path))
    assert policy.learner.num_rewarded > 5
    state = read_learner_state(path, "batching.state_in")
    assert state == policy.state()
    again = Feather(20, state_in=str(path))
    assert again.learner.counts == policy.learner.counts
    assert again.learner.values == policy.learner.values
    assert again.learner.num_rewarded == policy.learner.num_rewarded


def test_the_same_run_writes_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        serve(3, state_out=str(tmp_path / name), learner="q_learning", epsilon=0.5, seed=4)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    serve(3, state_out=str(tmp_path / "c"), learner="q_learning", epsilon=0.5, seed=5)
    assert (tmp_path / "a").read_bytes() != (tmp_path / "c").read_bytes()
    assert {p.name for p in tmp_path.iterdir()} == {"a", "b", "c"}


def test_every_instance_has_a_file_and_draws_of_its_own(tmp_path: Path) -> None:
    serve(3, 2, state_out=str(tmp_path / "t.json"), learner="q_learning", epsilon=1.0)
    texts = [(tmp_path / name).read_text() for name in ("t.json", "t.1.json")]
    assert texts[0] != texts[1]


def test_without_learning_the_table_stays_and_decides(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    teacher = Feather(10)
    for state in (state_of(1, 1, 1), state_of(1, 4, 0)):
        teacher.learner.learn([Decision(state, STOP)], 5.0, 0)
        teacher.learner.learn([Decision(state, ADD)], 1.0, 0)
    teacher.learner.learn([Decision(state_of(1, 1, 1), ADD)], 99.0, 0)
    path.write_text(teacher.state().to_text())
    policy = Feather(10, learn=False, state_in=str(path))
    instance = PlayedInstance(policy)
    instance.arrive(*grouped_requests([0, 0, 1]))
    assert instance.plan() == [0, 1]  # ADD is worth 50 in (1, 1, 1), and 1 in (2, 4, 0)
    for _ in range(20):
        assert instance.plan() == []
    assert policy.learner.counts == teacher.learner.counts
    assert policy.learner.values == teacher.learner.values


GOOD = LearnerState(LearnerKind("ucb1", "step_time", 20), 0, [0], [0.0], []).to_text()


def broken(**changes: Any) -> str:
    return json.dumps({**json.loads(GOOD), **changes})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "format must be"),
        (broken(format="x"), "format must be 'flocksim feather learner 1'"),
        (json.dumps({"format": "flocksim feather learner 1"}), "lacks 'learner'"),
        (broken(learner="q_learning"), "was learned with learner=q_learning, and batching.learner"),
        (broken(chunk_tokens=50), "was learned with chunk_tokens=50, and batching.chunk_tokens"),
        (broken(reward="exclude_prefill"), "was learned with reward=exclude_prefill"),
        (broken(num_rewarded=-1), "num_rewarded=-1 must be an integer >= 0"),
        (broken(table=[[1, 2]]), "table has the row"),
        (broken(table=[[11, 0, 0, 0, 1, 1.0]]), "out of range"),
        (broken(table=[[0, 0, 0, 2, 1, 1.0]]), "out of range"),
        (broken(table=[[0, 0, 0, 0, -1, 1.0]]), "out of range"),
        (broken(table=[[0, 0, 0, 0, 1, None]]), "not 6 finite numbers"),
        (broken(table=[[0, 0, 0, 0, 1, 10**400]]), "int too large"),
        (broken(table=5), "not iterable"),
        (broken(history={}), "lacks 'time_s'"),
        (broken(history=3), "not subscriptable"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_in_one_line(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message) as error:
        Feather(20, state_in=str(path))
    assert str(error.value).startswith(f"batching.state_in={path}: ")
    assert "\n" not in str(error.value)


def test_files_that_cannot_be_read_or_written_are_named(tmp_path: Path) -> None:
    known = tmp_path / "known.json"
    known.write_text(GOOD)
    with pytest.raises(ConfigError, match=r"state_in=.*no: cannot read: No such file"):
        Feather(20, state_in=str(tmp_path / "no"))
    with pytest.raises(ConfigError, match=r"state_out='': must name a file"):
        Feather(20, state_out="")
    with pytest.raises(ConfigError, match=r"state_out=.*it is a folder"):
        Feather(20, state_out=str(tmp_path))
    with pytest.raises(ConfigError, match=r"state_out=.*there is no folder"):
        Feather(20, state_out=str(tmp_path / "no" / "t.json"))
    with pytest.raises(ConfigError, match=r"has no effect with batching\.learn=false"):
        Feather(20, learn=False, state_in=str(known), state_out=str(tmp_path / "t.json"))
    (tmp_path / "t.1.json").mkdir()  # where the table of the second instance goes
    with pytest.raises(ConfigError, match=r"state_out=.*t\.1\.json: cannot write: Is a directory"):
        serve(3, 2, state_out=str(tmp_path / "t.json"))
