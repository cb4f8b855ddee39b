"""Runs the jobs of a study of LMETRIC and compares what they measured, window by window."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from experiments.capacity.flood import rate_of
from experiments.capacity.steady import steady_rate_of
from experiments.stats.intervals import Interval, mean_interval
from experiments.studies.base import Bench
from experiments.studies.conduct import JOBS
from experiments.studies.lmetric.measures import (
    FloatArray,
    Measure,
    RunTable,
    read_runs,
    samples_of,
)
from experiments.studies.lmetric.paired import bootstrap, change
from experiments.studies.lmetric.setting import SCALES, Scale, Setting
from experiments.studies.lmetric.variants import Variant
from experiments.studies.runs import Simulated
from experiments.sweep.replication import load_workload
from sim.errors import ConfigError

Key = tuple[Setting, Variant]


@dataclass(frozen=True, slots=True)
class Capacity:
    """Flood throughput.

    Attributes:
        rate_per_s: requests per second.
        is_drained: the flood is too short to have a steady part: its rate includes the drain, and
            the true one is higher.
    """

    rate_per_s: float
    is_drained: bool


@dataclass(frozen=True, slots=True)
class Found:
    """What a job measured.

    Attributes:
        setting: where.
        variant: the router.
        simulated: its metrics.
        runs: its requests, run by run.
        capacity: flood throughput of the setting.
    """

    setting: Setting
    variant: Variant
    simulated: Simulated
    runs: tuple[RunTable, ...]
    capacity: Capacity
    _drawn: dict[tuple[str, float | None], FloatArray] = field(default_factory=dict, compare=False)

    def interval(self, measure: Measure) -> Interval:
        """The measure and its 95 % interval, in its unit: over windows, or over runs (metrics)."""
        if measure.is_metric:
            return mean_interval([measure.factor * one for one in self._metrics(measure)])
        drawn = measure.factor * self.resamples(measure)
        around = change(drawn, drawn[:1])
        mean = float(drawn[0])
        return Interval(mean, mean * (1 + around.low), mean * (1 + around.high), around.num_values)

    def resamples(self, measure: Measure) -> FloatArray:
        """The measure, then that of each resample of the windows, in seconds."""
        key = (measure.key, measure.percentile)
        if key not in self._drawn:
            self._drawn[key] = bootstrap(samples_of(self.runs, measure.key), measure.percentile)
        return self._drawn[key]

    def change(self, other: "Found", measure: Measure) -> Interval:
        """Relative difference to another router on the same requests, percent."""
        if measure.is_metric:
            pairs = zip(self._metrics(measure), other._metrics(measure), strict=True)
            ratios = [100 * (mine / yours - 1) if yours else float("nan") for mine, yours in pairs]
            return mean_interval(ratios)
        found = change(self.resamples(measure), other.resamples(measure))
        return Interval(100 * found.mean, 100 * found.low, 100 * found.high, found.num_values)

    def _metrics(self, measure: Measure) -> list[float]:
        return self.simulated.values(measure.key)


def run_settings(
    bench: Bench, wanted: Sequence[Key], scales: Mapping[str, Scale] = SCALES
) -> dict[Key, Found]:
    """Measure capacities, run all jobs and read them.

    Args:
        bench: runs them.
        wanted: settings with routers, in the order in which they are simulated.
        scales: how much each size runs.

    Raises:
        FlocksimError: a job cannot run.
        KeyboardInterrupt: Ctrl-C came; jobs that are complete stay.
    """
    scale = scales[bench.size]
    settings = list(dict.fromkeys(setting for setting, _ in wanted))
    floods = _floods(bench, settings)
    rates = _rates(bench, settings, floods)
    cases = [setting.case(variant, scale, rates[setting]) for setting, variant in wanted]
    runs = bench.runner.run(cases)
    found: dict[Key, Found] = {}
    for (setting, variant), case, run in zip(wanted, cases, runs, strict=True):
        path = bench.directory / JOBS / case.folder / "requests.parquet"
        tables = read_runs(path, setting.warm_of(scale))
        found[setting, variant] = Found(setting, variant, run, tables, floods[setting])
    return found


def _floods(bench: Bench, settings: Sequence[Setting]) -> dict[Setting, Capacity]:
    """Flood throughput of settings, measured as by `flocksim-capacity --flood`.

    Raises:
        ConfigError: nothing finished.
    """
    import pandas as pd

    asked = list(dict.fromkeys(setting.flooded for setting in settings))
    cases = [setting.flood_case(bench.size) for setting in asked]
    bench.runner.run(cases)
    found: dict[Setting, Capacity] = {}
    for setting, case in zip(asked, cases, strict=True):
        path = bench.directory / JOBS / case.folder / "requests.parquet"
        steady = steady_rate_of(pd.read_parquet(path))
        if steady.rate_per_s is None:
            raise ConfigError(f"{setting.title}: not one request fits into this cluster")
        found[setting] = Capacity(steady.rate_per_s, steady.does_drain_dominate)
    return {
        setting: Capacity(
            setting.capacity_factor * found[setting.flooded].rate_per_s,
            found[setting.flooded].is_drained,
        )
        for setting in settings
    }


def _rates(
    bench: Bench, settings: Sequence[Setting], floods: Mapping[Setting, Capacity]
) -> dict[Setting, dict[str, str]]:
    """What makes the trace of each setting come at its load.

    Raises:
        ConfigError: a trace has no rate.
    """
    own: dict[object, float] = {}
    rates: dict[Setting, dict[str, str]] = {}
    for setting in settings:
        source = setting.source
        key = (source, tuple(setting.trace.items()))
        if source.is_scaled and key not in own:
            rate = rate_of(load_workload(bench.runner.job(setting.plain_case(bench.size))))
            if rate is None:
                raise ConfigError(f"{setting.title}: all requests of its trace arrive at once")
            own[key] = rate
        wanted_per_s = setting.load * floods[setting].rate_per_s
        rates[setting] = source.rate(bench.size, wanted_per_s, own.get(key, 1.0))
    return rates
