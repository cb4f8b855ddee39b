"""The command `flocksim-compare`: what it prints, writes and refuses."""

import csv
import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from html.parser import HTMLParser
from pathlib import Path

import pytest

from experiments.compare.command import run_command
from experiments.composing import compose_config
from experiments.job import run_job
from tests.conftest import TINY, Outcome
from tests.job_directories import request_table, write_job

Compare = Callable[..., Outcome]

FLAG = {"flag": "odd", "text": "the moon was full", "num_requests": 3}


@pytest.fixture
def compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Compare:
    def run(*arguments: str | Path, directory: Path | None = None) -> Outcome:
        capsys.readouterr()
        place = [] if directory is None else [directory]
        code = run_command([str(item) for item in (*place, *arguments)])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err, tmp_path)

    return run


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """Two routers at two rates with three seeds; jsq is 10 ms faster at the low rate only."""
    number = 0
    for router in ("round_robin", "jsq"):
        for scale in (1, 4):
            for seed in range(3):
                gain_s = (0.01 + 0.0001 * seed) * (router == "jsq") * (scale == 1)
                wobble_s = 0.05 * (-1) ** seed * (router == "jsq") * (scale == 4)
                write_job(
                    tmp_path / "sweep" / str(number),
                    f"routing={router}",
                    f"trace.rate_scale={scale}",
                    seed=seed,
                    regime="overloaded" if scale == 4 and seed == 0 else "stable",
                    metrics={
                        "ttft_mean_s": scale * (0.1 + 0.01 * seed) - gain_s + wobble_s,
                        "ttft_p99_s": scale * 0.5,
                        "goodput_per_s": 10.0 + seed,
                        "slo_attainment_ratio": 0.9,
                        "hbm_bytes": 1e12,
                    },
                    flags=[FLAG],
                    requests=request_table(arrival_s=[0.0, 0.5, 1.0 / scale]),
                )
                number += 1
    return tmp_path / "sweep"


def lines_with(text: str, word: str) -> list[str]:
    return [line for line in text.splitlines() if word in line]


def note(out: str, start: str) -> str:
    (line,) = [line for line in out.splitlines() if line.startswith(f"* {start}")]
    return line


def test_one_table_per_setting_with_one_row_per_policy(compare: Compare, sweep: Path) -> None:
    run = compare(sweep)
    assert run.code == 0
    assert run.err == ""
    assert lines_with(run.out, "trace.rate_scale=1;") == [
        "trace.rate_scale=1; 3.00 requests/s offered"
    ]
    assert len(lines_with(run.out, "round_robin  ")) == 2
    assert "TTFT mean" in run.out
    assert "goodput\n" not in run.out  # a heading, not a line of its own
    assert "HBM traffic" not in run.out


def test_a_row_shows_mean_interval_and_difference_with_verdict(
    compare: Compare, sweep: Path
) -> None:
    """TTFT 0.10, 0.11, 0.12 s: 110 ms, t(2) x 10 ms / sqrt(3) = 24.8 ms; jsq 10.1 ms less."""
    out = compare(sweep).out
    low = out[: out.index("trace.rate_scale=4")]
    assert "110 ms" in low
    assert "± 24.8 ms" in low
    assert "99.9 ms" in low
    assert "-9.2 % better" in low
    assert "equal" in low


def test_a_difference_in_the_noise_is_marked_so(compare: Compare, sweep: Path) -> None:
    out = compare(sweep).out
    high = out[out.index("trace.rate_scale=4") :]
    assert re.search(r"≈ \+\d", high)
    assert "better" not in high[: high.index("* ")]


def test_a_regime_that_misleads_is_marked_and_explained(compare: Compare, sweep: Path) -> None:
    out = compare(sweep).out
    assert "▲ overloaded 1/3" in out
    assert "stable" in out
    assert "depend on where the trace stops" in note(out, "▲")


