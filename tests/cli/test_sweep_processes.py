"""Sweeps in processes: policies from outside, killed workers, Ctrl-C, programs."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from experiments import cli
from experiments.capacity import cli as capacity_cli
from experiments.sweep import run_sweep
from experiments.sweep.worker import interrupts_held_back
from sim.errors import ConfigError
from tests.cli.test_process import REPOSITORY, run_process
from tests.cli.test_sweep import files
from tests.conftest import TINY, Flocksim

ROUTER = '''
"""The first instance, unless told to take the process down."""

import os
import signal

from sim.interfaces import ClusterView, Router
from sim.request import Request


class First(Router):
    def __init__(self, ending: str = "none") -> None:
        self._ending = ending

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        if self._ending == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        return 0
'''


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Directory with a router and its configuration."""
    (tmp_path / "outside_router.py").write_text(ROUTER)
    conf = tmp_path / "conf" / "routing"
    conf.mkdir(parents=True)
    (conf / "first.yaml").write_text("_target_: outside_router.First\nending: none\n")
    return tmp_path


def results(directory: Path) -> list[tuple[str, str | None]]:
    found = sorted(directory.glob("*/result.json"), key=lambda path: int(path.parent.name))
    documents = [json.loads(path.read_text()) for path in found]
    return [(one["status"], one.get("error")) for one in documents]


def test_policies_from_outside_work_in_processes_and_a_killed_one_stops_nothing(
    outside: Path,
) -> None:
    done = run_process(
        "-m",
        *TINY,
        f"hydra.searchpath=[file://{outside / 'conf'}]",
        "hydra.sweep.dir=out",
        "hydra.launcher.n_jobs=2",
        "routing=first",
        "routing.ending=none,kill",
        "seed=0,1",
        cwd=outside,
        path=str(outside),
    )
    assert done.returncode == 1
    why = "its process was killed, most likely because memory ran out; try fewer workers"
    assert results(outside / "out") == [
        ("ok", None),
        ("ok", None),
        ("failed", why),
        ("failed", why),
    ]
    lines = [line for line in done.stderr.splitlines() if line.startswith("flocksim: error")]
    assert len(lines) == 2
    assert all(line.endswith(why) for line in lines)
    assert "Traceback" not in done.stderr


def test_ctrl_c_stops_the_processes_and_the_sweep_goes_on_later(tmp_path: Path) -> None:
    sweep = [
        *("-m", *TINY, "trace.rate_per_s=50", "hydra.launcher.n_jobs=2", "hydra.sweep.dir=out"),
        "trace.num_requests=40,30000,30001,41",
    ]
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        os.execve(sys.executable, [sys.executable, "-m", "experiments", *sweep], environment)
    shown = b""
    is_sent = False
    while True:
        try:
            if select.select([terminal], [], [], 60)[0]:
                shown += os.read(terminal, 65536)
        except OSError:
            break
        if not is_sent and (tmp_path / "out" / "0" / "result.json").exists():
            os.write(terminal, b"\x03")
            is_sent = True
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    text = shown.decode()
    assert os.waitstatus_to_exitcode(status) == 130
    assert "flocksim: interrupted; 1 of 4 jobs complete" in text.replace("\r\n", "")
    assert "Traceback" not in text
    assert "of 4 jobs done, 2 running" in text
    assert results(tmp_path / "out") == [("ok", None)]


def test_dot_products_use_one_thread_as_in_the_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "7")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setenv("MKL_NUM_THREADS", "7")
    for command in (cli.main, capacity_cli.main):
        with pytest.raises(SystemExit):
            command(["--help"])
        assert os.environ["OPENBLAS_NUM_THREADS"] == os.environ["OMP_NUM_THREADS"] == "1"
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", "7")


def test_interrupts_wait_and_processes_started_meanwhile_never_see_them() -> None:
    program = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"
    is_through = False
    with pytest.raises(KeyboardInterrupt), interrupts_held_back():
        signal.raise_signal(signal.SIGINT)
        shown = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True)
        is_through = True
    assert is_through
    assert shown.stdout.split() == [b"True"]


def test_interrupts_still_wait_after_python_started_its_tracker_of_resources() -> None:
    program = (
        "import signal\n"
        "from multiprocessing import resource_tracker\n"
        "from experiments.sweep.worker import interrupts_held_back\n"
        "with interrupts_held_back():\n"
        "    resource_tracker.ensure_running()\n"
        "    print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))\n"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, check=True, cwd=REPOSITORY
    )
    assert shown.stdout.split() == [b"True"]


def test_a_worker_does_not_outlive_a_killed_sweep(tmp_path: Path) -> None:
    program = (
        "import os, time\nfrom experiments.sweep.worker import watch_parent\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    watch_parent(os.getppid())\n"
        "    print('watching', flush=True)\n"
        "    time.sleep(60)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == "watching\n"
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    # Ends when the last process that could write has ended, long before the minute is over.
    assert select.select([parent.stdout], [], [], 30)[0]
    assert parent.stdout.read() == ""


def test_a_program_runs_the_same_sweep(tmp_path: Path, flocksim: Flocksim) -> None:
    overrides = [*TINY, "routing=random,jsq", "seed=0,-1"]
    found = run_sweep(overrides, tmp_path / "it's", workers=1)
    assert found == [tmp_path / "it's" / str(k) for k in range(4)]
    assert flocksim("-m", *overrides, "hydra.launcher.n_jobs=1").code == 2
    assert files(tmp_path / "it's") == files(tmp_path / "out")


def test_a_program_is_told_of_mistakes(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="routing=nope; allowed"):
        run_sweep([*TINY, "routing=nope,jsq"], tmp_path, workers=1)
    with pytest.raises(ConfigError, match="workers=0: must be an integer >= 1"):
        run_sweep(TINY, tmp_path, workers=0)
