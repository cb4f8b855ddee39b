"""What a reader of a comparison must know: how it was averaged and compared."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from experiments.compare.caveats import flags, left_out, provenance_of, some, versions
from experiments.compare.report import ALARMING
from experiments.quantities import duration
from experiments.results.warmup import warmup_of
from experiments.stats.blocks import Block, Sample
from experiments.stats.comparison import paired_rows
from experiments.stats.intervals import METHOD_TITLES

if TYPE_CHECKING:
    import pandas as pd

    from experiments.results.load import Run

_REGIME_NOTE = (
    "▲ overloaded: arrivals exceed what the cluster can serve; backlogged: draining the queue "
    "after the last arrival took over 10 % of the run. There averages depend on where the trace "
    "stops"
)

_FEW = 10
"""Runs below which a bootstrap interval is clearly too narrow."""


def notes_of(
    runs: "Sequence[Run]",
    copies: "Sequence[Run]",
    frame: "pd.DataFrame",
    blocks: Sequence[Block],
    table: "pd.DataFrame",
    unit_keys: Sequence[str] = (),
) -> list[str]:
    """All notes, one paragraph each, those on reading first.

    Args:
        runs: the jobs compared, those that could not run included.
        copies: jobs left out because they repeat another.
        frame: metrics of `runs`.
        blocks: its settings.
        table: the comparison made of it.
        unit_keys: keys whose values count as runs of one setting.
    """
    done = [run for run in runs if run.status == "ok"]
    return [
        _same(frame, done),
        *_averaging(blocks, table),
        *_units(unit_keys),
        *_differences(blocks, table, unit_keys),
        *_placebos(blocks),
        _definitions(done),
        *([_REGIME_NOTE] if _is_any_unstable(blocks) else []),
        *_repeats(blocks),
        *_recorded(done, blocks),
        *_strangers(runs, blocks, table),
        *left_out(runs, copies),
        *flags(done, frame.attrs["settings"]),
        *versions(done),
    ]


def _same(frame: "pd.DataFrame", done: "Sequence[Run]") -> str:
    groups = frame.attrs["groups"]
    same = [f"{group}={value}" for group in groups if (value := _only(done, group)) is not None]
    return f"in all runs: {', '.join(same)}" if same else "no choice is the same in all runs"


def _only(runs: "Sequence[Run]", group: str) -> str | None:
    found = {run.choices.get(group) for run in runs}
    return found.pop() if len(found) == 1 else None


def _samples(blocks: Sequence[Block]) -> list[Sample]:
    return [sample for block in blocks for sample in block.samples.values()]


def _averaging(blocks: Sequence[Block], table: "pd.DataFrame") -> list[str]:
    samples = _samples(blocks)
    most = max(sample.num_values for sample in samples)
    if most == 1:
        return [_single(samples)]
    level, method = float(table["level"].iloc[0]), _first(table["interval"]) or "t"
    sign = "± is half of" if method == "t" else "below a mean stands"
    over = _listed(
        "seed", [seed for sample in samples for _, seed, k in sample.pair_keys() if k == 0]
    )
    count = max(len(set(sample.replications)) for sample in samples)
    times = f" with {count} replications" if count > 1 else ""
    notes = [
        f"means over runs ({over}{times}); {sign} the {100 * level:g} % interval of the mean "
        f"({METHOD_TITLES[method]})"
    ]
    if method != "t" and most < _FEW:
        notes.append(f"a bootstrap over fewer than {_FEW} runs gives intervals that are too narrow")
    return notes


def _single(samples: Sequence[Sample]) -> str:
    """Single observations, and how to get more: not by seeds where these change nothing."""
    if any(sample.is_repeated for sample in samples):
        return (
            "one observation per policy and setting: no intervals, no verdicts; repeat with "
            "replications=5"
        )
    return (
        "one run per policy and setting: no intervals, no verdicts; "
        "repeat with seed=0,1,2,3,4 or replications=5"
    )


def _units(unit_keys: Sequence[str]) -> list[str]:
    return [f"every value of {key} counts as a run of its own" for key in unit_keys]


def _placebos(blocks: Sequence[Block]) -> list[str]:
    """What the noise floor is made of."""
    names = dict.fromkeys(name for block in blocks for name in block.placebos)
    if not names:
        return []
    return [
        f"placebos (the same policy, ties falling elsewhere: routing.tie_shift) of "
        f"{some(list(names))}: a difference whose interval does not lie beyond what they reach is "
        f"called within noise"
    ]


def _listed(name: str, values: Iterable[Any]) -> str:
    unlike = list(dict.fromkeys(values))
    if len(unlike) > 8:
        return f"{len(unlike)} {name}s"
    shown = ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in unlike)
    return f"{name}{'s' if len(unlike) > 1 else ''} {shown}"


def _first(column: "pd.Series[Any]") -> str | None:
    known = column.dropna()
    return str(known.iloc[0]) if len(known) else None


def _differences(
    blocks: Sequence[Block], table: "pd.DataFrame", unit_keys: Sequence[str]
) -> list[str]:
    methods = set(table["difference_method"].dropna())
    if not methods:
        return []
    baseline, level = str(table["baseline"].iloc[0]), float(table["level"].iloc[0])
    if methods == {"none"}:
        return [f"differences are to {baseline}"]
    rivals = max(len(block.samples) for block in blocks) - 1
    holm = f", Holm's correction for {rivals} policies" if rivals > 1 else ""
    notes = [
        f"differences are to {baseline}; verdicts by t tests at {100 * level:g} %{holm}; "
        "≈ not distinguishable. Each figure is tested on its own, so of many some seem to differ "
        "by chance"
    ]
    if "paired" in methods:
        units = " and ".join(f"{key} by {key}" for key in unit_keys) or "seed by seed"
        notes.append(f"paired: both policies served the same requests, {units}")
    notes += _unpaired(blocks, baseline)
    return notes


def _unpaired(blocks: Sequence[Block], baseline: str) -> list[str]:
    """Policies that did not see the baseline's requests, in all runs or in some."""
    notes: dict[str, list[str]] = {}
    for block in blocks:
        if baseline not in block.samples:
            continue
        against = block.samples[baseline]
        for policy, sample in block.samples.items():
            if policy == baseline:
                continue
            num_pairs = len(paired_rows(sample, against))
            most = max(len(sample.seeds), len(against.seeds))
            where = f"{policy} ({block.title})" if block.title else policy
            if num_pairs < 2 <= most:
                why = "not paired (other requests or seeds than the baseline's), so Welch's t test"
                notes.setdefault(why, []).append(where)
            elif num_pairs < most:
                why = "paired only where a run of both exists, other runs count in the means alone"
                notes.setdefault(why, []).append(f"{where}: {num_pairs} of {most} runs")
    return [f"{why}: {some(places)}" for why, places in notes.items()]


