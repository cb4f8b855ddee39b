"""The command as a process: help, start-up guard, policies from outside the packages."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.composing import GROUPS
from experiments.help_text import EXAMPLES, options_of
from tests.conftest import TINY, Flocksim

REPOSITORY = Path(__file__).resolve().parents[2]

BATCHING_SOURCE = '''
"""Newest request first."""

from collections.abc import Iterable

from sim.interfaces import BatchPolicy, InstanceView
from sim.request import Request


class NewestFirst(BatchPolicy):
    def candidates(self, instance: InstanceView, now_s: float) -> Iterable[Request]:
        return reversed(list(instance.waiting.values()))
'''

ROUTER_SOURCE = '''
"""Everything to one instance."""

from sim.interfaces import ClusterView, Router
from sim.request import Request


class OneInstance(Router):
    def __init__(self, instance: int) -> None:
        self._instance = instance

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        return self._instance
'''


def run_process(*arguments: str, cwd: Path, path: str = "") -> subprocess.CompletedProcess[str]:
    python_path = os.pathsep.join(filter(None, [path, str(REPOSITORY)]))
    environment = {**os.environ, "PYTHONPATH": python_path}
    return subprocess.run(
        [sys.executable, "-m", "experiments", *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_policies_from_outside_the_packages_need_a_class_and_a_yaml(tmp_path: Path) -> None:
    (tmp_path / "my_router.py").write_text(ROUTER_SOURCE)
    (tmp_path / "my_batching.py").write_text(BATCHING_SOURCE)
    conf = tmp_path / "conf"
    (conf / "routing").mkdir(parents=True)
    (conf / "batching").mkdir()
    (conf / "routing" / "one.yaml").write_text("_target_: my_router.OneInstance\ninstance: 0\n")
    (conf / "batching" / "newest.yaml").write_text("_target_: my_batching.NewestFirst\n")
    done = run_process(
        *TINY,
        f"hydra.searchpath=[file://{conf}]",
        "hydra.run.dir=out",
        "cluster.num_instances=2",
        "routing=one",
        "routing.instance=1",
        "routing.view_delay_s=0.5",
        "batching=newest",
        "output.steps=true",
        cwd=tmp_path,
        path=str(tmp_path),
    )
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    choices = result["config"]["choices"]
    assert (choices["routing"], choices["batching"]) == ("one", "newest")
    assert result["metrics"]["load_imbalance_ratio"] == pytest.approx(2)
    assert result["metrics"]["num_finished"] == 40
    assert set(result["provenance"]["plugins_sha256"]) == {"my_router", "my_batching"}


def test_a_foreign_traces_package_is_refused(tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "__init__.py").write_text("")
    done = run_process("--help", cwd=tmp_path, path=str(tmp_path))
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert "package 'traces' is not flocksim's" in line
    assert str(tmp_path) in line


def test_help_names_every_option_and_ten_examples(flocksim: Flocksim) -> None:
    run = flocksim("--help")
    assert run.code == 0
    for group in GROUPS:
        for option in options_of(group):
            assert option in run.out
    assert len(EXAMPLES) == 10
    for line in EXAMPLES:
        assert line in run.out


def test_help_needs_neither_hydra_nor_numpy() -> None:
    program = (
        "import sys\nfrom experiments.cli import run_command\nrun_command(['--help'])\n"
        "heavy = {'hydra', 'numpy', 'pandas', 'pyarrow', 'rich'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_run_imports_neither_pandas_nor_matplotlib(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom experiments.cli import run_command\n"
        f"code = run_command({[*TINY, 'hydra.run.dir=' + str(tmp_path)]!r})\n"
        "heavy = {'pandas', 'matplotlib', 'scipy'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_version_is_ours(flocksim: Flocksim) -> None:
    assert flocksim("--version").out.startswith("flocksim ")
