"""Studies: errors and verdicts, overrides of their jobs, the fit, files, restated numbers."""

import csv
import io
import math
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import pandas as pd
import pytest
from omegaconf import OmegaConf

from experiments.stats.intervals import Interval, mean_interval
from experiments.studies.ada_cascade.anchor import ANCHORS
from experiments.studies.ada_cascade.variations import variations, write_profile
from experiments.studies.arguments import read_arguments
from experiments.studies.base import SIZES
from experiments.studies.files import CSV_HEADER, csv_text, markdown_text
from experiments.studies.findings import Findings, Row, Section, Verdict, mean_absolute_error
from experiments.studies.registry import STUDIES, study_named
from experiments.studies.runs import Case, merged
from experiments.studies.vllm_a100.hit_share import fit_hit_share, root_mean_square
from experiments.studies.vllm_a100.points import METRICS, MOST_BLOCKS, POINTS, Run, share_of
from experiments.studies.wording import cells, claim_text
from hwmodels.device import load_profile
from sim.errors import ConfigError
from tests.data_path import real_data_file


def row(simulated: float, claim: tuple[float, float] | None, limit: float | None) -> Row:
    return Row(
        setting="8B",
        quantity="ITL mean",
        unit="ms",
        claim=claim,
        simulated=mean_interval([simulated]),
        limit_ratio=limit,
    )


def test_the_error_counts_from_the_middle_of_the_claim() -> None:
    assert row(11.0, (8.0, 12.0), None).error_ratio == pytest.approx(0.1)
    assert row(11.0, None, None).error_ratio is None


@pytest.mark.parametrize(
    ("simulated", "limit", "verdict"),
    [
        (10.9, 0.1, "holds"),
        (9.1, 0.1, "holds"),
        (11.1, 0.1, "fails"),
        (8.9, 0.1, "fails"),
        (99.0, None, "reported"),
        (math.nan, 0.1, "fails"),
    ],
)
def test_a_row_holds_within_its_limit_on_both_sides(
    simulated: float, limit: float | None, verdict: str
) -> None:
    assert row(simulated, (10.0, 10.0), limit).verdict == verdict


def test_a_promise_fails_above_its_limit_and_without_a_number() -> None:
    words = [
        Verdict(text="", value_ratio=value, limit_ratio=limit).word
        for value, limit in ((0.05, 0.05), (0.0501, 0.05), (math.nan, 0.05), (9.0, None))
    ]
    assert words == ["holds", "fails", "fails", "reported"]


def test_the_mean_absolute_error_leaves_out_rows_without_a_claim() -> None:
    rows = [row(11.0, (10.0, 10.0), None), row(7.0, (10.0, 10.0), None), row(1.0, None, None)]
    assert mean_absolute_error(rows) == pytest.approx(0.2)


def test_overrides_of_the_user_replace_those_of_a_case_and_the_last_replace_both() -> None:
    case = Case("x", ("model=a", "hardware=b", "engine.async_scheduling=true"))
    given = ("hardware=from_file", "hardware.path=p", "seed=3")
    assert merged(case, given) == ["model=a", "engine.async_scheduling=true", *given]
    last = Case("x", case.overrides, ("hardware=from_file", "hardware.path=q"))
    assert merged(last, given) == [
        *("model=a", "engine.async_scheduling=true", "seed=3"),
        *("hardware=from_file", "hardware.path=q"),
    ]


@pytest.mark.parametrize("best", [0, 1, 7, 20, 31, 33, MOST_BLOCKS])
def test_the_fit_finds_the_least_squares_of_a_valley(best: int) -> None:
    asked: list[int] = []

    def measure(numbers: Sequence[int]) -> dict[int, tuple[float, float]]:
        asked.extend(numbers)
        return {k: (0.01 * (k - best), 0.002 * (best - k)) for k in numbers}

    fit = fit_hit_share(measure)
    assert fit.blocks == best
    assert len(asked) == len(set(asked)) == len(fit.errors)
    assert list(fit.errors) == sorted(asked)
    assert set(fit.beside) >= set(range(max(best - 3, 0), min(best + 3, MOST_BLOCKS) + 1))


def test_the_fit_weighs_a_large_error_more_than_two_small_ones() -> None:
    errors = {k: (0.09, 0.0) if k == 24 else (0.05, 0.05) for k in range(MOST_BLOCKS + 1)}
    fit = fit_hit_share(lambda numbers: {k: errors[k] for k in numbers})
    assert fit.blocks == 0
    assert 24 not in fit.nearly_as_good
    assert root_mean_square(errors[24]) > root_mean_square(errors[0])


def test_a_prompt_is_always_as_long_whatever_is_cached() -> None:
    assert share_of(MOST_BLOCKS) < 1 < share_of(MOST_BLOCKS + 1)
    for blocks in (0, 31, MOST_BLOCKS):
        run = Run(blocks=blocks, arrivals="constant", seconds=100.0, num_seeds=3)
        values = dict(item.split("=", 1) for item in run.case(POINTS[0]).overrides)
        assert int(values["trace.prefix_tokens"]) + int(values["trace.suffix"]) == 547
        assert int(values["trace.prefix_tokens"]) // 16 == blocks
        assert values["trace.num_requests"] == "250"


def test_no_two_jobs_of_a_point_share_a_directory() -> None:
    runs = [
        Run(blocks=b, arrivals=a, seconds=1.0, num_seeds=1, has_frontend=f)
        for b in (0, 1)
        for a in ("constant", "poisson")
        for f in (False, True)
    ]
    folders = [run.case(point).folder for run in runs for point in POINTS]
    assert len(set(folders)) == len(folders)


