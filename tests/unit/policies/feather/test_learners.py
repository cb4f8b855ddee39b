"""Bins, the bandit and Q-learning, by hand."""

from math import inf, log, nan, sqrt

import numpy as np
import pytest

from policies.batching.feather.bandit import Ucb1
from policies.batching.feather.history import MAX_POINTS, History
from policies.batching.feather.learner import ADD, NUM_STATES, STOP, Decision, state_of
from policies.batching.feather.q_learning import QLearning
from sim.errors import ConfigError
from sim.rng import stream


def greedy(**constants: float) -> QLearning:
    return QLearning(stream(0, "tests"), **{"epsilon": 0.0, **constants})


def test_bins_are_those_of_the_published_code() -> None:
    def bins(*state: int) -> tuple[int, ...]:
        return tuple(int(k) for k in np.unravel_index(state_of(*state), (11, 11, 11)))

    assert bins(0, 0, 0) == (0, 5, 0)
    assert bins(3, 1, 3) == (0, 6, 0)
    assert bins(4, -1, 4) == (1, 4, 1)
    assert bins(39, 5, 39) == (9, 10, 9)
    assert bins(40, 6, 40) == (10, 10, 10)
    assert bins(999, -99, 999) == (10, 0, 10)
    assert state_of(999, 99, 999) == NUM_STATES - 1


def test_ucb1_tries_every_action_once_and_add_first() -> None:
    learner = Ucb1()
    assert learner.choose(7) == ADD
    learner.learn([Decision(7, ADD)], 1e6, 7)
    assert learner.choose(7) == STOP
    learner.learn([Decision(7, STOP)], 0.0, 7)
    assert learner.choose(7) == ADD
    assert learner.choose(8) == ADD


def test_ucb1_scores_are_mean_and_bonus() -> None:
    learner = Ucb1(exploration=200)
    learner.learn([Decision(3, ADD)] * 4, 100.0, 0)
    learner.learn([Decision(3, STOP)], 50.0, 0)
    # T = 5: 100 + 200 sqrt(ln 6 / 4) = 233.86 against 50 + 200 sqrt(ln 6) = 317.71.
    assert 100 + 200 * sqrt(log(6) / 4) == pytest.approx(233.86, abs=0.01)
    assert 50 + 200 * sqrt(log(6)) == pytest.approx(317.71, abs=0.01)
    assert learner.choose(3) == STOP
    assert learner.best(3) == ADD
    # T = 6: STOP has 2 trials and a mean of 50; 239.50 against 247.28.
    learner.learn([Decision(3, STOP)], 50.0, 0)
    assert learner.choose(3) == STOP
    # T = 7: 3 trials; 244.20 against 216.51.
    learner.learn([Decision(3, STOP)], 50.0, 0)
    assert learner.choose(3) == ADD


def test_ucb1_takes_the_logarithm_of_one_more_than_the_decisions() -> None:
    learner = Ucb1(exploration=200)
    learner.learn([Decision(3, ADD)] * 4, 100.0, 0)
    learner.learn([Decision(3, STOP)], -36.0, 0)
    # The bonuses differ by 100 sqrt(ln 6) = 133.9; ln 7 would make it 139.5, ln 5 126.9.
    assert learner.choose(3) == ADD
    learner.values[3 * 2 + STOP] = -30.0
    assert learner.choose(3) == STOP


def test_ucb1_decisions_of_other_states_raise_the_bonus() -> None:
    learner = Ucb1(exploration=10)
    learner.learn([Decision(3, ADD)] * 4, 100.0, 0)
    learner.learn([Decision(3, STOP)], 90.0, 0)
    # 100 + 10 sqrt(ln 6 / 4) = 106.7 against 90 + 10 sqrt(ln 6) = 103.4.
    assert learner.choose(3) == ADD
    learner.learn([Decision(9, ADD)] * 100, 1.0, 0)
    # T = 105: 110.8 against 111.6.
    assert learner.choose(3) == STOP


def test_ucb1_means_are_plain_averages() -> None:
    learner = Ucb1()
    for reward in (1.0, 2.0, 6.0):
        learner.learn([Decision(0, STOP)], reward, 0)
    assert (learner.counts[STOP], learner.values[STOP], learner.num_rewarded) == (3, 3.0, 3)


def test_equal_scores_are_an_add() -> None:
    learner = Ucb1()
    learner.learn([Decision(0, STOP), Decision(0, ADD)], 5.0, 0)
    assert learner.choose(0) == learner.best(0) == ADD
    assert greedy().choose(0) == ADD


def test_q_learning_looks_at_the_state_that_came_next() -> None:
    learner = greedy(alpha=0.5, gamma=0.8)
    learner.learn([Decision(2, STOP)], 10.0, 1)
    assert learner.values[2 * 2 + STOP] == 5.0
    # The last decision: 0.5 * (10 + 0.8 * 5) = 7; the first: 0.5 * (10 + 0.8 * 7) = 7.8.
    learner.learn([Decision(0, ADD), Decision(1, ADD)], 10.0, 2)
    assert learner.values[1 * 2 + ADD] == 7.0
    assert learner.values[0 * 2 + ADD] == pytest.approx(7.8)
    assert learner.num_rewarded == 3
    assert learner.choose(2) == STOP


def test_q_learning_explores_with_epsilon() -> None:
    learner = QLearning(stream(1, "tests"), epsilon=0.5)
    choices = [learner.choose(0) for _ in range(2000)]
    assert choices.count(STOP) == pytest.approx(500, abs=60)
    again = QLearning(stream(1, "tests"), epsilon=0.5)
    assert [again.choose(0) for _ in range(2000)] == choices


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ({"alpha": 0.0}, "batching.alpha=0.0: must be above 0"),
        ({"alpha": 1.1}, "batching.alpha=1.1: must be above 0"),
        ({"gamma": 1.0}, "batching.gamma=1.0: must be at least 0 and below 1"),
        ({"epsilon": -0.1}, "batching.epsilon=-0.1: must be 0 to 1"),
        ({"epsilon": nan}, "batching.epsilon=nan: must be 0 to 1"),
        ({"alpha": inf}, "batching.alpha=inf: must be above 0"),
    ],
)
def test_constants_out_of_range_are_refused(constants: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        greedy(**constants)


def test_a_history_is_thinned_and_keeps_its_totals() -> None:
    history = History()
    for k in range(5 * MAX_POINTS):
        history.note(float(k), k % 4 == 0, 0.5)
    assert MAX_POINTS // 2 <= len(history.points) <= MAX_POINTS
    time_s, decisions, adds, regret = history.points[-1]
    assert (time_s, adds, regret) == (decisions - 1, -(-decisions // 4), 0.5 * decisions)
    gaps = {b[1] - a[1] for a, b in zip(history.points, history.points[1:], strict=False)}
    assert gaps == {8}