def test_what_was_averaged_and_how_stands_below(compare: Compare, sweep: Path) -> None:
    out = compare(sweep).out
    assert "seeds 0, 1, 2" in note(out, "means over runs")
    assert "95 % interval of the mean (Student's t)" in note(out, "means over runs")
    assert "to round_robin" in note(out, "differences are")
    assert "the same requests" in note(out, "paired")
    assert "linear method" in note(out, "latencies are")
    assert "TTFT <= 2.00 s and TPOT <= 100 ms" in note(out, "latencies are")
    assert "warm-up: none" in note(out, "latencies are")
    assert note(out, "flag odd") == "* flag odd in all runs: the moon was full"


def test_the_baseline_stands_first(compare: Compare, sweep: Path) -> None:
    out = compare(sweep, "--baseline", "jsq").out
    assert out.index("jsq") < out.index("(baseline)") < out.index("round_robin")
    assert "worse" in out


def test_metrics_are_chosen_by_name_family_or_all(compare: Compare, sweep: Path) -> None:
    chosen = compare(sweep, "--metric", "hbm_bytes,goodput").out
    assert "1.00 TB" in chosen
    assert "TTFT" not in chosen[: chosen.index("* ")]
    family = compare(sweep, "--metric", "ttft").out
    assert "TTFT mean  " in family
    assert "goodput" not in family[: family.index("* ")]
    assert "HBM traffic" in compare(sweep, "--metric", "all").out


def test_a_table_too_wide_is_split_and_never_cut(compare: Compare, sweep: Path) -> None:
    names = ["ttft_mean", "ttft_p99", "goodput", "slo_attainment", "hbm_bytes"]
    for path in sweep.glob("*/result.json"):
        document = json.loads(path.read_text())
        extra = {f"itl_p{number}_s": 0.1 * number for number in range(12)}
        document["metrics"] |= extra
        path.write_text(json.dumps(document))
    out = compare(sweep, "--metric", ",".join([*names, "itl"])).out
    tables = out[: out.index("* ")]
    assert max(map(len, tables.splitlines())) <= 110
    assert "…" not in tables
    assert tables.count("policy ") > 2
    assert tables.count("ITL p11") == 2


def test_one_seed_has_no_intervals_and_says_so(compare: Compare, tmp_path: Path) -> None:
    for router in ("jsq", "random"):
        write_job(tmp_path / router, f"routing={router}", metrics={"ttft_mean_s": len(router)})
    out = compare(tmp_path).out
    assert "±" not in out[: out.index("* ")]
    assert "+100.0 %" in out
    assert "better" not in out
    assert "no intervals, no verdicts" in note(out, "one run per policy")
    assert note(out, "one run per policy").endswith("seed=0,1,2,3,4 or replications=5")
    assert "the very same figures" not in out


def test_seeds_that_change_nothing_are_not_advised(compare: Compare, tmp_path: Path) -> None:
    for seed in (0, 1, 2):
        write_job(tmp_path / str(seed), seed=seed)
    out = compare(tmp_path).out
    assert "the seed changes nothing there" in note(out, "all runs gave the very same figures")
    advice = note(out, "one observation per policy")
    assert advice.endswith("repeat with replications=5")
    assert "seed=" not in out[out.index(advice) :]


def test_a_lone_policy_has_its_settings_as_rows(compare: Compare, tmp_path: Path) -> None:
    for scale in (1, 2):
        write_job(tmp_path / str(scale), f"trace.rate_scale={scale}")
    out = compare(tmp_path).out
    assert out.splitlines()[0].startswith("setting")
    assert out.splitlines()[1].startswith("trace.rate_scale=1 ")
    assert "baseline" not in out


def test_other_seeds_are_said_not_to_be_paired(compare: Compare, tmp_path: Path) -> None:
    for number, router in enumerate(("jsq", "random")):
        for seed in range(2):
            write_job(
                tmp_path / f"{number}{seed}",
                f"routing={router}",
                seed=2 * number + seed,
                metrics={"ttft_mean_s": 1.0 + seed},
            )
    assert "Welch's t test: random" in note(compare(tmp_path).out, "not paired")


