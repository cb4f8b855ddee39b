"""The contextual bandit of Feather's released code: UCB1 per state."""

from math import log, sqrt

from policies.batching.feather.learner import (
    ADD,
    NUM_ACTIONS,
    STOP,
    Decision,
    Learner,
    empty_table,
)

EXPLORATION = 200.0
"""Weight of the exploration bonus, requests/s. Source: Feather's public code."""


class Ucb1(Learner):
    """score(s, a) = mean reward(s, a) + c * sqrt(ln(T + 1) / n(s, a)); ADD if it is not lower.

    An action that was never rewarded has an infinite score; T counts the rewarded decisions of all
    states. No discounting, no forgetting.

    Args:
        exploration: c, in the unit of the reward.

    Source: Auer et al., Finite-time Analysis of the Multiarmed Bandit Problem, 2002; Feather's
    public code.
    """

    def __init__(self, exploration: float = EXPLORATION) -> None:
        self.exploration = exploration
        self.counts, self.values = empty_table()
        self.num_rewarded = 0

    def choose(self, state: int) -> int:
        """Action with the higher score."""
        at = state * NUM_ACTIONS
        num_stops, num_adds = self.counts[at + STOP], self.counts[at + ADD]
        if not num_adds:
            return ADD
        if not num_stops:
            return STOP
        total = log(self.num_rewarded + 1)
        of_stop = self.values[at + STOP] + self.exploration * sqrt(total / num_stops)
        of_add = self.values[at + ADD] + self.exploration * sqrt(total / num_adds)
        return ADD if of_add >= of_stop else STOP

    def best(self, state: int) -> int:
        """Action with the higher mean; one that was never rewarded counts as infinite."""
        at = state * NUM_ACTIONS
        if not self.counts[at + ADD]:
            return ADD
        if not self.counts[at + STOP]:
            return STOP
        return ADD if self.values[at + ADD] >= self.values[at + STOP] else STOP

    def learn(self, decisions: list[Decision], reward: float, next_state: int) -> None:
        """Take the reward into the means."""
        counts, values = self.counts, self.values
        for state, action in decisions:
            at = state * NUM_ACTIONS + action
            counts[at] += 1
            values[at] += (reward - values[at]) / counts[at]
        self.num_rewarded += len(decisions)
