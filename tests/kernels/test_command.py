"""The command on a stand-in for CUDA, and what it says without a GPU, in a process of its own."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from hwmodels.microbench import cli, cuda_device, plans, run
from hwmodels.microbench.cases import (
    Case,
    CopyCase,
    DecodeAttentionCase,
    GemmCase,
    LaunchCase,
    SharedPrefixCase,
    StreamCase,
)
from hwmodels.microbench.errors import MicrobenchError, UnmeasurableError
from hwmodels.microbench.plans import PlannedCase
from hwmodels.microbench.problems import Workspace, problem_of
from hwmodels.microbench.rows import read_rows
from hwmodels.microbench.timing import Timer, num_repeats, summarised
from tests.kernels.tiny_cases import Heads

HEADS: Heads = {"num_heads": 2, "num_kv_heads": 1}
CASES: list[Case] = [
    StreamCase(op="read", data_set_bytes=50_000),
    GemmCase(m=1, n=32, k=128, impl="library"),
    DecodeAttentionCase(**HEADS, batch=1, context=20, splits=2),
    SharedPrefixCase(
        **HEADS,
        groups=1,
        members=1,
        prefix_tokens=16,
        suffix_tokens=3,
        member_order="contiguous",
        cache="warm",
    ),
    LaunchCase(kind="launch", num_kernels=2),
    CopyCase(direction="h2d", num_bytes=64, pinned=True),
]


class StandInEvent:
    """A time of the host."""

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing
        self.time_s = 0.0

    def record(self) -> None:
        self.time_s = time.perf_counter()

    def elapsed_time(self, end: "StandInEvent") -> float:
        return (end.time_s - self.time_s) * 1e3


class StandInGraph:
    """Replays nothing, after a capture that was closed."""

    def capture_begin(self) -> None:
        self.is_open = True

    def capture_end(self) -> None:
        self.is_open = False

    def replay(self) -> None:
        assert not self.is_open
        time.sleep(1e-6)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Everything asked of torch.cuda, answered by the CPU; the returned facts can be changed."""
    facts: dict[str, Any] = {"capability": (9, 0), "free": 140e9, "is_alive": True}
    properties = SimpleNamespace(
        multi_processor_count=2, L2_cache_size=4096, total_memory=150_000_000_000, major=9, minor=0
    )

    def synchronize() -> None:
        if not facts["is_alive"]:
            raise RuntimeError("an illegal memory access was encountered")

    answers: dict[str, Callable[..., object]] = {
        "is_available": lambda: True,
        "set_device": lambda index: None,
        "get_device_capability": lambda index: facts["capability"],
        "get_device_name": lambda index: "NVIDIA H200",
        "get_device_properties": lambda index: properties,
        "device_count": lambda: 1,
        "mem_get_info": lambda index: (facts["free"], 150e9),
        "synchronize": synchronize,
        "empty_cache": lambda: None,
        "Event": StandInEvent,
        "CUDAGraph": StandInGraph,
        "Stream": lambda: None,
        "stream": lambda stream: nullcontext(),
    }
    for name, answer in answers.items():
        monkeypatch.setattr(torch.cuda, name, answer)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(cuda_device, "os", SimpleNamespace(environ={}))
    monkeypatch.setattr(cuda_device.CudaDevice.__init__, "__defaults__", ("cpu",))
    monkeypatch.setattr("hwmodels.microbench.timing._WAIT_STEPS", 2)
    planned = [PlannedCase(case=case, stage="tiny", cost_s=0.01) for case in CASES]
    monkeypatch.setattr(run, "planned_cases", lambda plan, device, seed: planned)
    return facts


