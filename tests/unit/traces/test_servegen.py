"""ServeGen directories: recorded counts, gaps and lengths of the stated laws, bad files."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from sim.errors import ConfigError, TraceFormatError
from sim.rng import stream
from traces.build import build_workload
from traces.readers.reading import FaultFinding, Reading
from traces.readers.servegen import ServeGenTrace
from traces.readers.servegen_arrivals import WindowStreams, arrival_shares, num_arrivals
from traces.schema import TraceTable

ROWS = ("0,0.5,1,Gamma,0.5,7", "600,0,0,,0,0", "1200,0.1,2,Weibull,0.7,1")
"""300, 0 and 60 requests."""

LENGTHS: dict[str, Any] = {
    "0": {"input_tokens": "{10: 0.25, 20: 0.75}", "output_tokens": "{1: 1.0}"},
    "1200": {"input_tokens": "{0: 0.5, 7: 0.5}", "output_tokens": "{3: 0.5, 4: 0.5}"},
}


def client(
    folder: Path, name: str = "chunk-1", rows: tuple[str, ...] = ROWS, lengths: Any = LENGTHS
) -> Path:
    (folder / f"{name}-trace.csv").write_text("".join(f"{row}\n" for row in rows))
    if lengths is not None:
        (folder / f"{name}-dataset.json").write_text(json.dumps(lengths))
    return folder


def generate(path: Path, seed: int = 0, **options: Any) -> TraceTable:
    return ServeGenTrace(path=path, **{"duration_s": None, **options}).load(seed)


def test_every_window_has_its_recorded_number_of_requests(tmp_path: Path) -> None:
    table = generate(client(tmp_path))
    counts, _ = np.histogram(table.arrival_s, [0, 600, 1200, 1800])
    assert counts.tolist() == [300, 0, 60]
    assert (np.diff(table.arrival_s) >= 0).all()


def test_lengths_come_from_the_histograms_of_their_window(tmp_path: Path) -> None:
    table = generate(client(tmp_path), seed=3)
    early = table.arrival_s < 600
    assert set(table.prompt_tokens[early].tolist()) == {10, 20}
    assert abs((table.prompt_tokens[early] == 10).sum() - 75) < 4 * math.sqrt(300 * 0.25 * 0.75)
    assert set(table.output_tokens[early].tolist()) == {1}
    late = ~early
    assert set(table.prompt_tokens[late].tolist()) == {1, 7}  # a length of 0 counts as 1
    assert set(table.output_tokens[late].tolist()) == {3, 4}
    pairs = set(zip(table.prompt_tokens[late], table.output_tokens[late], strict=True))
    assert len(pairs) == 4  # drawn independently


def test_the_same_seed_gives_the_same_and_another_one_does_not(tmp_path: Path) -> None:
    path = client(tmp_path)
    first, again, other = generate(path, 1), generate(path, 1), generate(path, 2)
    assert first.arrival_s.tobytes() == again.arrival_s.tobytes()
    assert first.prompt_tokens.tobytes() == again.prompt_tokens.tobytes()
    assert first.arrival_s.tolist() != other.arrival_s.tolist()
    assert first.prompt_tokens.tolist() != other.prompt_tokens.tolist()


def test_a_client_does_not_depend_on_the_others(tmp_path: Path) -> None:
    path = client(tmp_path)
    alone = generate(path)
    table = generate(client(path, "chunk-0"))
    assert table.tenant is not None
    assert table.tenant.names == ("chunk-0", "chunk-1")
    own = table.take(np.flatnonzero(table.tenant.codes == 1))
    assert own.arrival_s.tolist() == alone.arrival_s.tolist()
    assert own.prompt_tokens.tolist() == alone.prompt_tokens.tolist()
    other = table.take(np.flatnonzero(table.tenant.codes == 0))
    assert other.arrival_s.tolist() != alone.arrival_s.tolist()


def test_a_period_is_cut_out_of_the_same_requests(tmp_path: Path) -> None:
    path = client(tmp_path)
    whole = generate(path)
    part = generate(path, start_s=150, duration_s=1100)
    inside = (whole.arrival_s >= 150) & (whole.arrival_s < 1250)
    assert part.arrival_s.tolist() == (whole.arrival_s[inside] - 150).tolist()
    assert part.prompt_tokens.tolist() == whole.prompt_tokens[inside].tolist()
    assert 150 < part.num_requests < 250


def test_the_rate_is_the_mean_over_the_period(tmp_path: Path) -> None:
    """Over 1,800 s there are 360 requests recorded; a third of all windows is empty."""
    table = generate(client(tmp_path), rate_per_s=2.0)
    counts, _ = np.histogram(table.arrival_s, [0, 600, 1200, 1800])
    assert counts.tolist() == [3000, 0, 600]
    halves = [generate(tmp_path, seed, rate_per_s=0.0025).num_requests for seed in range(200)]
    assert set(halves) <= {3, 4, 5}  # 3.75 + 0.75: each is one of two integers
    assert abs(np.mean(halves) - 4.5) < 4 * math.sqrt(2 * 0.75 * 0.25 / 200)


def test_another_rate_only_stretches_the_gaps_of_a_window(tmp_path: Path) -> None:
    slow = generate(client(tmp_path), duration_s=600)
    fast = generate(tmp_path, duration_s=600, rate_per_s=1.0)
    assert (slow.num_requests, fast.num_requests) == (300, 600)
    ratio = fast.arrival_s[:300] / slow.arrival_s
    assert ratio == pytest.approx(np.full(300, ratio[0]), rel=1e-9)
    assert fast.prompt_tokens[:300].tolist() == slow.prompt_tokens.tolist()


def test_the_busiest_clients_are_kept(tmp_path: Path) -> None:
    for name, rate in (("a", 0.1), ("b", 0.3), ("c", 0.2)):
        client(tmp_path, name, (f"0,{rate},1,Gamma,1,1", "600,5,1,Gamma,1,1"), LENGTHS)
    table = generate(tmp_path, clients=2, duration_s=600)
    assert table.tenant is not None
    assert table.tenant.names == ("b", "c")
    assert np.bincount(table.tenant.codes).tolist() == [180, 120]


@pytest.mark.parametrize("shape", [0.3, 1.0, 4.0])
def test_gamma_gaps_make_shares_of_a_dirichlet_law(shape: float) -> None:
    """One arrival of a window lies at a Beta(a, a) share, the first of three at Beta(a, 3a)."""
    rng = stream(0, "test")
    single = np.array([arrival_shares(rng, "Gamma", shape, 1)[0] for _ in range(2000)])
    assert stats.kstest(single, stats.beta(shape, shape).cdf).pvalue > 0.001
    first = np.array([arrival_shares(rng, "Gamma", shape, 3)[0] for _ in range(2000)])
    assert stats.kstest(first, stats.beta(shape, 3 * shape).cdf).pvalue > 0.001


@pytest.mark.parametrize("shape", [0.6, 1.0, 2.5])
def test_weibull_gaps_have_the_cv_of_their_shape(shape: float) -> None:
    shares = arrival_shares(stream(1, "test"), "Weibull", shape, 200_000)
    gaps = np.diff(shares)
    cv = math.sqrt(math.gamma(1 + 2 / shape) / math.gamma(1 + 1 / shape) ** 2 - 1)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.03)
    assert gaps.mean() == pytest.approx(1 / 200_001, rel=0.01)


def test_gaps_too_small_for_a_double_are_taken_as_equal() -> None:
    class Underflow:
        def weibull(self, shape: float, size: int) -> Any:
            return np.zeros(size)

        standard_gamma = weibull

    shares = arrival_shares(Underflow(), "Weibull", 0.01, 3)  # type: ignore[arg-type]
    assert shares.tolist() == [0.25, 0.5, 0.75]


def test_extreme_shapes_stay_inside_the_window() -> None:
    for family in ("Gamma", "Weibull"):
        for size in (0, 1, 2, 1000):
            for shape in (0.01, 1e6):
                shares = arrival_shares(stream(2, "test"), family, shape, size)
                assert len(shares) == size
                assert (np.diff(shares) >= 0).all()
                assert ((shares >= 0) & (shares <= 1)).all()


def test_the_number_of_arrivals_is_exact_for_integers_and_right_on_average() -> None:
    class Draws:
        def __init__(self, value: float) -> None:
            self.value = value

        def random(self) -> float:
            return self.value

    for value in (0.0, 1 - 2**-53):
        for error in (0, 1e-9, -1e-9):
            assert num_arrivals(Draws(value), 7 + error) == 7  # type: ignore[arg-type]
    rng = stream(0, "test")
    drawn = [num_arrivals(rng, 2.25) for _ in range(4000)]
    assert set(drawn) == {2, 3}
    assert abs(np.mean(drawn) - 2.25) < 4 * math.sqrt(0.25 * 0.75 / 4000)


def test_windows_have_streams_of_their_own_from_one_name() -> None:
    streams = WindowStreams(5, "x")
    first, second = streams.of(0).random(3).tolist(), streams.of(1).random(3).tolist()
    assert streams.of(0).random(3).tolist() == first == stream(5, "x").random(3).tolist()
    assert not set(first) & set(second)


def test_provenance_tells_files_seed_and_options(tmp_path: Path) -> None:
    first = generate(client(tmp_path), seed=4).provenance
    assert (first["format"], first["seed"], first["num_rows"]) == ("servegen", 4, 360)
    assert first["options"] == {
        "start_s": 0.0,
        "duration_s": None,
        "rate_per_s": None,
        "clients": None,
        "missing_lengths": "refuse",
    }
    assert "skipped" not in first
    client(tmp_path, "chunk-2")
    assert generate(tmp_path).provenance["sha256"] != first["sha256"]
    (tmp_path / "chunk-2-trace.csv").unlink()
    (tmp_path / "chunk-2-dataset.json").unlink()
    (tmp_path / "notes.txt").write_text("not read")
    assert generate(tmp_path).provenance["sha256"] == first["sha256"]


NO_LENGTHS = r"chunk-2 has no lengths in 2 of its windows \(1 such client; .*=pool draws these"


def test_requests_without_lengths_are_refused(tmp_path: Path) -> None:
    client(client(tmp_path), "chunk-2", lengths=None)
    with pytest.raises(TraceFormatError, match=NO_LENGTHS):
        generate(tmp_path)
    finding = FaultFinding(tmp_path)
    table = ServeGenTrace(path=tmp_path, duration_s=None).read(finding)
    assert [fault.kind for fault in finding.faults] == ["lengths"]
    assert table.num_requests == 360


def test_requests_without_lengths_are_skipped_and_counted_on_demand(tmp_path: Path) -> None:
    client(client(tmp_path), "chunk-2", lengths=None)
    client(tmp_path, "chunk-3", lengths={"1200": LENGTHS["1200"]})
    table = generate(tmp_path, missing_lengths="skip")
    assert table.tenant is not None
    assert table.tenant.names == ("chunk-1", "chunk-3")
    assert np.bincount(table.tenant.codes).tolist() == [360, 60]
    assert table.provenance["skipped"] == {"no lengths": 660}
    scaled = generate(tmp_path, missing_lengths="skip", rate_per_s=1.0)
    assert scaled.num_requests == pytest.approx(1800, abs=4)


def test_requests_without_lengths_draw_from_all_others_on_demand(tmp_path: Path) -> None:
    """In the pool, chunk-1 weighs 1 with inputs of 10 and 20, chunk-3 weighs 3 with 30."""
    client(client(tmp_path), "chunk-2", ("0,20,1,Gamma,1,1", "600,0,0,,0,0"), lengths=None)
    only = {"0": {"input_tokens": "{30: 1}", "output_tokens": "{2: 1}"}}
    client(tmp_path, "chunk-3", ("0,1.5,1,Gamma,1,1", "600,0,0,,0,0"), lengths=only)
    table = generate(tmp_path, missing_lengths="pool", duration_s=600)
    assert table.tenant is not None
    drawn = table.prompt_tokens[table.tenant.codes == 1]
    assert len(drawn) == 12_000
    for tokens, share in ((10, 1 / 16), (20, 3 / 16), (30, 3 / 4)):
        deviation = 4 * math.sqrt(share * (1 - share) / 12_000)
        assert np.mean(drawn == tokens) == pytest.approx(share, abs=deviation)
    with pytest.raises(ConfigError, match="no client has lengths at 0 s"):
        generate(client(tmp_path, "chunk-1", lengths=None), missing_lengths="pool", clients=1)


def test_it_makes_a_workload(tmp_path: Path) -> None:
    source = ServeGenTrace(path=str(client(tmp_path)), duration_s=600)
    assert build_workload(source, seed=0, rate_scale=2).num_requests == 300


BAD_ROWS = {
    "fields": ("0,1,1,Gamma,1", "5 fields in '0,1,1,Gamma,1': must be 6"),
    "start": ("-1,1,1,Gamma,1,1", "start '-1': must be a number from 0 to 1e+09"),
    "rate": ("0,nan,1,Gamma,1,1", "rate 'nan': must be a number from 0 to 1e+09"),
    "family": ("0,1,1,Pareto,1,1", "family 'Pareto': must be one of Gamma, Weibull"),
    "no family": ("0,1,1,,1,1", "family '': must be one of Gamma, Weibull"),
    "shape": ("0,1,1,Gamma,0,1", "shape '0': must be a number from 0.01 to 1e+06"),
}


@pytest.mark.parametrize("case", BAD_ROWS)
def test_a_bad_window_is_refused_with_file_and_line(tmp_path: Path, case: str) -> None:
    row, why = BAD_ROWS[case]
    client(tmp_path, rows=(ROWS[0], row.replace("0,", "600,", 1), *ROWS[2:]))
    client(tmp_path, rows=(*ROWS[:1], row))
    with pytest.raises(TraceFormatError) as caught:
        generate(tmp_path)
    assert caught.value.why == f"chunk-1-trace.csv:2: {why}"


BAD_FILES: dict[str, tuple[str, str, str]] = {
    "gap": (
        "-trace.csv",
        "\n".join((ROWS[0], ROWS[2], "1800,0,0,,0,0")),
        ":3: windows must follow",
    ),
    "back": ("-trace.csv", "\n".join((ROWS[2], ROWS[0])), ":2: windows must follow"),
    "single": ("-trace.csv", ROWS[0], ": must have at least two windows"),
    "empty": ("-trace.csv", " ", ": is empty, must have at least one row"),
    "JSON": ("-dataset.json", "{", ": not valid JSON: Expecting property name"),
    "list": ("-dataset.json", "[1]", ": must be an object of different starts"),
    "starts": ("-dataset.json", '{"a": {}}', ": must be an object of different starts"),
    "endless": ("-dataset.json", '{"inf": {}}', ": must be an object of different starts"),
    "equal starts": ("-dataset.json", '{"0": {}, "0.0": {}}', ": must be an object of different"),
    "repeated": ("-dataset.json", '{"0": {}, "0": {}}', ": not valid JSON: key '0' appears twice"),
    "inner": ("-dataset.json", '{"0": []}', ": must be an object of different starts"),
    "histogram": ("-dataset.json", '{"0": {"input_tokens": 3}}', ": 3: must be a text like {34:"),
    "pairs": ("-dataset.json", '{"0": {"input_tokens": "{1: 2: 3}"}}', "must be a text like"),
    "words": ("-dataset.json", '{"0": {"input_tokens": "{a: 1}"}}', "'{a: 1}': must be a text"),
    "sum": ("-dataset.json", '{"0": {"input_tokens": "{1: 0.5}"}}', "must be >= 0 and add up to 1"),
    "negative": (
        "-dataset.json",
        '{"0": {"input_tokens": "{1: 1.5, 2: -0.5}"}}',
        "must be >= 0 and add up to 1",
    ),
    "nan": ("-dataset.json", '{"0": {"input_tokens": "{1: nan}"}}', "must be >= 0 and add up"),
    "half": ("-dataset.json", '{"0": {"input_tokens": "{1.5: 1}"}}', "must be integers from 0 to"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_is_refused_by_name_and_others_are_read(tmp_path: Path, case: str) -> None:
    ending, content, why = BAD_FILES[case]
    client(client(tmp_path), "chunk-2")
    (tmp_path / f"chunk-2{ending}").write_text(content)
    with pytest.raises(TraceFormatError) as caught:
        generate(tmp_path)
    assert caught.value.why.startswith(f"chunk-2{ending}")
    assert why in caught.value.why
    assert "\n" not in caught.value.why
    finding = FaultFinding(tmp_path)
    table = ServeGenTrace(path=tmp_path, duration_s=None).read(finding)
    assert [fault.why for fault in finding.faults] == [caught.value.why]
    assert table.num_requests == 360


def test_all_bad_windows_are_found_and_nothing_else(tmp_path: Path) -> None:
    client(tmp_path, rows=("0,1,1,Gamma", "600,x,1,Gamma,1,1", ROWS[2]))
    finding = FaultFinding(tmp_path)
    ServeGenTrace(path=tmp_path).read(finding)
    where = [fault.why.split(": ")[0] for fault in finding.faults]
    assert where == ["chunk-1-trace.csv:1", "chunk-1-trace.csv:2"]


def test_a_period_in_which_nothing_happens_to_arrive_is_one_line(tmp_path: Path) -> None:
    client(tmp_path)
    source = ServeGenTrace(path=tmp_path, duration_s=1e-6)
    assert source.load(0).num_requests == 0
    with pytest.raises(ConfigError, match="trace: holds no request; give a longer time"):
        build_workload(source, seed=0)


def test_directories_without_clients_are_refused(tmp_path: Path) -> None:
    (tmp_path / "m-small").mkdir()
    with pytest.raises(TraceFormatError, match=r"has no file \*-trace.csv .*directories: m-small"):
        generate(tmp_path)
    with pytest.raises(TraceFormatError, match="no such directory"):
        generate(tmp_path / "absent")
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(TraceFormatError, match="is a file, must be a directory"):
        generate(file)


def test_progress_is_in_bytes_of_all_files(tmp_path: Path) -> None:
    client(client(tmp_path), "chunk-2", lengths=None)
    names = ("chunk-1-trace.csv", "chunk-1-dataset.json", "chunk-2-trace.csv")
    sizes = [(tmp_path / name).stat().st_size for name in names]
    steps: list[tuple[int, int]] = []
    source = ServeGenTrace(path=tmp_path, missing_lengths="skip")
    source.read(Reading(tmp_path, lambda *step: steps.append(step)))
    assert steps == [(sum(sizes[:i]), sum(sizes)) for i in (1, 2, 3)]


BAD_OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "start": ({"start_s": -1}, "trace.start_s=-1: must be"),
    "duration": ({"duration_s": 0}, "trace.duration_s=0: must be"),
    "rate": ({"rate_per_s": 0}, "trace.rate_per_s=0: must be"),
    "clients": ({"clients": 0}, "trace.clients=0: must be an integer >= 1"),
    "missing": ({"missing_lengths": "no"}, "must be one of refuse, skip, pool"),
    "late": ({"start_s": 1800}, "trace.start_s=1800, .*: the files span 0 to 1800 s"),
    "long": ({"start_s": 1200, "duration_s": 601}, "the files span 0 to 1800 s"),
    "silent": ({"start_s": 600, "duration_s": 600}, "no client sends requests then"),
    "too many": ({"rate_per_s": 1e6}, "give 1,800,000,000 requests, allowed: 10,000,000"),
    "too few clients": ({"clients": 2}, "trace.clients=2: there are only 1"),
}


@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_bad_options_are_refused(tmp_path: Path, case: str) -> None:
    options, why = BAD_OPTIONS[case]
    with pytest.raises(ConfigError, match=why):
        generate(client(tmp_path), **options)