def some_findings() -> Findings:
    shown = Section(title="shown", rows=(row(10.5, (10.0, 10.0), 0.1),))
    hidden = Section(title="hidden", rows=(row(1.0, None, None),), is_printed=False)
    verdict = Verdict(text="mean error", value_ratio=0.05, limit_ratio=0.1)
    return Findings(verdicts=(verdict,), sections=(shown, hidden), notes=("a note",))


def test_the_csv_has_every_row_and_promise() -> None:
    rows = list(
        csv.reader(io.StringIO(csv_text(study_named(STUDIES[0]), "quick", some_findings())))
    )
    assert tuple(rows[0]) == CSV_HEADER
    assert {len(line) for line in rows} == {len(CSV_HEADER)}
    table = [dict(zip(CSV_HEADER, line, strict=True)) for line in rows[1:]]
    assert [line["section"] for line in table] == ["shown", "hidden", "verdicts"]
    assert [line["verdict"] for line in table] == ["holds", "reported", "holds"]
    assert (table[0]["claim_low"], table[0]["error_ratio"]) == ("10", "0.05")
    assert (table[1]["claim_low"], table[2]["simulated"]) == ("", "0.05")


def test_the_markdown_has_what_is_printed() -> None:
    text = markdown_text(study_named(STUDIES[0]), "quick", some_findings())
    assert "## shown" in text
    assert "hidden" not in text
    assert "| 8B | ITL mean (ms) | 10.00 | 10.50 | - | +5.0 % |  | holds (10 %) |" in text
    assert "| mean error | 10 % | 5.0 % | holds |" in text
    assert "* a note" in text


def test_a_range_is_shown_as_one_and_an_interval_by_its_half() -> None:
    assert claim_text((2.0, 2.0)) == "2.00"
    assert claim_text((2668.0, 2700.0)) == "2,668-2,700"
    assert claim_text((-5.0, 5.0)) == "-5.00 to 5.00"
    shown = Row(
        setting="s", quantity="q", unit="ms", claim=None, simulated=Interval(5.0, 4.0, 6.0, 3)
    )
    assert cells(shown)[3:6] == ("5.00", "1.00", "-")


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_says_what_it_asks_and_runs_and_has_its_yaml(name: str) -> None:
    study = study_named(name)
    assert study.name == name
    assert study.question.endswith("?")
    assert tuple(study.sizes) == SIZES
    text = (files("experiments.conf") / "experiment" / f"{name}.yaml").read_text()
    assert OmegaConf.create(text) == {"study": name, "size": "quick"}


def test_every_yaml_of_the_group_is_a_study() -> None:
    folder = files("experiments.conf") / "experiment"
    assert {entry.name.removesuffix(".yaml") for entry in folder.iterdir()} == set(STUDIES)


def test_a_varied_profile_is_the_same_gpu_with_one_constant_changed(tmp_path: Path) -> None:
    device = load_profile("rtx6000_ada")
    base = device.kernels.to_json()["kernels"]
    assert isinstance(base, dict)
    names = []
    for one in variations(device.kernels):
        names.append(one.name)
        copy = load_profile(write_profile(device, one, tmp_path))
        assert copy == device
        changed = copy.kernels.to_json()["kernels"]
        assert isinstance(changed, dict)
        different = [key for key in base if base[key] != changed[key]]
        assert different == ["l2" if "midpoint" in one.name else "decode_attention"]
    assert len(names) == len(set(names)) == 5


def test_a_command_line_is_read() -> None:
    asked = read_arguments(["validate_vllm_a100", "size=full", "seed=3", "--workers", "2"])
    assert (asked.study, asked.size, asked.workers) == ("validate_vllm_a100", "full", 2)
    assert asked.overrides == ("seed=3",)
    assert asked.directory == Path("studies/validate_vllm_a100")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["a", "size=big"], "size=big: must be one of quick, full"),
        (["a", "size=full", "size=full"], "the size is given twice"),
        (["seed=1"], "the name of a study comes first"),
        (["--list", "a"], "--list stands alone"),
        (["--dir", "x"], "no study named"),
    ],
)
def test_a_command_line_that_says_nothing_clear_is_refused(arguments: list[str], line: str) -> None:
    with pytest.raises(ConfigError, match=line):
        read_arguments(arguments)


@pytest.mark.real_data
def test_the_restated_a100_numbers_are_those_of_the_file() -> None:
    table = pd.read_csv(real_data_file("e2e/vllm_a100_points.csv"))
    assert len(table) == len(POINTS)
    for (_, line), point in zip(table.iterrows(), POINTS, strict=True):
        assert (line["rate_per_s"], line["tp"]) == (point.rate_per_s, point.tensor_parallel)
        assert ("8B" in line["model"]) == point.is_fitted
        for metric in METRICS:
            measured = line[f"{metric.removesuffix('_s')}_ms"]
            assert point.measured_ms[metric] == pytest.approx(measured, rel=1e-6)
        decoded_ms = line["e2e_mean_ms"] - line["ttft_mean_ms"]
        assert point.output_tokens == pytest.approx(decoded_ms / line["itl_mean_ms"] + 1, abs=1.5)


@pytest.mark.real_data
def test_the_restated_ada_numbers_are_those_of_the_file() -> None:
    table = pd.read_csv(real_data_file("e2e/feather_ada_anchor.csv"), comment="#")
    rows = {(line["cascade_default"], line["max_batch"]): line for _, line in table.iterrows()}
    assert len(rows) == len(ANCHORS)
    for anchor in ANCHORS:
        line = rows["on" if anchor.has_cascade else "off", anchor.num_users]
        assert anchor.tpot_ms == (line["tpot_ms_low"], line["tpot_ms_high"])
        assert anchor.output_tokens_per_s == (
            line["output_tokens_per_s_low"],
            line["output_tokens_per_s_high"],
        )
