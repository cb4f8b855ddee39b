"""Result files of `vllm bench serve` over the simulated points."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.figures import figure, plotted_data
from experiments.figures.errors import MeasuredError
from experiments.figures.measured import measured_runs
from tests.unit.experiments.figure_runs import study_runs

RESULT: dict[str, Any] = {
    "request_rate": 4.0,
    "request_throughput": 3.5,
    "output_throughput": 700.0,
    "mean_ttft_ms": 50.0,
    "median_ttft_ms": 40.0,
    "p99_ttft_ms": 90.0,
    "mean_tpot_ms": 12.0,
    "p99_tpot_ms": 20.0,
    "mean_e2el_ms": 1500.0,
}

DETAILS: dict[str, Any] = {
    # the second request failed, the third has one token
    "ttfts": [0.1, 0.0, 0.3],
    "itls": [[0.02, 0.04], [], []],
    "output_lens": [3, 0, 1],
}


def write(path: Path, *documents: Any) -> Path:
    path.write_text("\n".join(map(json.dumps, documents)))
    return path


def test_statistics_become_seconds_under_our_names(tmp_path: Path) -> None:
    (run,) = measured_runs(write(tmp_path / "a.json", RESULT))
    assert run.offered_rate_per_s == 4.0
    assert run.metrics == pytest.approx(
        {
            "request_rate_per_s": 3.5,
            "output_tokens_per_s": 700.0,
            "ttft_mean_s": 0.05,
            "ttft_p50_s": 0.04,
            "ttft_p99_s": 0.09,
            "tpot_mean_s": 0.012,
            "tpot_p99_s": 0.02,
            "e2e_mean_s": 1.5,
        }
    )
    assert run.samples == {}


def test_a_rate_without_limit_is_what_was_served(tmp_path: Path) -> None:
    (run,) = measured_runs(write(tmp_path / "a.json", {**RESULT, "request_rate": "inf"}))
    assert run.offered_rate_per_s == 3.5


def test_results_appended_to_one_file_are_all_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", RESULT, {**RESULT, "request_rate": 8.0})
    assert [run.offered_rate_per_s for run in measured_runs([path, path])] == [4.0, 8.0, 4.0, 8.0]


def test_details_give_samples_of_the_requests_that_succeeded(tmp_path: Path) -> None:
    (run,) = measured_runs(write(tmp_path / "a.json", {**RESULT, **DETAILS}))
    found = {name: sample.tolist() for name, sample in run.samples.items()}
    assert found["ttft"] == [0.1, 0.3]
    assert found["tpot"] == pytest.approx([0.03])
    assert found["itl"] == [0.02, 0.04]
    assert found["e2e"] == pytest.approx([0.16, 0.3])


BROKEN: dict[str, tuple[str, str]] = {
    "empty": ("", "is empty, but must be a result of"),
    "no JSON": ('{"request_rate": ', "is no JSON: "),
    "a list": ("[1, 2]", "must hold an object of .* found list"),
    "another file": ('{"schema_version": 1}', "has no request_throughput: not a result of"),
    "no latency": ('{"request_throughput": 1.0}', "has no latency such as mean_ttft_ms"),
    "a text": (
        json.dumps({**RESULT, "p99_ttft_ms": "fast"}),
        "p99_ttft_ms is 'fast', must be a number",
    ),
    "not a number": (json.dumps({**RESULT, "mean_ttft_ms": float("nan")}), "mean_ttft_ms is nan"),
    "unequal lists": (
        json.dumps({**RESULT, **DETAILS, "output_lens": [3, 0]}),
        "ttfts, itls and output_lens must be lists of equal length",
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_bad_file_is_one_clear_line(kind: str, tmp_path: Path) -> None:
    text, why = BROKEN[kind]
    path = tmp_path / "bench.json"
    path.write_text(text)
    with pytest.raises(MeasuredError, match=rf"bench\.json: {why}") as caught:
        measured_runs(path)
    assert "\n" not in str(caught.value)


def test_a_missing_or_binary_file_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(MeasuredError, match=r"none\.json: cannot be read: No such file"):
        measured_runs(tmp_path / "none.json")
    (tmp_path / "a.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(MeasuredError, match="is no text"):
        measured_runs(tmp_path / "a.json")


def test_measured_points_are_stars_and_samples_a_line(tmp_path: Path) -> None:
    runs = study_runs(tmp_path / "runs")
    path = write(tmp_path / "a.json", {**RESULT, **DETAILS})
    table = plotted_data("latency_vs_rate", runs, measured=path)
    points = table[table["kind"] == "measured"].set_index("metric")
    assert points["value"].to_dict() == pytest.approx(
        {
            "ttft_mean_s": 0.05,
            "tpot_mean_s": 0.012,
            "e2e_mean_s": 1.5,
            "ttft_p99_s": 0.09,
            "tpot_p99_s": 0.02,
        }
    )
    assert set(points["offered_rate_per_s"]) == {4.0}
    frontier = plotted_data("frontier", runs, measured=path)
    star = frontier[frontier["kind"] == "measured"].iloc[0]
    assert (star["output_tokens_per_s"], star["value"]) == pytest.approx((700.0, 0.09))
    curves = plotted_data("cdf", runs, measured=path)
    line = curves[(curves["series"] == "measured") & (curves["quantity"] == "itl")]
    assert line["value_s"].to_numpy() == pytest.approx(
        np.quantile([0.02, 0.04], line["quantile"]), abs=1e-12
    )
    picture = figure("frontier", runs, measured=path)
    stars = [line for line in picture.axes[0].lines if line.get_marker() == "*"]
    assert [line.get_color() for line in stars] == ["#000000"]
    assert "measured" in [text.get_text() for text in picture.legends[0].get_texts()]
