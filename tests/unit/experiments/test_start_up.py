"""What happens before a job runs: packages, engine defaults, help, errors, progress."""

import io
from pathlib import Path

import pytest

from experiments.composing import compose_config
from experiments.deployment import default_sizes, engine_sizes
from experiments.help_text import help_text
from experiments.hydra_errors import explain
from experiments.package_guard import PACKAGES, foreign_package, package_parent
from experiments.progress import progress_bar
from experiments.quantities import amount, count, digits, duration, percent, rate
from experiments.schema.job import read_job
from hwmodels.device import load_profile

HOME = Path("/home/flocksim")


def test_our_own_packages_pass() -> None:
    assert foreign_package() is None
    assert package_parent("no_such_package") is None


@pytest.mark.parametrize("name", sorted(set(PACKAGES) - {"experiments"}))
def test_a_package_from_elsewhere_is_named(name: str) -> None:
    line = foreign_package(lambda package: Path("/site") if package == name else HOME)
    assert line is not None
    assert f"package '{name}' is not flocksim's: found in /site, expected in {HOME}" in line


def test_a_missing_package_is_named() -> None:
    line = foreign_package(lambda package: None if package == "sim" else HOME)
    assert line is not None
    assert "package 'sim' is missing" in line


@pytest.mark.parametrize(
    ("profile", "seats", "budget"),
    [("a100_sxm_80gb", 256, 2048), ("h100_sxm", 1024, 8192), ("h200_sxm", 1024, 8192)],
)
def test_engine_defaults_follow_the_gpu(profile: str, seats: int, budget: int) -> None:
    sizes = default_sizes(load_profile(profile))
    assert (sizes.max_num_seqs, sizes.max_num_batched_tokens) == (seats, budget)


@pytest.mark.parametrize(
    ("overrides", "seats", "budget"),
    [
        (["engine.max_num_batched_tokens=100"], 100, 100),
        (["engine.max_num_batched_tokens=4096"], 256, 4096),
        (["engine.max_num_seqs=7"], 7, 2048),
        (["engine.max_num_seqs=7", "engine.max_num_batched_tokens=9"], 7, 9),
    ],
)
def test_sizes_given_replace_defaults(overrides: list[str], seats: int, budget: int) -> None:
    job = read_job(compose_config(overrides)[0])
    sizes = engine_sizes(job, load_profile("a100_sxm_80gb"))
    assert (sizes.max_num_seqs, sizes.max_num_batched_tokens) == (seats, budget)


def test_help_fits_a_hundred_columns() -> None:
    assert max(map(len, help_text().splitlines())) <= 100


def test_errors_that_are_not_hydras_are_not_explained_away() -> None:
    assert explain(ZeroDivisionError("a defect")) is None


def test_progress_is_silent_where_nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    with progress_bar(100, "x") as report:
        assert report is None
    assert stream.getvalue() == ""


def test_progress_on_a_terminal_shows_time_done_and_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr("sys.stderr", stream)
    with progress_bar(2048, "round_robin") as report:
        assert report is not None
        report(12.0, 1024)
    shown = stream.getvalue()
    for text in ("round_robin", "1,024/2,048 done", "at 12 s", "/s"):
        assert text in shown


def test_numbers_for_people() -> None:
    times = [duration(t) for t in (None, 0, 2.5e-6, 0.0123, 0.5, 3.14159, 1234.5)]
    assert times == ["-", "0 s", "2.50 us", "12.3 ms", "500 ms", "3.14 s", "1,234 s"]
    assert [amount(b) for b in (None, 12, 1.5e9, 2e15)] == ["-", "12 B", "1.50 GB", "2.00 PB"]
    assert [percent(r) for r in (None, 0.123, 1)] == ["-", "12.3 %", "100.0 %"]
    assert [rate(r, "tokens") for r in (None, 1234.5)] == ["-", "1,234 tokens/s"]
    assert [count(c) for c in (None, 12031)] == ["-", "12,031"]
    assert [digits(d) for d in (None, 0, 0.001, 0.5, 12.34, 999)] == [
        "-",
        "0.00",
        "0.001",
        "0.50",
        "12.3",
        "999",
    ]
