"""What a user's own class raises is one line that says where, never a defect of ours."""

from pathlib import Path

import pytest

from tests.conftest import TINY, Flocksim

SOURCE = """
import sys
from sim.interfaces import AdmissionPolicy, BatchPolicy, Router


class Failing(Router):
    def __init__(self, how):
        self.how = how
        if how == "constructor":
            raise ValueError("two\\nlines")  # constructor

    def route(self, request, cluster, now_s):
        if self.how == "value":
            raise ValueError("a\\n  b")  # value
        if self.how == "pipe":
            raise BrokenPipeError(32, "Broken pipe")  # pipe
        if self.how == "file":
            open("/no/such/file")  # file
        if self.how == "exit":
            sys.exit(0)  # exit
        return self.help()

    def help(self):
        return 1 / 0  # helper


class Narrow(Router):
    def route(self, request):  # narrow
        return 0


class Exhausted(BatchPolicy):
    def candidates(self, instance, now_s):
        yield from instance.waiting.values()
        raise RuntimeError("no more")  # candidates


class Silent(AdmissionPolicy):
    def admit(self, request, now_s):
        raise RuntimeError  # admit


class Broken:
    def load(self, seed):
        raise OSError(5, "cannot read")  # load
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"own_policies_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def line_of(mark: str) -> int:
    lines = SOURCE.splitlines()
    (number,) = [k for k, line in enumerate(lines, 1) if line.endswith(f"# {mark}")]
    return number


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("constructor", "ValueError: two lines"),
        ("value", "ValueError: a b"),
        ("pipe", "BrokenPipeError: [Errno 32] Broken pipe"),
        ("file", "FileNotFoundError: [Errno 2] No such file"),
        ("exit", "SystemExit: 0"),
        ("helper", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_router_that_raises_is_blamed(
    how: str, told: str, module: str, flocksim: Flocksim
) -> None:
    router = f"{{_target_:{module}.Failing,how:{how},view_delay_s:0.,publish_period_s:0.}}"
    run = flocksim(*TINY, "~routing", f"+routing={router}")
    assert run.code == 2
    assert run.error_line.startswith(f"flocksim: error: policy Failing raised {told}")
    assert run.error_line.endswith(f"{module}.py:{line_of(how)})")
    assert not (run.directory / "result.json").exists()


@pytest.mark.parametrize(
    ("group", "name", "told", "mark"),
    [
        ("routing", "Narrow", "TypeError: Narrow.route() takes 2 positional", "narrow"),
        ("batching", "Exhausted", "RuntimeError: no more", "candidates"),
        ("admission", "Silent", "RuntimeError (", "admit"),
    ],
)
def test_every_kind_of_policy_is_blamed(
    group: str, name: str, told: str, mark: str, module: str, flocksim: Flocksim
) -> None:
    run = flocksim(*TINY, f"{group}._target_={module}.{name}")
    assert run.code == 2
    assert f"policy {name} raised {told}" in run.error_line
    assert run.error_line.endswith(f"{module}.py:{line_of(mark)})")


def test_a_trace_of_ones_own_is_blamed(module: str, flocksim: Flocksim) -> None:
    trace = f"{{_target_:{module}.Broken,limit:null,window_s:null,rate_scale:1.}}"
    run = flocksim("~trace", f"+trace={trace}")
    assert run.code == 2
    assert "Broken raised OSError: [Errno 5] cannot read" in run.error_line


def test_a_sweep_goes_on_after_it(module: str, flocksim: Flocksim) -> None:
    run = flocksim("-m", *TINY, f"admission._target_={module}.Silent,policies.admission.Always")
    assert run.code == 2
    assert "#0 " in run.err
    assert "policy Silent raised RuntimeError" in run.err


def test_the_traceback_comes_on_request(
    module: str, flocksim: Flocksim, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOCKSIM_TRACEBACK", "1")
    run = flocksim(*TINY, f"admission._target_={module}.Silent")
    assert run.code == 2
    assert "Traceback (most recent call last)" in run.err
    assert run.err.splitlines()[-1].startswith("flocksim: error: policy Silent raised")
    assert "FLOCKSIM_TRACEBACK=1" in flocksim("--help").out


def test_a_defect_of_ours_beside_a_users_policy_stays_a_defect(
    module: str, flocksim: Flocksim, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sim.cluster.Cluster._turn_away", None)
    with pytest.raises(TypeError, match="NoneType"):
        flocksim(*TINY, "engine.num_gpu_blocks=2", f"admission._target_={module}.Silent")
