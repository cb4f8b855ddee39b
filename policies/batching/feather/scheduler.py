"""Feather: a learner decides how far a batch grows beyond what shares its prefix."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from policies.batching.feather.ageing import Ageing
from policies.batching.feather.bandit import EXPLORATION, Ucb1
from policies.batching.feather.hash_tree import Best
from policies.batching.feather.history import COLUMNS, History
from policies.batching.feather.learner import (
    ADD,
    NUM_ACTIONS,
    STOP,
    TABLE_SHAPE,
    Decision,
    FloatArray,
    IntArray,
    Learner,
    state_of,
)
from policies.batching.feather.learner_state import (
    LearnerKind,
    LearnerState,
    read_learner_state,
    write_learner_state,
)
from policies.batching.feather.q_learning import ALPHA, EPSILON, GAMMA, QLearning
from policies.batching.feather.tree_policy import TreePolicy
from sim.errors import ConfigError
from sim.interfaces import InstanceView
from sim.request import PREFILLING, Request
from sim.rng import stream

CHUNK_TOKENS = 50
"""Tokens per chunk. Source: Feather's public code, queue of the bandit."""

LEARNERS = ("ucb1", "q_learning")

REWARDS = ("step_time", "exclude_prefill")


class Feather(TreePolicy):
    """ADD the candidate that misses fewest chunks, or STOP and close the batch for this step.

    In every step, as long as seats, token budget and KV last: the candidate is the waiting request
    with the fewest chunks outside the working set (`ChunkedHashTree.find_best`). With b requests
    in the batch, loss = chunks that the prefix shared by all of them would lose, and w = waiting
    requests that share what would be left:

    * b = 0: ADD; not recorded, and what is recorded and not rewarded yet is dropped;
    * loss = 0 with a shared prefix: ADD, recorded;
    * else the learner decides by the bins of (b, loss, w); recorded.

    A recorded decision earns R = b / duration, requests/s, at the next decision: b as it was at
    the last decision of its step, before that one; the duration is that of the last step since
    that was planned with requests waiting (of its own step, if nothing waits after it).

    Args:
        chunk_tokens: K, tokens per chunk.
        learner: "ucb1" or "q_learning".
        reward: "step_time" as published, which charges an ADD with the prefill that it causes;
            "exclude_prefill" (ours) waits for a step without prefill.
        exploration: bonus weight of ucb1, requests/s; None is 200.
        alpha: learning rate of q_learning; None is 0.1.
        gamma: discount of q_learning; None is 0.9.
        epsilon: share of random choices of q_learning; None is 0.05.
        max_wait_s: whoever has waited longer goes first, whatever the learner says (ours); None
            lets them wait.
        learn: False takes the table of `state_in` as it is and explores nothing.
        state_in: file of a table to start with; None starts empty, as published.
        state_out: file that gets the table whenever the instance has served all its requests;
            instance i > 0 writes to the name with ".i" before its ending. None writes nothing.
        seed: the run's seed; q_learning draws from its stream "batching.feather.INSTANCE".

    Raises:
        ConfigError: a value is out of range or without effect, or `state_in` does not fit.

    Source: Feather, arXiv 2605.06046v1, and its public code; docs/policies/feather.md.
    """

    decides: ClassVar[Literal["every_step", "on_change"]] = "every_step"
    written_files: ClassVar[tuple[str, ...]] = ("state_out",)
    """Options that name files to write: a job that sets one is not done because its result is."""

    def __init__(
        self,
        chunk_tokens: int = CHUNK_TOKENS,
        learner: str = "ucb1",
        reward: str = "step_time",
        exploration: float | None = None,
        alpha: float | None = None,
        gamma: float | None = None,
        epsilon: float | None = None,
        max_wait_s: float | None = None,
        learn: bool = True,
        state_in: str | None = None,
        state_out: str | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(chunk_tokens)
        _require_one_of("learner", learner, LEARNERS)
        _require_one_of("reward", reward, REWARDS)
        of_q_learning = {"alpha": alpha, "gamma": gamma, "epsilon": epsilon}
        _refuse_unread(learner, learn, {"exploration": exploration}, of_q_learning)
        if exploration is not None and not 0 <= exploration < float("inf"):
            raise ConfigError(f"batching.exploration={exploration}: must be finite and >= 0")
        self._kind = LearnerKind(learner, reward, chunk_tokens)
        self._excludes_prefill = reward == "exclude_prefill"
        self._seed = seed
        self._exploration = EXPLORATION if exploration is None else exploration
        self._constants = {
            "alpha": ALPHA if alpha is None else alpha,
            "gamma": GAMMA if gamma is None else gamma,
            "epsilon": EPSILON if epsilon is None else epsilon,
        }
        self._learns = learn
        self._start = self._read_start(state_in)
        self._state_out = _writable(state_out, learn)
        self._ageing = None if max_wait_s is None else Ageing(max_wait_s)
        self.learner = self._make_learner(0)
        self.history = History()
        self._instance_id = 0
        self._has_unsaved = False
        self._pending: list[Decision] = []
        self._final_size = 0
        self._reward: float | None = None
        self._has_decided = False  # in the step that is being planned

    # -- hooks -----------------------------------------------------------------------------------

    def on_arrival(self, instance: InstanceView, request: Request, now_s: float) -> None:
        """Into the tree."""
        if instance.instance_id != self._instance_id:
            self._instance_id = instance.instance_id
            self.learner = self._make_learner(self._instance_id)
        super().on_arrival(instance, request, now_s)
        if self._ageing is not None:
            self._ageing.add(request)

    def on_finish(self, instance: InstanceView, request: Request, now_s: float) -> None:
        """Out of the working set; what was learned is kept when all is done."""
        super().on_finish(instance, request, now_s)
        if self._state_out is None or not self._has_unsaved:
            return
        if not (instance.running or instance.waiting):
            write_learner_state(self.state(), _for_instance(self._state_out, self._instance_id))
            self._has_unsaved = False

    def on_step(self, instance: InstanceView, num_running: int, duration_s: float) -> None:
        """Note what the step earns."""
        has_decided, self._has_decided = self._has_decided, False
        if not self._pending:
            return
        # Steps that nobody waits for may pass unseen in a longer run.
        is_seen = bool(instance.waiting) or has_decided
        if self._excludes_prefill:
            is_seen = bool(instance.waiting) and not _prefills(instance)
        if is_seen:
            self._reward = self._final_size / duration_s

    # -- decisions -------------------------------------------------------------------------------

    def candidates(self, instance: InstanceView, now_s: float) -> Iterator[Request]:
        """Whoever has waited too long, then the tree's best as long as the learner adds."""
        if self._ageing is not None:
            while (aged := self._ageing.next_aged(now_s)) is not None:
                yield aged
        running, tree = instance.running, self._tree
        while (best := tree.find_best()) is not None:
            if not self._adds(best, len(running), now_s):
                return
            yield best.request

    def _adds(self, best: Best, num_running: int, now_s: float) -> bool:
        """Decide on a candidate, and record the decision."""
        if not num_running:
            self._pending.clear()
            self._reward = None
            return True
        loss = best.before - best.after
        state = state_of(num_running, loss, best.num_sharing)
        self._settle(state)
        if not loss and best.before:
            action = ADD
        elif self._learns:
            action = self.learner.choose(state)
        else:
            action = self.learner.best(state)
        self._pending.append(Decision(state, action))
        self._final_size = num_running
        self._has_decided = True
        self.history.note(now_s, action == ADD, self._regret(state, action))
        return action == ADD

    def _settle(self, state: int) -> None:
        """Pay recorded decisions, if a step has ended that pays."""
        if self._reward is None:
            return
        if self._learns:
            self.learner.learn(self._pending, self._reward, state)
            self._has_unsaved = True
        self._pending.clear()
        self._reward = None

    def _regret(self, state: int, action: int) -> float:
        """How much more the learner expects of the other action; 0 if it does not know."""
        at = state * NUM_ACTIONS
        counts, values = self.learner.counts, self.learner.values
        if not (counts[at + STOP] and counts[at + ADD]):
            return 0.0
        return max(0.0, values[at + STOP + ADD - action] - values[at + action])

    # -- what was learned ------------------------------------------------------------------------

    def state(self) -> LearnerState:
        """The table and the history, to be written to a file."""
        learner = self.learner
        return LearnerState(
            kind=self._kind,
            num_rewarded=learner.num_rewarded,
            counts=list(learner.counts),
            values=list(learner.values),
            points=list(self.history.points),
        )

    def learned(self) -> dict[str, IntArray | FloatArray]:
        """What was learned, for figures; bins are those of `learner`.

        Returns:
            `counts` and `values` by (size, loss, sharing, action), shape `TABLE_SHAPE`; `add_ratio`
            by (size, loss), share of ADD among rewarded decisions, NaN where there were none; and
            the columns of `History`, each of shape (points,).
        """
        counts = np.array(self.learner.counts, dtype=np.int64).reshape(TABLE_SHAPE)
        by_action = counts.sum(axis=2)
        totals = by_action.sum(axis=-1)
        add_ratio = np.full(totals.shape, np.nan)
        np.divide(by_action[..., ADD], totals, out=add_ratio, where=totals > 0)
        points = np.array(self.history.points, dtype=np.float64).reshape(-1, len(COLUMNS))
        return {
            "counts": counts,
            "values": np.array(self.learner.values).reshape(TABLE_SHAPE),
            "add_ratio": add_ratio,
            **{name: points[:, k] for k, name in enumerate(COLUMNS)},
        }

    def _make_learner(self, instance_id: int) -> Learner:
        learner: Learner
        if self._kind.learner == "ucb1":
            learner = Ucb1(self._exploration)
        else:
            rng = stream(self._seed, f"batching.feather.{instance_id}")
            learner = QLearning(rng, **self._constants)
        if self._start is not None:
            self._start.give_to(learner)
        return learner

    def _read_start(self, state_in: str | None) -> LearnerState | None:
        if state_in is None:
            if not self._learns:
                raise ConfigError("batching.learn=false needs batching.state_in: nothing is known")
            return None
        start = read_learner_state(Path(state_in), "batching.state_in")
        for name in LearnerKind.__slots__:
            was, now = getattr(start.kind, name), getattr(self._kind, name)
            if was != now:
                raise ConfigError(
                    f"batching.state_in={state_in}: was learned with {name}={was}, "
                    f"and batching.{name} is {now}"
                )
        return start


def _require_one_of(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ConfigError(f"batching.{name}={value}: must be one of {', '.join(allowed)}")


def _refuse_unread(
    learner: str, learn: bool, of_ucb1: dict[str, Any], of_q_learning: dict[str, Any]
) -> None:
    """A constant of the other learner decides nothing; without learning none does."""
    unread = of_q_learning if learner == "ucb1" else of_ucb1
    why = f"batching.learner={learner}"
    if not learn:
        unread, why = of_ucb1 | of_q_learning, "batching.learn=false"
    for name, value in unread.items():
        if value is not None:
            raise ConfigError(f"batching.{name}={value} has no effect with {why}: leave it out")


def _writable(state_out: str | None, learn: bool) -> Path | None:
    if state_out is None:
        return None
    if not learn:
        raise ConfigError(
            f"batching.state_out={state_out} has no effect with batching.learn=false: leave it out"
        )
    if not Path(state_out).name:
        raise ConfigError(f"batching.state_out='{state_out}': must name a file")
    path = Path(state_out)
    if path.is_dir():
        raise ConfigError(f"batching.state_out={state_out}: must be a file, but it is a folder")
    if not path.parent.is_dir():
        raise ConfigError(f"batching.state_out={state_out}: there is no folder {path.parent}")
    return path


def _for_instance(path: Path, instance_id: int) -> Path:
    return path.with_name(f"{path.stem}.{instance_id}{path.suffix}") if instance_id else path


def _prefills(instance: InstanceView) -> bool:
    """Whether a running request still prefills."""
    return any(request.phase == PREFILLING for request in instance.running.values())
