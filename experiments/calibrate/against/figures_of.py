"""Figures of a run, measured beside simulated, and how far the simulated ones are off."""

from dataclasses import dataclass

import numpy as np

from experiments.calibrate.against.measured_run import BoolArray, MeasuredRun
from experiments.calibrate.against.replay import Simulated
from sim.inter_token import token_gaps, weighted_percentiles
from sim.workload import FloatArray, IntArray

QUANTITIES = ("ttft", "tpot", "itl", "e2e")

PERCENTILES = (50, 90, 99)

RATES = ("output_tokens_per_s", "request_rate_per_s")


@dataclass(frozen=True, slots=True)
class Pair:
    """One figure.

    Attributes:
        measured: its value in the measured run.
        simulated: its value in the replay.
    """

    measured: float
    simulated: float

    @property
    def error(self) -> float:
        """`simulated / measured - 1`."""
        return self.simulated / self.measured - 1


def pairs(
    measured: MeasuredRun, simulated: Simulated, offset_s: float, is_counted: BoolArray
) -> dict[str, Pair]:
    """Mean and percentiles of every latency that was measured, by names such as `ttft_p90_s`.

    Args:
        measured: the run.
        simulated: its replay.
        offset_s: to add to every simulated time to first token.
        is_counted: requests that count; all of them finish in the replay. Shape (n,).
    """
    columns = {
        "ttft": (measured.ttft_s, simulated.ttft_s + offset_s),
        "tpot": (measured.tpot_s, simulated.tpot_s),
        "e2e": (measured.e2e_s, simulated.e2e_s + offset_s),
    }
    found: dict[str, Pair] = {}
    for name in QUANTITIES:
        if name == "itl":
            if measured.has_a_gap_per_token:
                found |= _gap_pairs(measured, simulated, is_counted)
            continue
        theirs, ours = columns[name]
        both = is_counted & ~np.isnan(theirs) & ~np.isnan(ours)
        if both.any():
            found |= _zipped(name, _spread(theirs[both]), _spread(ours[both]))
    return found


def rate_pairs(measured: MeasuredRun, simulated: Simulated) -> dict[str, Pair]:
    """Tokens and requests per second from the first start to the last token, `RATES`.

    Over the requests that finish in the replay, in both runs.
    """
    is_done = simulated.is_done
    start_s = measured.arrival_s[is_done]
    theirs_s = float((start_s + measured.e2e_s[is_done]).max() - start_s.min())
    ours_s = float((start_s + simulated.e2e_s[is_done]).max() - start_s.min())
    num_tokens = int(measured.output_tokens[is_done].sum())
    counts = (num_tokens, int(is_done.sum()))
    return {
        name: Pair(number / theirs_s, number / ours_s)
        for name, number in zip(RATES, counts, strict=True)
    }


def errors_of(
    measured: MeasuredRun, simulated: Simulated, offset_s: float, is_counted: BoolArray
) -> dict[str, float]:
    """Mean absolute relative errors, `ttft_ratio`, `tpot_ratio` and `e2e_ratio`.

    Request by request; times to first token in order of size: whether a request comes just before
    or just after a step has begun decides by a step how long it waits, and no replay gets that
    right.

    Args:
        measured: the run.
        simulated: its replay.
        offset_s: to add to every simulated time to first token.
        is_counted: requests that count; all of them finish in the replay. Shape (n,).
    """
    has_tpot = is_counted & ~np.isnan(measured.tpot_s) & ~np.isnan(simulated.tpot_s)
    columns = {
        "ttft": (
            np.sort(measured.ttft_s[is_counted]),
            np.sort(simulated.ttft_s[is_counted]) + offset_s,
        ),
        "tpot": (measured.tpot_s[has_tpot], simulated.tpot_s[has_tpot]),
        "e2e": (measured.e2e_s[is_counted], simulated.e2e_s[is_counted] + offset_s),
    }
    return {
        f"{name}_ratio": float(np.abs(ours / theirs - 1).mean())
        for name, (theirs, ours) in columns.items()
        if len(theirs)
    }


def _gap_pairs(
    measured: MeasuredRun, simulated: Simulated, is_counted: BoolArray
) -> dict[str, Pair]:
    gaps_s, weights = token_gaps(simulated.result, is_counted)
    theirs = measured.gaps_of(is_counted)
    if not len(theirs) or not weights.sum():
        return {}
    return _zipped("itl", _spread(theirs), _weighted_spread(gaps_s, weights))


def _spread(values: FloatArray) -> list[float]:
    return [float(values.mean()), *np.percentile(values, PERCENTILES).tolist()]


def _weighted_spread(values: FloatArray, weights: IntArray) -> list[float]:
    mean = float((values * weights).sum() / weights.sum())
    return [mean, *weighted_percentiles(values, weights, list(map(float, PERCENTILES)))]


def _zipped(name: str, theirs: list[float], ours: list[float]) -> dict[str, Pair]:
    statistics = ("mean", *(f"p{percentile}" for percentile in PERCENTILES))
    rows = zip(statistics, theirs, ours, strict=True)
    return {f"{name}_{statistic}_s": Pair(a, b) for statistic, a, b in rows if a > 0}
