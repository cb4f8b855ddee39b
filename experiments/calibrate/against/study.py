"""A measured run against its replay: as configured, and with the host's constants fitted."""

import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.calibrate.against.base import base_overlay
from experiments.calibrate.against.host_constants import OFFSET, prior_of, steps_of
from experiments.calibrate.against.host_fit import MAX_SIMULATIONS, HostFit, HostFitter
from experiments.calibrate.against.measured_run import BoolArray, MeasuredRun
from experiments.calibrate.against.replay import Replay, Simulated
from experiments.chosen_device import chosen_device
from experiments.progress import Progress
from experiments.schema.job import JobConfig
from hwmodels.overlay import Overlay
from sim.errors import ConfigError

FEWEST_REQUESTS = 40
"""Requests that a fit needs, half of which are held out."""

ShowProgress = Callable[[int, str], AbstractContextManager[Progress | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """What came of a fit.

    Attributes:
        fit: the constants.
        prior: the constants as they were, by name, seconds.
        simulated: the replay with the fitted constants.
        is_heldout: requests that the fit did not see and that finish in the replay. Shape (n,).
        num_requests_fit: requests that it saw.
        num_simulations: replays in all.
    """

    fit: HostFit
    prior: dict[str, float]
    simulated: Simulated
    is_heldout: BoolArray
    num_requests_fit: int
    num_simulations: int

    @property
    def offset_s(self) -> float:
        """To add to every simulated time to first token, seconds."""
        return self.fit.values[OFFSET]

    @property
    def changed(self) -> dict[str, float]:
        """Constants of the device that the fit found, seconds."""
        return {
            name: value
            for name, value in self.fit.values.items()
            if name != OFFSET and name not in self.fit.not_identified
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A comparison.

    Attributes:
        measured: the run.
        simulated: its replay as configured.
        base: what that ran on.
        fitted: None without a fit.
    """

    measured: MeasuredRun
    simulated: Simulated
    base: Overlay
    fitted: Fitted | None


def study_of(
    measured: MeasuredRun,
    job: JobConfig,
    is_fitting: bool,
    show_progress: ShowProgress,
    tell: Callable[[str], object],
) -> Study:
    """Replay a measured run and, if asked for, fit the host's constants.

    Even rows in the order of arrival are fitted, odd ones held out; all of them are replayed.

    Args:
        measured: the run.
        job: how the server is configured.
        is_fitting: whether to fit.
        show_progress: makes the progress callback from the number of requests and a label.
        tell: told in a line what goes on during the fit.

    Raises:
        FlocksimError: the job cannot run, or there are too few requests to fit.
        KeyboardInterrupt: Ctrl-C came.
    """
    if is_fitting and measured.num_requests < FEWEST_REQUESTS:
        raise ConfigError(
            f"{measured.num_requests} requests are too few to fit and to hold out half of them: "
            f"needs {FEWEST_REQUESTS} (--no-fit compares only)"
        )
    base = base_overlay(job.hardware)
    with tempfile.TemporaryDirectory(prefix="flocksim-") as folder:
        replay = Replay(job, measured.workload(), base, Path(folder))
        with show_progress(measured.num_requests, "replay") as progress:
            simulated = replay.run(progress=progress)
        fitted = _fitted(measured, job, replay, simulated, tell) if is_fitting else None
    return Study(measured=measured, simulated=simulated, base=base, fitted=fitted)


def _fitted(
    measured: MeasuredRun,
    job: JobConfig,
    replay: Replay,
    simulated: Simulated,
    tell: Callable[[str], object],
) -> Fitted:
    is_even = np.arange(measured.num_requests) % 2 == 0
    is_fitted = is_even & simulated.is_done
    is_heldout = ~is_even & simulated.is_done
    if min(is_fitted.sum(), is_heldout.sum()) < FEWEST_REQUESTS // 2:
        raise ConfigError(
            f"only {int(simulated.is_done.sum())} requests finish in the replay, too few to fit: "
            f"needs {FEWEST_REQUESTS} (--no-fit compares only)"
        )
    prior = prior_of(chosen_device(job.hardware))
    fitter = HostFitter(
        measured=measured,
        replay=replay,
        is_fitted=is_fitted,
        prior=prior,
        steps=steps_of(simulated.result),
        tell=lambda number: tell(f"fit: replay {number} of about {MAX_SIMULATIONS} at most"),
    )
    fit = fitter.fit()
    constants = {name: value for name, value in fit.values.items() if name != OFFSET}
    return Fitted(
        fit=fit,
        prior=prior,
        simulated=replay.run(constants),
        is_heldout=is_heldout,
        num_requests_fit=int(is_fitted.sum()),
        num_simulations=replay.num_simulations,
    )
