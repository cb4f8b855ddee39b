"""Fit of the host's constants to the latencies of some requests of a measured run.

Minimises `sum soft_l1(e / 0.1)` where e is the mean of `log(simulated / measured)` over a block of
requests: times per output token, in blocks of equal load, and times to first token, sorted, in
blocks of equal size. Means, because which requests share a step is chance: single ones scatter by
far more than the constants move them. Steps are Gauss-Newton's, derivatives are differences between
whole simulations; the offset needs none. Not modelled: kernels that are off
(their error goes into these constants as far as it looks like host time), and cached prompts, of
which the files of benchmarks say nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from experiments.calibrate.against.descent import descend, robust_loss
from experiments.calibrate.against.host_constants import OFFSET, HostConstant, fitted_constants
from experiments.calibrate.against.in_flight import mean_in_flight
from experiments.calibrate.against.measured_run import BoolArray, MeasuredRun
from experiments.calibrate.against.replay import Replay
from hwmodels.fitting.least_squares import MAX_RELATIVE_ERROR
from hwmodels.fitting.rounding import rounded
from hwmodels.fitting.standard_errors import robust_covariance
from sim.errors import CalibrationError
from sim.workload import FloatArray, IntArray

LOSS_SCALE = 0.1
"""Relative error from which the loss grows linearly."""

TTFT_WEIGHT = 1 / 2
"""Of a block of times to first token beside one of times per token: whether a request comes just
before or just after a step has begun moves it by as much as a step, and no replay gets that right.
"""

FIRST_STEPS, MORE_STEPS = 7, 4
"""Steps of the first descent, and of those after a constant went back to its prior."""

MAX_SIMULATIONS = 60
"""Replays after which a descent takes no further steps than one."""

NUM_TTFT_BLOCKS, NUM_TPOT_BLOCKS = 5, 20

Values = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFit:
    """What a fit found.

    Attributes:
        values: every constant by name, seconds, those not identified as they were.
        standard_errors: seconds; None where not identified.
    """

    values: dict[str, float]
    standard_errors: dict[str, float | None]

    @property
    def not_identified(self) -> list[str]:
        """Names of the constants that the run does not tell."""
        return [name for name, error in self.standard_errors.items() if error is None]


@dataclass(slots=True)
class HostFitter:
    """Fits the constants of one run.

    Attributes:
        measured: the run.
        replay: simulates it.
        is_fitted: requests that count; all finish in the replay. Shape (n,).
        prior: the constants as they are, by name, seconds.
        steps: of difference quotients, by name, seconds: wide, because a simulation jumps where
            requests change places.
        tell: told how many simulations there were, after each.
    """

    measured: MeasuredRun
    replay: Replay
    is_fitted: BoolArray
    prior: Values
    steps: Values
    tell: Callable[[int], object]
    _latencies: dict[tuple[float, ...], tuple[FloatArray, FloatArray]] = field(default_factory=dict)
    _by_load: IntArray = field(init=False)

    def __post_init__(self) -> None:
        rows = np.flatnonzero(self.is_fitted & ~np.isnan(self.measured.tpot_s))
        load = mean_in_flight(self.measured)[rows]
        self._by_load = rows[np.argsort(load, kind="stable")]

    def fit(self) -> HostFit:
        """Find the constants.

        Those whose standard error exceeds 30 % go back to the prior, the least certain first, and
        the others are fitted again.

        Raises:
            CalibrationError: which requests finish depends on the constants.
        """
        free = list(fitted_constants())
        values, num_steps = dict(self.prior), FIRST_STEPS
        while True:
            values = self._best(free, values, num_steps)
            errors = self._standard_errors(free, values)
            place = _least_certain(free, values, errors)
            if place is None:
                break
            name = free.pop(place).name
            values[name], num_steps = self.prior[name], MORE_STEPS
        found = {one.name: error for one, error in zip(free, errors, strict=True)}
        return HostFit(
            values={name: rounded(value) for name, value in values.items()},
            standard_errors={name: found.get(name) for name in values},
        )

    def _best(self, free: list[HostConstant], values: Values, num_steps: int) -> dict[str, float]:
        """All constants, the free ones at their best values."""
        if any(one.name == OFFSET for one in free):
            values = self._with_offset(values)

        def named(at: FloatArray) -> dict[str, float]:
            found = zip(free, at.tolist(), strict=True)
            return {**values, **{one.name: value for one, value in found}}

        if not free:
            return dict(values)
        left = MAX_SIMULATIONS - self.replay.num_simulations
        best = descend(
            lambda at: self._residuals(named(at)),
            lambda at: self._jacobian(free, named(at)),
            np.array([values[one.name] for one in free]),
            np.array([one.low for one in free]),
            np.array([one.high for one in free]),
            LOSS_SCALE,
            min(num_steps, max(1, left // (2 + len(free)))),
        )
        return named(best)

    def _with_offset(self, values: Values) -> dict[str, float]:
        """The same constants with the best offset for them."""
        from scipy.optimize import minimize_scalar

        def loss(offset_s: float) -> float:
            return robust_loss(self._residuals({**values, OFFSET: offset_s}), LOSS_SCALE)

        high = float(self.measured.ttft_s[self.is_fitted].max())
        found = minimize_scalar(loss, bounds=(0.0, high), method="bounded", options={"xatol": 1e-6})
        offset_s = float(found.x) if loss(float(found.x)) < loss(0.0) else 0.0
        return {**values, OFFSET: offset_s}

    def _standard_errors(self, free: list[HostConstant], values: Values) -> list[float]:
        """Of the free constants, seconds; infinite where nothing depends on one."""
        if not free:
            return []
        residuals = self._residuals(values)
        if len(residuals) <= len(free):
            return [np.inf] * len(free)
        scale = np.array([self.steps[one.name] for one in free])
        covariance = robust_covariance(
            self._jacobian(free, values) * scale,
            residuals,
            np.arange(len(residuals), dtype=np.float64),
            LOSS_SCALE,
        )
        errors: list[float] = (np.sqrt(np.diag(covariance)) * scale).tolist()
        return errors

    def _residuals(self, values: Values) -> FloatArray:
        """Weighted mean logarithm of simulated / measured per block: TTFT, then TPOT."""
        ttft_s, tpot_s = self._simulated(values)
        ttft = np.log((ttft_s + values[OFFSET]) / np.sort(self.measured.ttft_s[self.is_fitted]))
        tpot = np.log(tpot_s / self.measured.tpot_s[self._by_load])
        return np.concatenate(
            [TTFT_WEIGHT * _means(ttft, NUM_TTFT_BLOCKS), _means(tpot, NUM_TPOT_BLOCKS)]
        )

    def _jacobian(self, free: list[HostConstant], values: Values) -> FloatArray:
        """Derivatives of the residuals. Shape (residuals, free)."""
        here = self._residuals(values)
        columns = []
        for one in free:
            if one.name == OFFSET:
                ttft_s, _ = self._simulated(values)
                slopes = TTFT_WEIGHT * _means(1 / (ttft_s + values[OFFSET]), NUM_TTFT_BLOCKS)
                columns.append(np.append(slopes, np.zeros(len(here) - len(slopes))))
                continue
            step = self.steps[one.name]
            step = step if values[one.name] + step <= one.high else -step
            there = self._residuals({**values, one.name: values[one.name] + step})
            columns.append((there - here) / step)
        return np.stack(columns, axis=1)

    def _simulated(self, values: Values) -> tuple[FloatArray, FloatArray]:
        """TTFTs by size and TPOTs by load; no constants are simulated twice."""
        constants = {name: value for name, value in values.items() if name != OFFSET}
        key = tuple(constants.values())
        if key not in self._latencies:
            found = self.replay.run(constants)
            self.tell(self.replay.num_simulations)
            if not found.is_done[self.is_fitted].all():
                raise CalibrationError(
                    "which requests are refused depends on the host's time, which leaves nothing "
                    "to compare: give another admission"
                )
            ttft_s = np.sort(found.ttft_s[self.is_fitted])
            self._latencies[key] = (ttft_s, found.tpot_s[self._by_load])
        return self._latencies[key]


def _means(values: FloatArray, num_blocks: int) -> FloatArray:
    """Means of so many equal blocks of values that follow one another; of fewer, each alone."""
    blocks = np.array_split(values, min(num_blocks, len(values))) if len(values) else []
    return np.array([block.mean() for block in blocks])


def _least_certain(free: list[HostConstant], values: Values, errors: list[float]) -> int | None:
    """Place of the constant whose relative standard error is the largest over 30 %; None: none."""
    relative = [
        error / max(values[one.name], 1e-12) for one, error in zip(free, errors, strict=True)
    ]
    if not relative or max(relative) <= MAX_RELATIVE_ERROR:
        return None
    return int(np.argmax(relative))
