"""`make demo`."""

import pytest

from experiments.demo import ROUTERS, main
from tests.conftest import TINY


def test_the_demo_compares_three_routers_in_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(TINY) == 0
    lines = capsys.readouterr().out.splitlines()
    (header,) = [line for line in lines if line.startswith("routing")]
    assert header.split()[1:] == list(ROUTERS)
    rows = {line.split("  ")[0]: line for line in lines}
    for name in ("regime", "finished", "TTFT p99", "goodput", "prefix hits", "load imbalance"):
        assert name in rows
    assert rows["finished"].count("40 of 40") == 3
    assert "120 requests simulated" in lines[-1]


def test_the_demo_explains_a_bad_override(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["engine.nope=1"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("flocksim: error: unknown key of engine: nope")