def _definitions(done: "Sequence[Run]") -> str:
    slos = sorted({run.slo for run in done})
    limits = " or ".join(f"TTFT <= {duration(a)} and TPOT <= {duration(b)}" for a, b in slos)
    warmups = sorted({warmup_of(run.config) for run in done})
    warm = " or ".join(_warmup(*warmup) for warmup in warmups)
    return (
        "latencies are those of finished requests, percentiles within a run by NumPy's linear "
        f"method; goodput and SLO: {limits}; warm-up: {warm}"
    )


def _warmup(warmup_s: float, num_requests: int) -> str:
    parts = [f"arrivals before {duration(warmup_s)}"] if warmup_s else []
    parts += [f"the first {num_requests:,} requests"] if num_requests else []
    return f"{' and '.join(parts)} not counted" if parts else "none, every request counts"


def _is_any_unstable(blocks: Sequence[Block]) -> bool:
    return any(sample.regime in ALARMING for sample in _samples(blocks))


def _repeats(blocks: Sequence[Block]) -> list[str]:
    names = [policy for block in blocks for policy, one in block.samples.items() if one.is_repeated]
    if not names:
        return []
    return [
        "all runs gave the very same figures (the seed changes nothing there), so they count as "
        f"one: {some(list(dict.fromkeys(names)))}"
    ]


def _recorded(done: "Sequence[Run]", blocks: Sequence[Block]) -> list[str]:
    """Seeds over a recorded trace: the interval covers less than it seems to."""
    is_recorded = any(provenance_of(run).get("trace", {}).get("sha256") for run in done)
    samples = [sample for sample in _samples(blocks) if sample.num_values > 1]
    if not is_recorded or not any(len(set(sample.replications)) == 1 for sample in samples):
        return []
    return [
        "the trace is a recording: intervals over seeds cover the policies' own randomness, not "
        "other traffic of the same kind"
    ]


def _strangers(runs: "Sequence[Run]", blocks: Sequence[Block], table: "pd.DataFrame") -> list[str]:
    """Policies that never meet the baseline in a setting."""
    baseline = str(table["baseline"].iloc[0])
    met = {policy for block in blocks if baseline in block.samples for policy in block.samples}
    alone = [policy for policy in dict.fromkeys(table["policy"]) if policy not in met]
    if not alone:
        return []
    keys = [key for block in blocks[:1] for key in block.settings if "." in key]
    hint = f"; --policy-keys {','.join(keys)} makes them part of the policy" if keys else ""
    return [f"in no setting together with the baseline {baseline}: {some(alone)}{hint}"]
