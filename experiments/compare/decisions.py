"""What the decisions of the routers gave up, as a small table; nothing where none were recorded."""

from collections.abc import Callable, Sequence

import numpy as np

from experiments.compare.report import PlainTable
from experiments.quantities import ABSENT, digits, percent
from experiments.results.load import Run
from experiments.results.metrics_frame import frame_of
from experiments.stats.blocks import Sample, blocks_of

TITLE = "Decisions: what another instance would have given"

_COLUMNS: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("longer_hit_elsewhere_ratio", "longer hit elsewhere", percent),
    ("hit_tokens_given_up_mean_tokens", "given up (tokens)", digits),
    ("fewer_requests_elsewhere_ratio", "fewer requests elsewhere", percent),
    ("excess_requests_mean", "in excess (requests)", digits),
    ("dominated_choice_ratio", "dominated", percent),
    ("tied_score_ratio", "tied score", percent),
    ("score_margin_p50_ratio", "score margin (median)", percent),
)
"""Key of result.json's `routing`, heading, and how a value is written."""


def decision_tables(
    runs: Sequence[Run], policy_keys: Sequence[str] = (), unit_keys: Sequence[str] = ()
) -> list[PlainTable]:
    """One table with a row per policy and setting: means over the runs that recorded decisions.

    Args:
        runs: the jobs.
        policy_keys: keys that make different policies instead of different settings.
        unit_keys: keys whose values are repeats of one setting.
    """
    if not any(run.document.get("routing") for run in runs):
        return []
    frame = frame_of(runs, [_observations(run) for run in runs], policy_keys, unit_keys=unit_keys)
    rows = [
        (", ".join(filter(None, [policy, block.title])), *_texts(sample))
        for block in blocks_of(frame)
        for policy, sample in block.samples.items()
    ]
    if not rows:
        return []
    headings = ("policy", *(heading for _, heading, _ in _COLUMNS))
    return [PlainTable(TITLE, headings, tuple(rows))]


def _observations(run: Run) -> list[dict[str, object]]:
    found = run.document.get("routing")
    if not found:
        return []
    return [
        {
            "seed": run.document.get("seed"),
            "replication": 0,
            "regime": run.document.get("regime"),
            "offered_rate_per_s": None,
            **{key: found.get(key) for key, _, _ in _COLUMNS},
        }
    ]


def _texts(sample: Sample) -> list[str]:
    means = [(float(np.mean(sample.metrics[key])), written) for key, _, written in _COLUMNS]
    return [ABSENT if np.isnan(mean) else written(mean) for mean, written in means]
