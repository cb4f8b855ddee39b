"""What a learner's table and history say of how it learned."""

import numpy as np

from experiments.studies.measured import Measure
from policies.batching.feather.history import COLUMNS
from policies.batching.feather.learner import ADD, MAX_LOSS, TABLE_SHAPE
from policies.batching.feather.learner_state import LearnerState

SPENT_RATIO = 0.95
"""Part of a run's regret after which learning counts as done (ours)."""

STATES = Measure("num_states", "states visited", "count")
DECISIONS = Measure("num_decisions", "decisions", "count")
ADDED = Measure("add_ratio", "ADD of all decisions", "%", 100)
ADDED_NO_LOSS = Measure("add_no_loss_ratio", "ADD where no prefix is lost", "%", 100)
ADDED_LOSS = Measure("add_loss_ratio", "ADD where 5 or more chunks are lost", "%", 100)
REGRET = Measure("regret_per_s", "regret per decision", "requests/s")
LATE_REGRET = Measure("late_regret_per_s", "the same, last fifth of the decisions", "requests/s")
SETTLED_DECISIONS = Measure("settled_decisions", "decisions until 95 % of the regret", "count")
SETTLED_S = Measure("settled_s", "time until 95 % of the regret", "s")
SETTLED_SHARE = Measure("settled_ratio", "the same, share of the run", "%", 100)

LEARNING = (
    *(STATES, DECISIONS, ADDED, ADDED_NO_LOSS, ADDED_LOSS),
    *(REGRET, LATE_REGRET, SETTLED_DECISIONS, SETTLED_S, SETTLED_SHARE),
)


def of_state(state: LearnerState, start_s: float) -> dict[str, float]:
    """Values of a run by the keys of `LEARNING`; NaN where it never was in such a state.

    Shares of ADD by loss are of rewarded decisions. The history has every n-th decision alone, so
    times and numbers of decisions are right to one sample of at least 512.

    Args:
        state: table and history of the run, which began with an empty table.
        start_s: when the load began; decisions of the warm start came before.
    """
    counts = np.array(state.counts).reshape(TABLE_SHAPE)
    by_loss = counts.sum(axis=(0, 2))
    time_s, decisions, adds, regret = np.array(state.points, dtype=np.float64).T
    assert len(COLUMNS) == 4
    settled = int(np.searchsorted(regret, SPENT_RATIO * regret[-1]))
    late = int(np.searchsorted(decisions, 0.8 * decisions[-1]))
    settled_s = max(0.0, time_s[settled] - start_s)
    return {
        "num_states": float((counts.sum(axis=-1) > 0).sum()),
        "num_decisions": decisions[-1],
        "add_ratio": adds[-1] / decisions[-1],
        "add_no_loss_ratio": _add_ratio(by_loss[MAX_LOSS]),
        "add_loss_ratio": _add_ratio(by_loss[-1]),
        "regret_per_s": regret[-1] / decisions[-1],
        "late_regret_per_s": _slope(regret[late:], decisions[late:]),
        "settled_decisions": decisions[settled],
        "settled_s": settled_s,
        "settled_ratio": settled_s / (time_s[-1] - start_s),
    }


def _add_ratio(counts: "np.typing.NDArray[np.int64]") -> float:
    total = int(counts.sum())
    return float(counts[ADD] / total) if total else float("nan")


def _slope(values: "np.typing.NDArray[np.float64]", at: "np.typing.NDArray[np.float64]") -> float:
    """Change per decision between the ends; NaN where there is one sample alone."""
    return float((values[-1] - values[0]) / (at[-1] - at[0])) if len(at) > 1 else float("nan")