def test_a_missing_partner_is_told(compare: Compare, sweep: Path) -> None:
    (sweep / "6" / "result.json").unlink()
    found = note(compare(sweep).out, "paired only")
    assert "jsq (trace.rate_scale=1): 2 of 3 runs" in found


def test_policies_that_never_meet_are_told_with_the_way_out(
    compare: Compare, tmp_path: Path
) -> None:
    write_job(tmp_path / "0", "routing=jsq", "engine.max_num_seqs=64")
    write_job(tmp_path / "1", "routing=random", "engine.max_num_seqs=128")
    found = note(compare(tmp_path).out, "in no setting together")
    assert "the baseline jsq: random; --policy-keys engine.max_num_seqs makes" in found
    joined = compare(tmp_path, "--policy-keys", "engine.max_num_seqs").out
    assert "random max_num_seqs=128" in joined
    assert "in no setting together" not in joined


def test_jobs_that_failed_are_listed_with_their_reason(compare: Compare, sweep: Path) -> None:
    write_job(
        sweep / "99", "routing=jsq", "model=huge", status="infeasible", regime=None, error="too big"
    )
    out = compare(sweep).out
    line = note(out, "not in the table")
    assert line.endswith("99 routing=jsq model=huge (infeasible): too big")
    assert "model=" not in out[: out.index("* ")]


def test_copies_count_once_and_are_told(compare: Compare, sweep: Path, tmp_path: Path) -> None:
    write_job(tmp_path / "a" / "0", "routing=jsq")
    write_job(tmp_path / "b" / "0", "routing=jsq")
    out = compare(tmp_path / "a", tmp_path / "b").out
    assert note(out, "left out as copies").endswith("b/0")


def test_seeds_that_change_nothing_count_once_and_are_told(
    compare: Compare, tmp_path: Path
) -> None:
    for seed in range(3):
        write_job(tmp_path / str(seed), "routing=jsq", seed=seed)
    out = compare(tmp_path).out
    assert "count as one: jsq" in note(out, "all runs gave the very same")
    assert re.search(r"jsq +1 ", out)


def test_a_recorded_trace_is_told(compare: Compare, tmp_path: Path) -> None:
    for seed in range(2):
        trace = {"trace": {"sha256": "f" * 64}}
        write_job(tmp_path / str(seed), seed=seed, metrics={"ttft_mean_s": seed}, provenance=trace)
    assert "own randomness" in note(compare(tmp_path).out, "the trace is a recording")


def test_other_versions_and_sources_are_warned_of(compare: Compare, tmp_path: Path) -> None:
    for number, router in enumerate(("jsq", "random")):
        write_job(
            tmp_path / str(number),
            f"routing={router}",
            versions={"flocksim": f"0.{number}"},
            provenance={"sources_sha256": str(number) * 64},
        )
    out = compare(tmp_path).out
    assert "different versions of flocksim: 0.0, 0.1" in out
    assert "source code of flocksim: 00000000, 11111111" in out


def test_the_csv_holds_all_metrics_with_their_bounds(
    compare: Compare, sweep: Path, tmp_path: Path
) -> None:
    path = tmp_path / "new" / "table.csv"
    assert compare(sweep, "--csv", path).out.endswith(f"written: {path}\n")
    rows = list(csv.DictReader(path.open()))
    assert len(rows) == 2 * 2 * 5
    (row,) = [
        row
        for row in rows
        if (row["policy"], row["metric"], row["trace.rate_scale"]) == ("jsq", "ttft_mean_s", "1.0")
    ]
    assert float(row["mean"]) == pytest.approx(0.0999)
    assert float(row["low"]) < float(row["mean"]) < float(row["high"])
    assert float(row["difference"]) == pytest.approx(-0.0101)
    assert (row["verdict"], row["unit"], row["difference_method"]) == ("better", "s", "paired")


