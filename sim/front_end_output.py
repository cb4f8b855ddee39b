"""The way out: when the tokens of each step are with their users.

The tokens of a step are handled together, after those of all steps that ended before it on any
instance; of steps that end in one instant that of the lower instance comes first:

    delivered_k = max(end_k, delivered_{k-1}) + tokens_k * output_token_s

With N_k the tokens of the first k steps and c the work per token this is
``c N_k + max_{j<=k}(end_j - c N_{j-1})``. Only that form is computed, by the same operations step
by step and for whole columns, so that both agree in every bit.

Source: vLLM v1 `AsyncLLM` output handler (one loop over the outputs of all engines; the streams of
a step's requests go on when its outputs are processed).
"""

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from itertools import repeat
from math import inf
from operator import itemgetter
from typing import Any

import numpy as np

from sim.looped_instance import CheckedLoopedInstance, LoopedInstance
from sim.records import InstanceRecords, RequestRecords
from sim.workload import FloatArray, IntArray


def tokens_per_step(requests: RequestRecords, index: int, num_steps: int) -> IntArray:
    """Output tokens that each step of an instance made. Shape (num_steps,)."""
    _, first, last = requests.intervals(index)
    change = np.bincount(first - 1, minlength=num_steps + 1)[: num_steps + 1]
    change -= np.bincount(last, minlength=num_steps + 1)[: num_steps + 1]
    return np.cumsum(change)[:num_steps]


def delivery_times(
    requests: RequestRecords, instances: Sequence[InstanceRecords], output_token_s: float
) -> list[FloatArray]:
    """When the tokens of each step are delivered, seconds; one array per instance."""
    sizes = [len(one.step_end_s) for one in instances]
    tokens = [tokens_per_step(requests, i, size) for i, size in enumerate(sizes)]
    ends = np.concatenate([one.step_end_s for one in instances])
    order = np.argsort(ends, kind="stable")
    ends, counts = ends[order], np.concatenate(tokens)[order]
    total = np.cumsum(counts)
    backlog = np.maximum.accumulate(ends - output_token_s * (total - counts))
    delivered = np.empty_like(ends)
    delivered[order] = np.maximum(backlog + output_token_s * total, ends)
    return np.split(delivered, np.cumsum(sizes)[:-1])


class CountedInstance(LoopedInstance):
    """An instance of a closed loop that knows how many tokens each of its steps makes."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._tokens = array("q")

    def _commit_run(self, num_steps: int) -> None:
        self._tokens.extend(repeat(self._planned_tokens(), num_steps))
        super()._commit_run(num_steps)

    def _planned_tokens(self) -> int:
        return self.batch.num_requests + len(self.plan.completing)

    def steps_after(self, first: int, now_s: float) -> list[tuple[float, int]]:
        """(end in seconds, tokens) of the steps that ended by `now_s`, the first `first` ones left
        out."""
        planned = self.batch.step + self._run_steps
        ends = self.step_ends.view
        last = bisect_right(ends, now_s, first, planned)
        tokens = self._tokens[first:last].tolist()
        tokens += [self._planned_tokens()] * (last - first - len(tokens))
        return list(zip(ends[first:last].tolist(), tokens, strict=True))


class CheckedCountedInstance(CountedInstance, CheckedLoopedInstance):
    """The same under `check=true`."""


class WayOut:
    """The way out while a closed loop runs, brought up to date whenever a request ends.

    Args:
        instances: all of the cluster.
        output_token_s: work per output token, seconds.
    """

    def __init__(self, instances: Sequence[CountedInstance], output_token_s: float) -> None:
        self._instances = instances
        self._token_s = output_token_s
        self._delivered = [array("d") for _ in instances]
        self._num_tokens = 0
        self._backlog_s = -inf

    def delivered_s(self, instance_id: int, step: int, now_s: float) -> float:
        """When the tokens of a step (from 1) that has ended by `now_s` are delivered, seconds."""
        self._advance(now_s)
        return self._delivered[instance_id][step - 1]

    def _advance(self, now_s: float) -> None:
        steps: list[tuple[float, int, int]] = []
        for index, instance in enumerate(self._instances):
            ended = instance.steps_after(len(self._delivered[index]), now_s)
            steps += [(end_s, index, tokens) for end_s, tokens in ended]
        if len(self._instances) > 1:
            steps.sort(key=itemgetter(0, 1))
        token_s, total, backlog_s = self._token_s, self._num_tokens, self._backlog_s
        for end_s, index, tokens in steps:
            backlog_s = max(backlog_s, end_s - token_s * total)
            total += tokens
            self._delivered[index].append(max(backlog_s + token_s * total, end_s))
        self._num_tokens, self._backlog_s = total, backlog_s
