"""Feather's decisions and what they earn, by hand.

Chunks of 10 tokens; a prompt is its group's prefix of 4 chunks and a private chunk.
"""

import pickle
from typing import Any

import numpy as np
import pytest

from policies.batching.feather.learner import ADD, NUM_ACTIONS, STOP, Decision, state_of
from policies.batching.feather.scheduler import Feather
from sim.errors import ConfigError
from sim.request import PREFILLING
from tests.unit.policies.batching_view import PlayedInstance, grouped_requests


def feather(**options: Any) -> tuple[Feather, PlayedInstance]:
    policy = Feather(**{"chunk_tokens": 10, **options})
    return policy, PlayedInstance(policy)


def told(policy: Feather) -> dict[tuple[int, int], tuple[int, float]]:
    """(state, action) -> (rewarded decisions, their mean)."""
    learner = policy.learner
    return {
        divmod(at, NUM_ACTIONS): (count, learner.values[at])
        for at, count in enumerate(learner.counts)
        if count
    }


def teach(policy: Feather, state: int, action: int) -> None:
    """Let a learner prefer `action` in `state` by far."""
    policy.learner.learn([Decision(state, action)], 1e9, 0)
    policy.learner.learn([Decision(state, 1 - action)], 0.0, 0)


def test_the_first_of_a_batch_is_added_unasked_and_unrecorded() -> None:
    policy, instance = feather()
    instance.arrive(grouped_requests([0])[0])
    assert instance.plan() == [0]
    assert policy.history.points == []


def test_a_step_in_which_a_group_joins_is_paid_at_the_next_decision() -> None:
    policy, instance = feather()
    requests = grouped_requests([0, 0, 0, 0, 1])
    instance.arrive(*requests[:4])
    # The chain of a single request is its whole prompt, so the second one costs 1 of 5 chunks;
    # 3 waiting requests hold what is left. The next two cost nothing.
    assert instance.plan(duration_s=0.5) == [0, 1, 2, 3]
    assert told(policy) == {}
    instance.arrive(requests[4])
    # b was 3 at the last decision, before its ADD: 3 / 0.5 s.
    assert instance.plan() == [4]
    assert state_of(2, 0, 2) == state_of(3, 0, 1)
    assert told(policy) == {
        (state_of(1, 1, 3), ADD): (1, 6.0),
        (state_of(2, 0, 2), ADD): (2, 6.0),
    }


def test_what_costs_nothing_is_added_whatever_was_learned() -> None:
    policy, instance = feather()
    instance.arrive(*grouped_requests([0, 0, 0]))
    teach(policy, state_of(2, 0, 1), STOP)
    assert instance.plan() == [0, 1, 2]


def test_a_stop_closes_the_batch_for_the_step_and_is_asked_again() -> None:
    policy, instance = feather()
    instance.arrive(*grouped_requests([0, 1]))
    state = state_of(1, 5, 0)
    teach(policy, state, STOP)
    assert instance.plan(duration_s=0.25) == [0]
    assert policy.learner.choose(state) == STOP
    # STOP has earned 1e9 and now 1 / 0.25.
    assert instance.plan(duration_s=0.5) == []
    assert told(policy)[state, STOP] == (2, (1e9 + 4.0) / 2)
    assert instance.plan() == []
    count, mean = told(policy)[state, STOP]
    assert count == 3
    assert mean == pytest.approx((1e9 + 4.0 + 2.0) / 3)


def test_a_mixed_batch_has_no_shared_prefix_so_the_learner_is_asked() -> None:
    policy, instance = feather()
    requests = grouped_requests([0, 1, 1])
    instance.arrive(*requests[:2])
    assert instance.plan() == [0, 1]  # loss 5, untried, so ADD
    teach(policy, state_of(2, 0, 0), STOP)
    instance.arrive(requests[2])
    assert instance.plan() == []


