"""The descent of `flocksim-calibrate against`, and the load by which it groups requests."""

import numpy as np
import pytest

from experiments.calibrate.against.descent import descend, robust_loss
from experiments.calibrate.against.in_flight import mean_in_flight
from experiments.calibrate.against.measured_run import MeasuredRun
from sim.workload import FloatArray

X: FloatArray = np.linspace(1.0, 2.0, 20)


def residuals(at: FloatArray) -> FloatArray:
    """Of the line 3 + 2 x, in a steep and a flat parameter."""
    line: FloatArray = (at[0] + 1e-3 * at[1] * X) - (3 + 2 * X)
    return line


def jacobian(at: FloatArray) -> FloatArray:
    return np.stack([np.ones_like(X), 1e-3 * X], axis=1)


def bounded(low: list[float], high: list[float]) -> list[float]:
    found = descend(
        residuals, jacobian, np.array([1.0, 1.0]), np.array(low), np.array(high), 0.1, 12
    )
    return [float(value) for value in found]


def test_a_descent_ends_in_the_minimum_whatever_the_scales() -> None:
    assert bounded([-10, -1e6], [10, 1e6]) == pytest.approx([3, 2000], rel=1e-3)


def test_a_descent_stays_inside_its_bounds() -> None:
    steep, flat = bounded([0, 0], [10, 1000])
    assert flat == pytest.approx(1000, rel=1e-6)
    assert steep == pytest.approx(3 + X.mean(), rel=0.02)


def test_a_parameter_that_moves_nothing_stays() -> None:
    def flat(at: FloatArray) -> FloatArray:
        return np.stack([np.ones_like(X), np.zeros_like(X)], axis=1)

    found = descend(
        lambda at: residuals(np.array([at[0], 2000.0])),
        flat,
        np.array([1.0, 7.0]),
        np.array([0.0, 0.0]),
        np.array([10.0, 10.0]),
        0.1,
        12,
    )
    assert found.tolist() == pytest.approx([3, 7], rel=1e-3)


def test_one_wrong_residual_does_not_pull_the_answer() -> None:
    def with_one_wrong(at: FloatArray) -> FloatArray:
        found = at[0] - np.append(np.full(19, 3.0), 30.0)
        return np.asarray(found, dtype=np.float64)

    found = descend(
        with_one_wrong,
        lambda at: np.ones((20, 1)),
        np.array([10.0]),
        np.array([0.0]),
        np.array([100.0]),
        0.1,
        20,
    )
    assert found[0] == pytest.approx(3.0, abs=0.02)
    assert robust_loss(with_one_wrong(found), 0.1) < robust_loss(with_one_wrong(found + 1), 0.1)


def test_requests_in_flight_are_counted_over_the_decode() -> None:
    run = MeasuredRun(
        format="csv",
        sha256="",
        arrival_s=np.array([0.0, 1.0, 2.0]),
        prompt_tokens=np.ones(3, dtype=np.int64),
        output_tokens=np.array([5, 5, 1]),
        ttft_s=np.array([1.0, 1.0, 1.0]),
        decode_s=np.array([3.0, 3.0, 0.0]),
        gaps_s=None,
        num_gaps=np.zeros(3, dtype=np.int64),
        num_failed=0,
    )
    # In flight: 1 up to 1 s, 2 up to 2 s, 3 up to 3 s, 2 up to 4 s, 1 up to 5 s.
    assert mean_in_flight(run)[:2].tolist() == pytest.approx([7 / 3, 2.0])
    assert mean_in_flight(run)[2] in (2.0, 3.0)
