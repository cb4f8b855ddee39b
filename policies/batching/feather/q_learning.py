"""Q-learning, which the Feather paper cites beside the bandit."""

import numpy as np

from policies.batching.feather.learner import (
    ADD,
    NUM_ACTIONS,
    STOP,
    Decision,
    Learner,
    empty_table,
)
from sim.errors import ConfigError

ALPHA, GAMMA, EPSILON = 0.1, 0.9, 0.05
"""Ours: the paper's values are not public."""


class QLearning(Learner):
    """Q(s, a) += alpha * (R + gamma * max_a' Q(s', a') - Q(s, a)); epsilon-greedy, ties to ADD.

    s' is the state of the decision that came next, of this step or a later one. All values start
    at 0.

    Args:
        rng: stream of the exploration; one draw per choice, two where it explores.
        alpha: learning rate, above 0 and at most 1.
        gamma: discount per decision, 0 to below 1.
        epsilon: share of choices at random, 0 to 1.

    Raises:
        ConfigError: a value is out of range.

    Source: Watkins and Dayan, Q-learning, Machine Learning 8, 1992. Constants, states and what
    counts as the next state are ours.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        alpha: float = ALPHA,
        gamma: float = GAMMA,
        epsilon: float = EPSILON,
    ) -> None:
        if not 0 < alpha <= 1:
            raise ConfigError(f"batching.alpha={alpha}: must be above 0 and at most 1")
        if not 0 <= gamma < 1:
            raise ConfigError(f"batching.gamma={gamma}: must be at least 0 and below 1")
        if not 0 <= epsilon <= 1:
            raise ConfigError(f"batching.epsilon={epsilon}: must be 0 to 1")
        self._rng = rng
        self._alpha = alpha
        self._gamma = gamma
        self._epsilon = epsilon
        self.counts, self.values = empty_table()
        self.num_rewarded = 0

    def choose(self, state: int) -> int:
        """Epsilon-greedy."""
        if self._rng.random() < self._epsilon:
            return ADD if self._rng.random() < 0.5 else STOP
        return self.best(state)

    def best(self, state: int) -> int:
        """Action of the higher value."""
        at = state * NUM_ACTIONS
        return ADD if self.values[at + ADD] >= self.values[at + STOP] else STOP

    def learn(self, decisions: list[Decision], reward: float, next_state: int) -> None:
        """Update backwards, so that the reward reaches the first decision at once."""
        counts, values = self.counts, self.values
        for state, action in reversed(decisions):
            after = next_state * NUM_ACTIONS
            target = reward + self._gamma * max(values[after], values[after + 1])
            at = state * NUM_ACTIONS + action
            counts[at] += 1
            values[at] += self._alpha * (target - values[at])
            next_state = state
        self.num_rewarded += len(decisions)
