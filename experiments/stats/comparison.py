"""Every policy against a baseline, for every metric in every setting: one long table."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.schema.suggest import unknown_name
from experiments.stats.blocks import Block, FloatArray, Sample, blocks_of
from experiments.stats.differences import (
    Difference,
    holm,
    paired_difference,
    welch_difference,
)
from experiments.stats.directions import direction_of, unit_of
from experiments.stats.intervals import check_level, mean_interval
from experiments.stats.noise_floor import Placebo, noise_floor, unit_interval
from sim.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    *("policy", "baseline", "metric", "unit", "better", "num_runs", "regime", "num_in_regime"),
    *("users", "offered_rate_per_s"),
    *("mean", "low", "high", "level", "interval"),
    *("difference", "difference_low", "difference_high", "difference_level"),
    *("relative_difference", "num_pairs", "difference_method", "p_value_holm"),
    *("noise_floor", "verdict"),
)
"""After the settings; differences are those to the baseline, bounds those of their interval."""

WITHIN_NOISE = "within noise"
"""Verdict where an interval leaves 0 out, but placebos reach as far as its near end."""


def comparison(
    frame: "pd.DataFrame",
    baseline: str | None = None,
    metrics: Sequence[str] | None = None,
    level: float = 0.95,
    method: str = "t",
) -> "pd.DataFrame":
    """Means with intervals, and differences to the baseline with verdicts.

    Args:
        frame: as `metrics_frame` or `class_frame` returns it.
        baseline: the policy to compare with; None takes the first.
        metrics: names; None takes all.
        level: coverage of the intervals; 1 - level is the risk of a wrong verdict, over all
            policies compared with the baseline in one metric and setting (Holm's correction).
        method: of the intervals of means, and of paired differences; with a bootstrap these must
            leave 0 out too for a verdict. Differences that are not paired have t intervals.

    Returns:
        One row per setting, policy and metric; the settings, then COLUMNS.

    Raises:
        ConfigError: no run finished, or a name, level or method is none.
    """
    import pandas as pd

    check_level(level)
    blocks = blocks_of(frame)
    if not blocks:
        raise ConfigError("no run to compare: none ended with status ok")
    chosen = chosen_baseline(frame, baseline)
    names = known_metrics(frame, metrics)
    settings = frame.attrs["settings"]
    rows: list[dict[str, Any]] = []
    for block in blocks:
        for metric in names:
            found = block_differences(block, chosen, metric, level, method)
            for policy, sample in block.samples.items():
                head = {**block.settings, "policy": policy, "baseline": chosen, "metric": metric}
                means = _mean_columns(sample, metric, level, method)
                floor = _noise_floor(block, (policy, chosen), metric, level)
                differences = _difference_columns(found.get(policy), metric, level, floor)
                rows.append({**head, **means, **differences})
    return pd.DataFrame(rows, columns=[*settings, *COLUMNS])


def chosen_baseline(frame: "pd.DataFrame", baseline: str | None) -> str:
    """The policy to compare with: the one named, else the first that has results.

    Raises:
        ConfigError: there is no such policy.
    """
    policies = list(dict.fromkeys(frame.loc[frame["status"] == "ok", "policy"]))
    if baseline is None:
        return str(policies[0])
    if baseline not in policies:
        raise ConfigError(unknown_name("policy", baseline, policies))
    return baseline


def known_metrics(frame: "pd.DataFrame", metrics: Sequence[str] | None) -> list[str]:
    """The metrics named, or all of the frame.

    Raises:
        ConfigError: one of them is none.
    """
    known: list[str] = frame.attrs["metrics"]
    for name in metrics or ():
        if name not in known:
            raise ConfigError(unknown_name("metric", name, known))
    return list(metrics or known)


def block_differences(
    block: Block, baseline: str, metric: str, level: float, method: str = "t"
) -> dict[str, Difference]:
    """Differences of the other policies to the baseline in one setting, corrected after Holm.

    Args:
        block: the setting.
        baseline: the policy to compare with.
        metric: its name.
        level: coverage before the correction.
        method: of the intervals of paired differences, as in `mean_interval`; p-values are
            those of t tests.
    """
    if baseline not in block.samples:
        return {}
    against = block.samples[baseline]
    found = {
        policy: difference_of(sample, against, metric, level)
        for policy, sample in block.samples.items()
        if policy != baseline
    }
    corrected = dict(zip(found, holm(list(found.values()), level), strict=True))
    if method == "t":
        return corrected
    return {
        policy: _resampled(item, block.samples[policy], against, metric, method)
        for policy, item in corrected.items()
    }


def _resampled(
    item: Difference, sample: Sample, against: Sample, metric: str, method: str
) -> Difference:
    """The same with a bootstrap interval over its pairs, at the level that Holm left it."""
    if item.method != "paired":
        return item
    ours, theirs = _pairs(sample, against, metric)
    found = unit_interval(ours - theirs, item.level, method)
    return replace(item, low=found.low, high=found.high)


def difference_of(sample: Sample, against: Sample, metric: str, level: float) -> Difference:
    """Paired over the runs that saw the same load with the same seed, else Welch's.

    A lone pair tells less than two samples of several runs each.
    """
    ours, theirs = _pairs(sample, against, metric)
    is_lone = len(ours) == 1 and min(sample.num_values, against.num_values) > 1
    if not len(ours) or is_lone:
        return welch_difference(sample.values(metric), against.values(metric), level)
    return paired_difference(ours, theirs, level)


def _pairs(sample: Sample, against: Sample, metric: str) -> tuple[FloatArray, FloatArray]:
    """Values of the runs that belong together; runs that repeat one another are one pair."""
    pairs = paired_rows(sample, against)
    if sample.is_repeated and against.is_repeated:
        pairs = pairs[:1]
    ours = sample.metrics[metric][[row for row, _ in pairs]]
    theirs = against.metrics[metric][[row for _, row in pairs]]
    return ours, theirs


def paired_rows(sample: Sample, against: Sample) -> list[tuple[int, int]]:
    """Places of the runs that belong together: equal trace, seed and replication."""
    place = {key: row for row, key in enumerate(against.pair_keys())}
    return [(row, place[key]) for row, key in enumerate(sample.pair_keys()) if key in place]


def _mean_columns(sample: Sample, metric: str, level: float, method: str) -> dict[str, Any]:
    found = mean_interval(sample.values(metric), level, method)
    return {
        "unit": unit_of(metric),
        "better": direction_of(metric),
        "num_runs": sample.num_values,
        "regime": sample.regime,
        "num_in_regime": sample.num_in_regime,
        "users": float(sample.users.mean()),
        "offered_rate_per_s": float(sample.offered_rates_per_s.mean()),
        "mean": found.mean,
        "low": found.low,
        "high": found.high,
        "level": level,
        "interval": method if found.is_bounded else None,
    }


def _noise_floor(block: Block, policies: Sequence[str], metric: str, level: float) -> float:
    """What the placebos of some policies reach; NaN without any on the same requests."""
    pairs = [
        Placebo(plain=_by_unit(block.samples[policy], metric), shifted=_by_unit(shifted, metric))
        for policy in dict.fromkeys(policies)
        if policy in block.samples
        for shifted in block.placebos.get(policy, ())
        if paired_rows(block.samples[policy], shifted)
    ]
    return noise_floor(pairs, level)


def _by_unit(sample: Sample, metric: str) -> dict[tuple[str, Any, int], float]:
    return dict(zip(sample.pair_keys(), sample.metrics[metric].tolist(), strict=True))


def _difference_columns(
    found: Difference | None, metric: str, level: float, floor: float
) -> dict[str, Any]:
    if found is None:
        return {"difference": np.nan, "difference_low": np.nan, "difference_high": np.nan}
    return {
        "difference": found.difference,
        "difference_low": found.low,
        "difference_high": found.high,
        "difference_level": found.level,
        "relative_difference": found.relative,
        "num_pairs": found.num_values,
        "difference_method": found.method,
        "p_value_holm": found.p_value,
        "noise_floor": floor,
        "verdict": _guarded(found, metric, level, floor),
    }


def _guarded(found: Difference, metric: str, level: float, floor: float) -> str:
    """The verdict, unless the interval covers 0 or reaches into what placebos do."""
    verdict = found.verdict(direction_of(metric), 1 - level)
    if verdict not in ("better", "worse", "higher", "lower"):
        return verdict
    if found.low <= 0 <= found.high:
        return "not distinguishable"
    return WITHIN_NOISE if -floor <= found.high and found.low <= floor else verdict
