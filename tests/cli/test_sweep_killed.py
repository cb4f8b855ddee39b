"""A sweep that was killed at any moment and started again ends like one that was left in peace.

The same with the command itself, more jobs and more kills, takes minutes:

    python -m tests.cli.test_sweep_killed JOBS KILLS
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from experiments.composing import compose_config
from experiments.sweep.pool import Pool
from experiments.sweep.reuse import reuse_results
from experiments.sweep.task import Task
from tests.cli.test_process import REPOSITORY
from tests.cli.test_sweep import files
from tests.conftest import TINY

NUM_JOBS = 60
NUM_KILLS = 2


def run_jobs(directory: Path, workers: int, num_jobs: int = NUM_JOBS) -> None:
    """Small jobs, composed once: composing takes longer than they do."""
    overrides = [*TINY, "trace.num_requests=8", "output.steps=true", "routing=random"]
    config, choices = compose_config(overrides)
    tasks = [
        Task(
            number=number,
            config={**config, "seed": number},
            choices=choices,
            overrides=[*overrides, f"seed={number}"],
            directory=directory / str(number),
        )
        for number in range(num_jobs)
    ]
    done = reuse_results(tasks, directory)
    with Pool(workers) as pool:
        pool.run([task for task in tasks if task.number not in done], lambda _outcome: None)


def start(arguments: Sequence[str], directory: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def num_done(directory: Path) -> int:
    return len(list(directory.glob("*/result.json")))


def kill_at_random(
    arguments: Sequence[str], directory: Path, results: Path, draws: random.Random
) -> None:
    """Start; kill at some moment after some more jobs are done."""
    target = num_done(results) + draws.randint(1, 15)
    process = start(arguments, directory)
    while process.poll() is None and num_done(results) < target:
        time.sleep(0.002)
    time.sleep(0.05 * draws.random())
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_a_sweep_killed_at_random_moments_ends_like_one_left_in_peace(tmp_path: Path) -> None:
    (tmp_path / "peace").mkdir()
    (tmp_path / "killed").mkdir()
    run_jobs(tmp_path / "peace", workers=1)
    call = f"run_jobs(Path({str(tmp_path / 'killed')!r}), 2)"
    program = f"from pathlib import Path\nfrom tests.cli.test_sweep_killed import *\n{call}"
    draws = random.Random(1)
    for _ in range(NUM_KILLS):
        kill_at_random(["-c", program], tmp_path, tmp_path / "killed", draws)
    assert 0 < num_done(tmp_path / "killed") < NUM_JOBS
    assert start(["-c", program], tmp_path).wait() == 0
    assert files(tmp_path / "killed") == files(tmp_path / "peace")


def test_a_job_killed_while_it_writes_leaves_nothing_behind(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from pyarrow import parquet\n"
        "from experiments.sweep.task import run_task\n"
        "from tests.cli.test_sweep_killed import *\n"
        "if sys.argv[1] == 'kill':\n"
        "    parquet.write_table = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "run_jobs(Path('out'), 1, 2)\n"
    )
    (tmp_path / "out").mkdir()
    assert start(["-c", program, "kill"], tmp_path).wait() == -signal.SIGKILL
    left = [path.name for path in (tmp_path / "out" / "0").iterdir()]
    assert len(left) == 1
    assert left[0].startswith(".requests.parquet.")
    assert start(["-c", program, "go on"], tmp_path).wait() == 0
    names = {path.name for path in (tmp_path / "out" / "0").iterdir()}
    assert names == {
        *("distributions.parquet", "requests.parquet", "result.json", "run.json", "steps.parquet")
    }


def main(num_jobs: int, num_kills: int) -> None:
    """The command, killed so often."""
    seeds = ",".join(str(seed) for seed in range(num_jobs))
    sweep = ["-m", "experiments", "-m", *TINY, f"seed={seeds}"]
    draws = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        there = Path(folder)
        assert start([*sweep, "hydra.sweep.dir=peace"], there).wait() == 0
        again = [*sweep, "hydra.sweep.dir=killed"]
        for number in range(num_kills):
            kill_at_random(again, there, there / "killed", draws)
            print(f"kill {number + 1}: {num_done(there / 'killed')} jobs done", flush=True)
        assert start(again, there).wait() == 0
        assert files(there / "killed") == files(there / "peace")
        print(f"identical: {num_jobs} jobs")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
