"""What every figure draws of a small study, to the last digit shown; `--regen` rewrites it."""

from pathlib import Path

import pandas as pd
import pytest

from experiments.figures import NAMES, plotted_data
from experiments.results.load import Run
from tests.unit.experiments.figure_runs import study_runs

FOLDER = Path(__file__).parent

OPTIONS: dict[str, dict[str, object]] = {"timeline": {"num_bins": 6}}
"""So that the files stay small."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    return study_runs(tmp_path_factory.mktemp("runs"))


@pytest.mark.parametrize("name", NAMES)
def test_what_a_figure_draws_does_not_change(name: str, runs: list[Run], is_regen: bool) -> None:
    table = plotted_data(name, runs, **OPTIONS.get(name, {}))
    if name == "cdf":
        table = table[table["quantile"].isin([0.0, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0])]
    text = table.to_csv(index=False, float_format="%.9g", lineterminator="\n")
    golden = FOLDER / f"{name}.csv"
    if is_regen:
        golden.write_text(text)
    assert text == golden.read_text(), "rerun with --regen if the change is meant"


def test_the_golden_study_has_intervals_and_a_shaky_point() -> None:
    table = pd.read_csv(FOLDER / "latency_vs_rate.csv")
    assert table["low"].notna().any()
    assert (table["regime"] == "overloaded").any()