def test_an_empty_batch_forgets_what_is_not_paid_yet() -> None:
    policy, instance = feather()
    requests = grouped_requests([0, 0, 1, 1])
    instance.arrive(*requests[:2])
    instance.plan()
    instance.finish(0, 1)
    instance.arrive(*requests[2:])
    instance.plan()
    assert told(policy) == {}
    instance.finish(2, 3)
    assert policy.learner.num_rewarded == 0


def test_the_last_step_planned_with_requests_waiting_pays() -> None:
    policy, instance = feather()
    requests = grouped_requests([0, 0, 0, 0])
    instance.arrive(*requests)
    assert instance.plan(duration_s=5.0, seats=3) == [0, 1, 2]
    instance.plan(duration_s=0.5, seats=3)  # no seat, so nobody is asked
    instance.finish(0)
    assert instance.plan(duration_s=1.0, seats=3) == [3]
    assert told(policy)[state_of(1, 1, 3), ADD] == (1, 2 / 0.5)
    # From here on nobody waits: only the step of the decision itself can pay.
    for duration_s in (7.0, 8.0):
        instance.plan(duration_s)
    late = grouped_requests([0] * 5)[4]
    instance.finish(1)
    instance.arrive(late)
    instance.plan()
    assert told(policy)[state_of(2, 0, 1), ADD] == (2, (2 / 0.5 + 2 / 1.0) / 2)


def test_seats_end_the_step_without_a_stop() -> None:
    policy, instance = feather()
    instance.arrive(*grouped_requests([0, 0, 0]))
    instance.plan(seats=2)
    instance.finish(0)
    instance.plan(seats=2)
    assert all(action == ADD for _, action in told(policy))


def test_an_add_that_does_not_fit_is_recorded() -> None:
    policy, instance = feather()
    instance.arrive(*grouped_requests([0, 0]))
    instance.plan(seats=1)
    assert instance.refuse() == 1
    assert policy.history.points[-1][1:3] == (1, 1)


def test_without_prefill_a_step_that_prefills_pays_nothing() -> None:
    policy, instance = feather(reward="exclude_prefill")
    requests = grouped_requests([0, 0, 1])
    instance.arrive(*requests)
    state = state_of(2, 4, 0)
    teach(policy, state, STOP)
    assert instance.plan(duration_s=5.0) == [0, 1]
    before = told(policy)
    instance.plan(duration_s=0.5)  # asked again, and still nothing is paid: STOP, no prefill
    assert told(policy) == before
    instance.plan()
    # One ADD and two STOPs, with 2 running: 2 / 0.5 s.
    assert told(policy)[state_of(1, 1, 1), ADD] == (1, 4.0)
    assert told(policy)[state, STOP][0] == before[state, STOP][0] + 2


def test_without_prefill_a_prompt_that_is_part_done_pays_nothing_either() -> None:
    policy, instance = feather(reward="exclude_prefill")
    instance.arrive(*grouped_requests([0, 0, 1]))
    teach(policy, state_of(2, 4, 0), STOP)
    instance.plan(duration_s=5.0)
    instance.running[1].phase = PREFILLING
    policy.on_step(instance, 2, 3.0)
    assert policy._reward is None
    instance.plan(duration_s=0.5)
    assert policy._reward == 2 / 0.5


def test_q_learning_learns_across_steps() -> None:
    policy, instance = feather(learner="q_learning", alpha=0.5, gamma=0.5, epsilon=0.0)
    requests = grouped_requests([0, 0, 0])
    instance.arrive(*requests[:2])
    instance.plan(duration_s=0.5)
    instance.arrive(requests[2])
    instance.plan()
    # R = 1 / 0.5, nothing known of the next state.
    assert told(policy) == {(state_of(1, 1, 1), ADD): (1, 1.0)}


def test_whoever_waited_too_long_goes_first() -> None:
    policy, instance = feather(max_wait_s=10.0)
    requests = grouped_requests([0, 1, 0, 1])
    instance.arrive(*requests)
    for loss in (0, 4, 5):
        teach(policy, state_of(1, loss, 0), STOP)
    assert instance.plan(now_s=5.0) == [0, 2]
    assert instance.plan(now_s=11.0) == []  # request 1 arrived at 1 s
    assert instance.plan(now_s=11.5) == [1]
    assert policy.history.points[-1][0] == 11.5  # request 3 was asked about, 1 was not