def test_the_markdown_holds_the_same_tables(compare: Compare, sweep: Path, tmp_path: Path) -> None:
    path = tmp_path / "table.md"
    compare(sweep, "--markdown", path)
    text = path.read_text()
    assert "### trace.rate\\_scale=1; 3.00 requests/s offered" in text
    assert "| policy | runs | regime | TTFT mean |" in text
    assert "99.9 ms<br>± 24.6 ms<br>-9.2 % better" in text
    widths = {line.count(" | ") for line in text.splitlines() if line.startswith("|")}
    assert len(widths) == 1
    assert "* flag odd in all runs: the moon was full" in text


def test_files_are_the_same_every_time(compare: Compare, sweep: Path, tmp_path: Path) -> None:
    for name in ("1", "2"):
        compare(sweep, "--csv", tmp_path / f"{name}.csv", "--markdown", tmp_path / f"{name}.md")
    for suffix in ("csv", "md"):
        assert (tmp_path / f"1.{suffix}").read_bytes() == (tmp_path / f"2.{suffix}").read_bytes()


def test_the_bootstrap_shows_bounds_and_says_what_they_are(compare: Compare, sweep: Path) -> None:
    out = compare(sweep, "--interval", "bootstrap", "--level", "0.9").out
    assert "100 ms to 120 ms" in out or "103 ms to 117 ms" in out
    assert "90 % interval of the mean (bias-corrected" in out
    assert "fewer than 10 runs" in out


def test_tenants_have_tables_of_their_own(compare: Compare, tmp_path: Path) -> None:
    table = request_table(tenant=["a", "b", "b"], first_token_s=[0.5, 1.0, 1.5])
    for router in ("jsq", "random"):
        write_job(
            tmp_path / router, f"routing={router}", metrics={"makespan_s": 2.0}, requests=table
        )
    out = compare(tmp_path, "--by", "tenant").out
    assert "tenant=a" in out
    assert "500 ms" in out[: out.index("tenant=b")]
    assert "1.25 s" in out[out.index("tenant=b") :]


class Page(HTMLParser):
    """What an HTML file opens, closes and refers to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.sources: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.sources += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture
def simulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two small jobs, and no figure but one."""
    monkeypatch.setattr("experiments.figures.save.NAMES", ("cdf",))
    for number, router in enumerate(("round_robin", "jsq")):
        overrides = [*TINY, f"routing={router}"]
        config, choices = compose_config(overrides)
        run_job(config, choices, overrides, tmp_path / "jobs" / str(number))
    return tmp_path / "jobs"


