"""How decisions went over time, in bounded memory."""

MAX_POINTS = 1024
"""Points kept at most; beyond, every second one is dropped."""

COLUMNS = ("time_s", "num_decisions", "num_adds", "regret")


class History:
    """Running totals of a learner's decisions, sampled every so many of them.

    Regret is the sum over decisions of how much more the learner expected, at that time, of the
    other action; 0 for a decision whose state has an action that was never rewarded. It is an
    estimate (ours): the true means are unknown.

    Attributes:
        points: (time in seconds, decisions, ADDs among them, regret in the unit of the reward).
    """

    def __init__(self) -> None:
        self.points: list[tuple[float, int, int, float]] = []
        self._stride = 1
        self._num_decisions = 0
        self._num_adds = 0
        self._regret = 0.0

    def note(self, now_s: float, is_add: bool, regret: float) -> None:
        """Count a decision made at `now_s` that is `regret` short of the best known action."""
        self._num_decisions += 1
        self._num_adds += is_add
        self._regret += regret
        if self._num_decisions % self._stride == 0:
            self.points.append((now_s, self._num_decisions, self._num_adds, self._regret))
            if len(self.points) > MAX_POINTS:
                self._stride *= 2
                self.points = [p for p in self.points if p[1] % self._stride == 0]