def test_a_preempted_request_is_aged_by_its_arrival() -> None:
    policy, instance = feather(max_wait_s=10.0)
    instance.arrive(*grouped_requests([0, 1]))
    assert instance.plan() == [0, 1]
    teach(policy, state_of(1, 5, 0), STOP)
    instance.preempt(1)
    assert instance.plan(now_s=9.0) == []
    assert instance.plan(now_s=12.0) == [1]


def test_learned_arrays_show_the_share_of_adds() -> None:
    policy, instance = feather()
    teach(policy, state_of(4, 5, 0), STOP)
    policy.learner.learn([Decision(state_of(5, 5, 9), ADD)] * 2, 1.0, 0)
    learned = policy.learned()
    assert learned["counts"].sum() == 4
    assert learned["add_ratio"][1, 10] == 3 / 4
    assert np.isnan(learned["add_ratio"][0, 0])
    assert learned["values"][1, 10, 0, STOP] == 1e9
    instance.arrive(*grouped_requests([0, 0, 0]))
    instance.plan(now_s=2.0)
    assert learned.keys() == policy.learned().keys()
    assert policy.learned()["num_adds"].tolist() == [1.0, 2.0]
    assert policy.learned()["time_s"].tolist() == [2.0, 2.0]


def test_regret_is_what_the_learner_expected_of_the_other_action() -> None:
    policy, instance = feather(exploration=0.0)
    policy.learner.learn([Decision(state_of(1, 1, 1), STOP)], 5.0, 0)
    instance.arrive(*grouped_requests([0, 0, 0]))
    policy.learner.learn([Decision(state_of(2, 0, 1), STOP)], 8.0, 0)
    policy.learner.learn([Decision(state_of(2, 0, 1), ADD)], 5.0, 0)
    instance.plan()  # the first decision has one action untried, the second adds unasked
    assert policy.learned()["regret"].tolist() == [0.0, 3.0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"learner": "dqn"}, "batching.learner=dqn: must be one of ucb1, q_learning"),
        ({"reward": "tokens"}, "batching.reward=tokens: must be one of step_time, exclude_prefill"),
        ({"alpha": 0.1}, "batching.alpha=0.1 has no effect with batching.learner=ucb1"),
        (
            {"learner": "q_learning", "exploration": 2.0},
            "batching.exploration=2.0 has no effect with batching.learner=q_learning",
        ),
        ({"exploration": -1.0}, "batching.exploration=-1.0: must be finite and >= 0"),
        ({"max_wait_s": 0.0}, "batching.max_wait_s=0.0: must be finite and above 0"),
        ({"learn": False}, "batching.learn=false needs batching.state_in"),
        (
            {"learn": False, "exploration": 1.0},
            "batching.exploration=1.0 has no effect with batching.learn=false",
        ),
        ({"learner": "q_learning", "gamma": 1.0}, "batching.gamma=1.0"),
    ],
)
def test_bad_options_are_refused_in_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        feather(**options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("learner", ["ucb1", "q_learning"])
def test_a_used_policy_pickles_with_all_that_it_knows(learner: str) -> None:
    policy, instance = feather(learner=learner, max_wait_s=245.0)
    instance.arrive(*grouped_requests([k % 7 for k in range(300)]))
    instance.plan(duration_s=0.1, seats=20)
    twin = pickle.loads(pickle.dumps(instance))
    for step in range(40):
        for played in (instance, twin):
            played.finish(*list(played.running)[:3])
        now_s = 250.0 + step
        assert instance.plan(0.1, now_s, seats=20) == twin.plan(0.1, now_s, seats=20)
    assert policy.state() == twin.policy.state()
    assert policy.learner.num_rewarded > 10