def test_the_page_needs_no_other_file(compare: Compare, simulated: Path, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    assert compare(simulated, "--html", path).code == 0
    page = Page(path.read_text())
    assert page.open == []
    assert page.sources
    assert all(source.startswith("data:image/svg+xml;base64,") for source in page.sources)
    assert "Comparison of 2 jobs" in page.words
    assert "TTFT mean" in page.words


def test_figures_are_written_in_the_formats_asked_for(
    compare: Compare, simulated: Path, tmp_path: Path
) -> None:
    run = compare(simulated, "--figures", tmp_path / "figures", "--format", "png,svg")
    assert run.code == 0
    written = lines_with(run.out, "written: ")
    assert f"written: {tmp_path / 'figures' / 'cdf.png'}" in written
    assert f"written: {tmp_path / 'figures' / 'cdf.svg'}" in written


def test_a_bad_measured_file_is_named(compare: Compare, simulated: Path, tmp_path: Path) -> None:
    (tmp_path / "bench.json").write_text("{")
    run = compare(simulated, "--figures", tmp_path / "f", "--measured", tmp_path / "bench.json")
    assert run.code == 2
    assert "bench.json" in run.error_line
    assert run.out == ""  # the tables are not printed first


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (
            ["--baseline", "jqs"],
            "unknown policy: jqs (did you mean jsq?); allowed: jsq, round_robin",
        ),
        (["--metric", "ttft_p98"], "unknown metric: ttft_p98 (did you mean ttft_p99_s?)"),
        (["--level", "95"], "level is 95: must lie between 0 and 1"),
        (["--level", "much"], "argument --level: invalid float value: 'much'"),
        (["--by", "user"], "argument --by: invalid choice: 'user'"),
        (["--by", "tenant"], "no run has a tenant"),
        (["--interval", "z"], "argument --interval: invalid choice: 'z'"),
        (["--format", "gif", "--figures", "x"], "--format gif: must be one of png, svg, pdf"),
        (["--format", "svg"], "add --figures DIR"),
        (["--format", "png"], "add --figures DIR"),
        (["--format", ",", "--figures", "x"], "--format ,: must be one of png, svg, pdf"),
        (["--measured", "x.json"], "add --figures DIR or --html FILE"),
        (["--policy-keys", "routing.nope"], "no run has the key routing.nope"),
        (["--policy-keys", "routing"], "routing is a config group: name a key"),
        (["--colour"], "unrecognized arguments: --colour"),
    ],
)
def test_a_mistake_is_one_line_and_code_2(
    compare: Compare, sweep: Path, arguments: list[str], why: str
) -> None:
    run = compare(sweep, *arguments)
    assert run.code == 2
    assert run.error_line.startswith("flocksim-compare: error: ")
    assert why in run.error_line


def test_no_directory_or_an_empty_one_is_a_mistake(compare: Compare, tmp_path: Path) -> None:
    assert "required: DIR" in compare().error_line
    assert "no such directory" in compare(tmp_path / "nowhere").error_line
    assert "holds no result.json" in compare(tmp_path).error_line


def test_a_sweep_in_which_nothing_ended_well_is_a_mistake(compare: Compare, tmp_path: Path) -> None:
    write_job(tmp_path / "0", status="infeasible", error="too big")
    run = compare(tmp_path)
    assert run.code == 2
    assert "is infeasible: too big" in run.error_line


def test_a_place_that_cannot_be_written_is_refused_at_once(
    compare: Compare, sweep: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    run = compare(sweep, "--csv", tmp_path / "file" / "table.csv")
    assert run.code == 2
    assert run.out == ""
    assert compare(sweep, "--markdown", sweep).code == 2


def test_a_damaged_result_is_named(compare: Compare, sweep: Path) -> None:
    (sweep / "3" / "result.json").write_text("{")
    assert "3/result.json: is no JSON" in compare(sweep).error_line


def test_the_help_teaches_by_examples(compare: Compare) -> None:
    run = compare("--help")
    assert run.code == 0
    assert "flocksim-compare sweep --by tenant" in run.out
    assert max(map(len, run.out.splitlines())) <= 100


def test_the_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from experiments.compare.command import run_command; run_command(['--help']);"
        "sys.exit(str({'pandas', 'matplotlib', 'hydra', 'rich', 'scipy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == "set()"


def test_an_interruption_ends_quietly(
    compare: Compare, sweep: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("experiments.compare.build.compare_runs", stop)
    run = compare(sweep)
    assert (run.code, run.err) == (130, "flocksim-compare: interrupted\n")


def test_replications_are_observations(compare: Compare, tmp_path: Path) -> None:
    for router in ("jsq", "random"):
        parts = [
            {
                "replication": k,
                "seed": k,
                "regime": "stable",
                "metrics": {"ttft_mean_s": 1 + k / 10 + 0.5 * (router == "random") + k * k / 1e3},
            }
            for k in range(4)
        ]
        write_job(tmp_path / router, f"routing={router}", replications=parts)
    out = compare(tmp_path).out
    assert re.search(r"jsq +4 ", out)
    assert "with 4 replications" in note(out, "means over runs")
    document = json.loads((tmp_path / "jsq" / "result.json").read_text())
    assert len(document["replications"]) == 4
