"""The requests of a measured run in the simulator, at their recorded times."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from experiments.calibrate.against.measured_run import BoolArray
from experiments.deployment import build_deployment
from experiments.policy_errors import blaming
from experiments.results.atomic import write_text
from experiments.results.json_text import json_text
from experiments.schema.job import JobConfig
from hwmodels.overlay import Overlay
from sim.errors import CalibrationError
from sim.front_end_records import user_view
from sim.metrics import tpot_of
from sim.records import SimulationResult
from sim.simulation import Progress, simulate
from sim.workload import FloatArray, Workload

OVERLAY_FILE = "overlay.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """What the simulator makes of the requests; times in seconds.

    Attributes:
        result: all records, with times as users see them.
        is_done: requests that it finished. Shape (n,), like all columns.
        ttft_s: time to first token, NaN where it did not finish.
        tpot_s: time per output token after the first, NaN where there is none.
        e2e_s: from the arrival to the last token, NaN where it did not finish.
    """

    result: SimulationResult
    is_done: BoolArray
    ttft_s: FloatArray
    tpot_s: FloatArray
    e2e_s: FloatArray


class Replay:
    """Simulates the same requests under different constants of the host.

    Args:
        job: the configuration; its trace is not read.
        workload: the requests.
        base: the overlay under which `job` runs: no constants, or those that the user has changed
            before.
        folder: an empty directory of its own.

    Attributes:
        num_simulations: how many there were.
    """

    def __init__(self, job: JobConfig, workload: Workload, base: Overlay, folder: Path) -> None:
        self._job = job
        self._workload = workload
        self._base = base
        self._folder = folder
        self.num_simulations = 0

    def run(
        self, constants: Mapping[str, float] | None = None, progress: Progress | None = None
    ) -> Simulated:
        """Simulate all requests.

        Args:
            constants: of the device, by name; None leaves them as configured.
            progress: told how far it is.

        Raises:
            FlocksimError: the job cannot run.
            CalibrationError: no request finishes.
            KeyboardInterrupt: Ctrl-C came.
        """
        job = self._job if constants is None else self._changed(constants)
        with blaming(job.plugins):
            deployment = build_deployment(job)
            result = simulate(self._workload, deployment.spec, progress=progress)
        self.num_simulations += 1
        if result.is_interrupted:
            raise KeyboardInterrupt
        return _simulated(user_view(result))

    def _changed(self, constants: Mapping[str, float]) -> JobConfig:
        """The job on a profile with these constants."""
        values = {**self._base.values, **constants}
        overlay = replace(self._base, values=values, sources=dict.fromkeys(values, "being fitted"))
        path = self._folder / OVERLAY_FILE
        write_text(path, json_text(overlay.to_json()))
        return replace(
            self._job, hardware=replace(self._job.hardware, profile=None, path=f"{path}")
        )


def _simulated(result: SimulationResult) -> Simulated:
    requests = result.requests
    is_done = requests.is_completed
    if not is_done.any():
        raise CalibrationError(
            "the simulator finishes none of the requests: they do not fit its KV cache or "
            "engine.max_model_len"
        )
    absent = np.where(is_done, 0.0, np.nan)
    return Simulated(
        result=result,
        is_done=is_done,
        ttft_s=requests.first_token_s - requests.arrival_s + absent,
        tpot_s=tpot_of(result) + absent,
        e2e_s=requests.finish_s - requests.arrival_s + absent,
    )