def test_a_run_leaves_rows_and_a_table(
    cuda: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rows.jsonl"
    assert cli.run_command(["--out", str(path)]) == 0
    found = read_rows(path)
    assert list(found.rows) == [case.id for case in CASES]
    assert found.header.plan == "hopper"
    assert found.header.device.name == "NVIDIA H200"
    assert found.header.versions["cuda"] == "13.0"
    product = found.rows[CASES[1].id].measurement
    assert product.max_error is not None
    assert product.tolerance is not None
    assert product.max_error < product.tolerance
    assert capsys.readouterr().out.endswith("6 cases measured\n")
    assert cli.run_command(["--out", str(path)]) == 0
    assert capsys.readouterr().out.endswith("0 cases measured; 6 were there\n")


@pytest.mark.parametrize(
    ("fact", "value", "line"),
    [
        ("capability", (7, 5), "compute capability 8.0 or later is needed, found NVIDIA H200"),
        ("free", 20e9, "only 20.0 of 150.0 GB of device memory are free"),
    ],
)
def test_a_gpu_that_does_not_do_gets_one_line(
    cuda: dict[str, Any],
    fact: str,
    value: object,
    line: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cuda[fact] = value
    assert cli.run_command(["--out", str(tmp_path / "rows.jsonl")]) == 2
    shown = capsys.readouterr().err
    assert line in shown
    assert shown.count("\n") == 1


def test_wrong_results_are_not_timed(cuda: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    device = cuda_device.CudaDevice(0)
    monkeypatch.setattr("hwmodels.microbench.problems.gemm.product", lambda a, b: a @ b + 9.0)
    with pytest.raises(UnmeasurableError, match=r"wrong result: error .*, allowed 0.02"):
        device.measure(CASES[1])


def test_an_interrupt_closes_the_capture(
    cuda: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    timer = Timer(Workspace("cpu", num_sms=2, l2_bytes=4096, seed=0))
    graphs = [StandInGraph()]
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: graphs[0])
    problem = problem_of(Workspace("cpu", 2, 4096, 0), CASES[1])
    calls = []

    def interrupted() -> None:
        calls.append(1)
        if len(calls) == 2:
            assert graphs[0].is_open
            raise KeyboardInterrupt

    monkeypatch.setattr(problem, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        timer.times_s(problem)
    assert not graphs[0].is_open


@pytest.mark.parametrize("is_alive", [True, False])
def test_an_error_of_a_kernel_fails_its_case_and_a_lost_gpu_the_run(
    cuda: dict[str, Any], monkeypatch: pytest.MonkeyPatch, is_alive: bool
) -> None:
    device = cuda_device.CudaDevice(0)

    def broken(*arguments: object) -> None:
        cuda["is_alive"] = is_alive
        raise ValueError("no such instruction\nmore")

    monkeypatch.setattr(cuda_device, "problem_of", broken)
    if is_alive:
        with pytest.raises(UnmeasurableError, match=r"^ValueError: no such instruction$"):
            device.measure(CASES[1])
    else:
        with pytest.raises(MicrobenchError, match="does not answer any more; ValueError: no such"):
            device.measure(CASES[1])


def test_a_case_that_does_not_fit_is_tried_again_with_more_room(
    cuda: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    device = cuda_device.CudaDevice(0)
    tries = []

    def full(*arguments: object) -> None:
        tries.append(1)
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(cuda_device, "problem_of", full)
    with pytest.raises(UnmeasurableError, match="needs 17024 bytes of device memory"):
        device.measure(CASES[1])
    assert len(tries) == 2


def test_repeats_follow_the_time_of_a_run() -> None:
    assert [num_repeats(run_s) for run_s in (0.0, 1e-5, 3e-3, 1.0)] == [40, 40, 20, 7]


def test_percentiles() -> None:
    found = summarised([float(number) for number in range(1, 12)], 0.1, 0.2)
    assert (found.p20_s, found.p50_s, found.p80_s, found.repeats) == (3.0, 6.0, 9.0, 11)


def test_runs_too_short_to_time_leave_no_row() -> None:
    with pytest.raises(UnmeasurableError, match="too short"):
        summarised([0.0] * 7, None, None)


def test_the_driver_names_its_version(tmp_path: Path) -> None:
    file = tmp_path / "version"
    assert cuda_device.driver_version(file) == "unknown"
    file.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27\n")
    assert cuda_device.driver_version(file) == "580.65.06"


@pytest.mark.parametrize(
    ("interpreter", "line"),
    [("0", "microbench: error: "), ("1", "microbench: error: TRITON_INTERPRET is set")],
)
def test_a_machine_without_a_gpu_gets_one_line(tmp_path: Path, interpreter: str, line: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hwmodels.microbench", "--out", str(tmp_path / "rows.jsonl")],
        cwd=Path(plans.__file__).parents[2],
        env={**os.environ, "TRITON_INTERPRET": interpreter, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(line)
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_the_package_needs_no_other_packages() -> None:
    program = (
        "import sys; import hwmodels.microbench.cli, hwmodels.microbench.cuda_device; "
        "print({'simpy', 'scipy', 'pandas', 'hydra', 'omegaconf', 'rich'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(plans.__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "set()\n"
