"""`flocksim-calibrate measure`: microbenchmark rows of this GPU, or of a synthetic one."""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

from experiments.cli import EXIT_INTERRUPTED, EXIT_OK
from hwmodels.device import load_profile
from hwmodels.microbench.errors import MicrobenchError
from hwmodels.microbench.harness import Device
from hwmodels.microbench.run import run_plan
from hwmodels.synthetic_device import SimulatedTime, SyntheticDevice
from sim.errors import ConfigError

DEVICES = ("cuda", "synthetic")

DEFAULT_PROFILE = "a100_sxm_80gb"
"""Constants of a synthetic device."""


def measure(given: argparse.Namespace) -> int:
    """Measure what fits into the budget and append it to the file of rows.

    Raises:
        ConfigError: an option that does not apply, no GPU, a file that is broken or of another
            device, or no case could be measured.
    """
    started_s = time.monotonic()
    try:
        if given.device == "synthetic":
            simulated = _synthetic(given.profile or DEFAULT_PROFILE, given.seed)
            return _run(given, simulated, 0.0, simulated.clock)
        if given.profile is not None:
            raise ConfigError("--profile is for --device synthetic; a GPU has constants of its own")
        return _run(given, _cuda(given.seed), started_s, time.monotonic)
    except MicrobenchError as error:
        raise ConfigError(f"{error}") from None


def _synthetic(profile: str, seed: int) -> SimulatedTime:
    spec = load_profile(profile)
    return SimulatedTime(SyntheticDevice(spec=spec, models=spec.kernels, seed=seed))


def _cuda(seed: int) -> Device:
    try:
        from hwmodels.microbench.cuda_device import open_cuda_device
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("torch", "triton"):
            raise
        raise ConfigError(
            f"--device cuda needs {package}: pip install torch triton; "
            "--device synthetic needs neither"
        ) from None
    return open_cuda_device(seed)


def _run(
    given: argparse.Namespace, device: Device, started_s: float, clock: Callable[[], float]
) -> int:
    out = Path(given.out)
    outcome = run_plan(
        device,
        out,
        plan_name=given.plan,
        seed=given.seed,
        deadline_s=started_s + given.budget_s,
        clock=clock,
        say=lambda text: print(text, flush=True),
    )
    if outcome.is_interrupted:
        print(f"flocksim-calibrate: interrupted; rows are kept in {out}", file=sys.stderr)
        return EXIT_INTERRUPTED
    if outcome.num_failed and not outcome.num_measured + outcome.num_there:
        raise ConfigError(f"{out}: no case could be measured")
    return EXIT_OK
