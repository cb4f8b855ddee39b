"""`flocksim-trace`: what it prints, writes and refuses."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments.help_text import options_of
from experiments.trace_cli import command
from experiments.trace_cli.help_text import EXAMPLES, help_text
from experiments.trace_cli.mooncake_export import milliseconds, write_mooncake
from tests.conftest import TINY_MOONCAKE, Outcome
from traces.readers.azure import AzureTrace
from traces.readers.mooncake import MooncakeTrace
from traces.readers.parquet_table import ParquetTrace
from traces.schema import PromptRuns, TraceTable
from traces.transforms import Transforms

Run = Callable[..., Outcome]

AZURE = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
2023-11-16 18:15:51.2224670,879,55
"""


@pytest.fixture
def trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command in this process."""

    def run(*arguments: str | Path) -> Outcome:
        capsys.readouterr()
        code = command.run_command([str(item) for item in arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err, tmp_path)

    return run


@pytest.fixture
def azure_file(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.csv"
    path.write_text(AZURE)
    return path


def same_table(left: TraceTable, right: TraceTable) -> None:
    for name in ("arrival_s", "prompt_tokens", "output_tokens"):
        assert getattr(left, name).tolist() == getattr(right, name).tolist(), name
    assert (left.runs is None) == (right.runs is None)
    if left.runs is not None and right.runs is not None:
        assert left.runs.ids.tolist() == right.runs.ids.tolist()
        assert left.runs.offsets.tolist() == right.runs.offsets.tolist()
        assert left.runs.block_tokens == right.runs.block_tokens


def test_help_fits_a_hundred_columns_and_names_every_format_and_transform(trace: Run) -> None:
    text = help_text()
    assert max(map(len, text.splitlines())) <= 100
    for name in (*options_of("trace"), *command_names()):
        assert f" {name}" in text, name
    for name in Transforms.__dataclass_fields__:
        assert f"{name}=" in text, name
    assert trace("--help").out.rstrip() == text
    assert trace("--version").out.startswith("flocksim-trace ")


@pytest.mark.parametrize("name", ["info", "validate", "convert", "synth", "compare"])
def test_help_of_a_command_is_about_that_command(name: str, trace: Run) -> None:
    run = trace(name, "--help")
    lines = run.out.splitlines()
    assert (run.code, run.err) == (0, "")
    assert max(map(len, lines)) <= 100
    assert lines[0].startswith(f"flocksim-trace {name}: ")
    assert lines[2].startswith(f"usage: flocksim-trace {name} ")
    examples = [line.split()[1] for line in lines if line.startswith("  flocksim-trace ")]
    assert set(examples) == {name}
    named = {line.split()[0] for line in lines if line.startswith("  --")}
    assert named == {f for f in options_in_usage() if takes(name, f)}
    assert ("trace@parts.batch.trace=synthetic" in run.out) == (name == "synth")
    assert (" prefix_tree" in run.out) == (name == "synth")
    assert (" mooncake parquet" in run.out) == (name != "synth")
    assert ("rate_scale=2" in run.out) == (name != "validate")


def options_in_usage() -> set[str]:
    return {line.split()[0] for line in help_text().splitlines() if line.startswith("  --")}


def takes(name: str, option: str) -> bool:
    """Whether the command's parser knows the option."""
    from experiments.trace_cli.arguments import parser_of

    return any(option in action.option_strings for action in parser_of(name)._actions)


def command_names() -> tuple[str, ...]:
    from experiments.trace_cli.arguments import COMMANDS

    return COMMANDS


def test_every_example_can_be_read() -> None:
    from experiments.trace_cli.arguments import parse_arguments

    for example in EXAMPLES:
        name, *words = example.split()
        assert name == command.NAME
        assert parse_arguments(words).places


def test_info_counts_what_is_in_the_file(trace: Run, mooncake_file: Path) -> None:
    run = trace("info", mooncake_file)
    assert (run.code, run.err) == (0, "")
    title = run.out.splitlines()[0]
    # 1000 + 1100 + 512 + 1600 + 300 prompt tokens
    assert (
        title
        == f"{mooncake_file}: mooncake (guessed), 5 requests over 1.00 s, 4,512 prompt and 133 "
        "output tokens"
    )
    named = trace("info", mooncake_file, "--format", "mooncake").out.splitlines()
    assert named[0] == title.replace(" (guessed)", "")
    assert named[1:] == run.out.splitlines()[1:]
    # row 1 finds block 0, row 3 blocks 0 and 2: 512 + 1,024 of 4,512 tokens
    assert "34.0 %" in run.out
    assert "tokens 0 to 512 of request 0" in run.out
    assert "tokens 512 to 1,024 of request 1" in run.out


def test_info_says_what_was_left_out_and_what_was_done(trace: Run, tmp_path: Path) -> None:
    path = tmp_path / "calls.csv"
    rows = "".join(f"{k},gpt,10,{k % 3},20,api\n" for k in range(6000))
    header = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    path.write_text(header + rows)
    run = trace("info", path, "skip_failed=true", "limit=7", "rate_scale=2")
    left_out, done = run.out.splitlines()[2:4]
    assert left_out.startswith("  rows left out: 2,000 (")
    assert done == "  transforms: limit 7, rate_scale 2.0"
    assert "gpt 100.0 %" in run.out


def test_info_as_json_has_units_and_curve(trace: Run, mooncake_file: Path) -> None:
    run = trace("info", mooncake_file, "--json", "rate_scale=2", "--block-tokens", 512)
    facts = json.loads(run.out)
    assert facts["provenance"]["transforms"] == {"rate_scale": 2.0}
    assert facts["span_s"] == 0.5
    assert facts["mean_rate_per_s"] == 8.0
    assert facts["reuse_by_cache"]["block_tokens"] == 512
    # 2, 3, 1, 4 and 1 blocks, of which one is in three prompts and one in two
    assert facts["reuse_by_cache"]["cache_tokens"][-1] == 8 * 512
    assert facts["reuse_by_cache"]["reuse_ratio"][-1] == pytest.approx(1536 / 4512)
    assert facts["shared_tokens"]["max"] == 1024


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_info_and_compare_draw(
    suffix: str, trace: Run, mooncake_file: Path, azure_file: Path
) -> None:
    picture = mooncake_file.parent / f"figure.{suffix}"
    if suffix == "png":
        run = trace("info", mooncake_file, "--figure", picture)
        assert picture.read_bytes().startswith(b"\x89PNG")
    else:
        run = trace("compare", mooncake_file, azure_file, "--figure", picture)
        text = picture.read_text()
        for label in ("arrivals", "length (tokens)", "prefix cache", "tiny.csv"):
            assert label in text or "<path" in text
        assert "tiny.jsonl" in run.out.splitlines()[0]
    assert run.code == 0
    assert run.out.splitlines()[-1] == f"figure: {picture}"


def test_validate_says_what_a_clean_file_holds(trace: Run, azure_file: Path) -> None:
    run = trace("validate", azure_file)
    assert run.code == 0
    assert run.out == (
        f"{azure_file}: no faults; azure, 3 requests over 4.54188 s, 1,649 prompt and 208 output "
        "tokens\n"
    )


def test_validate_lists_every_fault_with_its_line(trace: Run, tmp_path: Path) -> None:
    rows = TINY_MOONCAKE.splitlines()
    rows[1] = rows[1].replace("1100", "0")
    rows[2] = rows[2].replace('"timestamp": 20', '"timestamp": -1')
    path = tmp_path / "bad.jsonl"
    path.write_text("\n".join([*rows, "{broken", rows[0]]) + "\n")
    run = trace("validate", path)
    assert run.code == 1
    *faults, last = run.out.splitlines()
    assert [line.removeprefix(f"{path}:").partition(":")[0] for line in faults] == [
        "2",
        "3",
        "6",
        "7",
    ]
    assert last.startswith(f"{path}: 4 faults: ")
    assert last.endswith("; 4 rows are good")
    document = json.loads(trace("validate", path, "--json").out)
    assert (document["num_faults"], document["is_valid"]) == (4, False)
    assert [fault["line"] for fault in document["faults"]] == [2, 3, 6, 7]


def test_validate_lists_twenty_of_a_kind_unless_all_are_asked_for(
    trace: Run, tmp_path: Path
) -> None:
    path = tmp_path / "bad.jsonl"
    good, bad = TINY_MOONCAKE.splitlines()[0], TINY_MOONCAKE.splitlines()[2].replace("512", "0")
    path.write_text("\n".join([good, *[bad] * 25]))
    short, full = trace("validate", path), trace("validate", path, "--all")
    assert short.out.count("input_length 0") == 20
    assert "25 faults: 25 of" in short.out
    assert "--all lists all" in short.out
    assert full.out.count("input_length 0") == 25
    assert "--all" not in full.out
    assert (short.code, full.code) == (1, 1)


def test_validate_of_an_unreadable_file_says_so(trace: Run, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\n")
    run = trace("validate", path, "--format", "azure")
    assert run.code == 1
    assert f"{path}:1: header 'a,b': must be TIMESTAMP" in run.out
    assert "the rest could not be read" in run.out


def test_a_trace_goes_to_parquet_and_back(trace: Run, mooncake_file: Path) -> None:
    out = mooncake_file.parent / "x.parquet"
    run = trace("convert", mooncake_file, "--out", out, "limit=4")
    assert (run.code, run.out) == (0, f"written: {out} (parquet, 4 requests over 0.95 s)\n")
    table = ParquetTrace(out).load(0)
    same_table(table, MooncakeTrace(mooncake_file).load(0).slice(0, 4))
    again = mooncake_file.parent / "y.jsonl"
    assert trace("convert", out, "--out", again).code == 0
    same_table(MooncakeTrace(again).load(0), table)


def test_a_trace_goes_to_azure_and_back(trace: Run, azure_file: Path) -> None:
    out = azure_file.parent / "x.parquet"
    again = azure_file.parent / "again.csv"
    assert trace("convert", azure_file, "--out", out).code == 0
    assert trace("convert", out, "--out", again).code == 0
    same_table(AzureTrace(again).load(0), AzureTrace(azure_file).load(0))
    assert again.read_text().splitlines()[1:3] == [
        "2000-01-01 00:00:00.000000000,374,44",
        "2000-01-01 00:00:04.314579000,396,109",
    ]


def test_files_are_merged_on_request(trace: Run, mooncake_file: Path, azure_file: Path) -> None:
    out = mooncake_file.parent / "both.parquet"
    refused = trace("convert", mooncake_file, azure_file, "--out", out)
    assert refused.code == 2
    assert "add --merge" in refused.error_line
    assert trace("convert", mooncake_file, azure_file, "--merge", "--out", out).code == 0
    assert ParquetTrace(out).load(0).num_requests == 8


def test_synth_stores_what_flocksim_would_generate(trace: Run, tmp_path: Path) -> None:
    from experiments.composing import compose_config
    from experiments.schema.job import read_job

    out = tmp_path / "s.parquet"
    run = trace(
        "synth", "prefix_groups", "num_requests=30", "suffix=5-9", "--seed", 3, "--out", out
    )
    assert run.code == 0
    overrides = ["trace=prefix_groups", "trace.num_requests=30", "trace.suffix=5-9"]
    expected = read_job(compose_config(overrides)[0]).trace.build().load(3)
    same_table(ParquetTrace(out).load(0), expected)


@pytest.mark.parametrize("prefix", ["", "trace."])
def test_synth_changes_adds_and_removes_parts_of_a_mix(
    prefix: str, trace: Run, tmp_path: Path
) -> None:
    out = tmp_path / "m.parquet"
    run = trace(
        "synth",
        "mix",
        f"~{prefix}parts.batch",
        f"trace@{prefix}parts.chat.trace=synthetic",
        f"{prefix}parts.chat.trace.num_requests=4",
        f"+trace@{prefix}parts.more.trace=sessions",
        f"{prefix}parts.more.trace.num_requests=3",
        f"+{prefix}parts.more.tenant=x",
        f"++{prefix}parts.more.priority=2",
        "--out",
        out,
    )
    assert (run.code, run.err) == (0, "")
    table = ParquetTrace(out).load(0)
    assert table.tenant is not None
    assert table.priority is not None
    assert table.tenant.names == ("chat", "x")
    assert sorted(table.tenant.codes.tolist()) == [0] * 4 + [1] * 3
    assert sorted(table.priority.tolist()) == [0] * 4 + [2] * 3


def test_what_a_format_cannot_say_is_refused_or_left_out(trace: Run, tmp_path: Path) -> None:
    stored, out = tmp_path / "s.parquet", tmp_path / "s.jsonl"
    trace("synth", "sessions", "num_requests=40", "system_prompt_tokens=600", "--out", stored)
    refused = trace("convert", stored, "--out", out)
    assert refused.code == 2
    for loss in ("--to mooncake: would lose sessions;", "earlier outputs", "blocks of 512 tokens"):
        assert loss in refused.error_line
    assert not out.exists()
    assert trace("convert", stored, "--out", out, "--lossy").code == 0
    lengths = ParquetTrace(stored).load(0).prompt_tokens.tolist()
    assert MooncakeTrace(out).load(0).prompt_tokens.tolist() == lengths
    azure = trace("convert", stored, "--out", tmp_path / "s.csv")
    assert "would lose sessions; all sharing between prompts;" in azure.error_line


def test_whole_blocks_of_sharing_survive_in_a_mooncake_file(trace: Run, tmp_path: Path) -> None:
    stored, out = tmp_path / "s.parquet", tmp_path / "s.jsonl"
    options = ["num_requests=200", "prefix_tokens=100-900", "deviating_ratio=0.3", "suffix=20-90"]
    trace("synth", "prefix_groups", *options, "--out", stored)
    assert trace("convert", stored, "--out", out, "--lossy", "--block-tokens", 16).code == 0
    before = json.loads(trace("info", stored, "--json").out)["reuse_by_cache"]
    after = json.loads(trace("info", out, "block_tokens=16", "--json").out)["reuse_by_cache"]
    assert before["reuse_ratio"][-1] > 0.5
    assert after == before


def test_milliseconds_are_whole_where_they_can_be() -> None:
    assert milliseconds(np.arange(2000.0) / 1000).tolist() == list(range(2000))
    odd_s = np.array([1 / 3, 1e-7, 123456.789012])
    assert (milliseconds(odd_s) / 1000).tolist() == pytest.approx(odd_s.tolist(), rel=3e-16)


def test_blocks_have_ids_of_their_own_and_end_with_what_is_shared(tmp_path: Path) -> None:
    runs = PromptRuns(
        ids=np.array([4, 4, 7]), offsets=np.array([0, 1, 3]), tokens=np.array([40, 40, 9])
    )
    table = TraceTable(
        arrival_s=np.array([0.0, 0.25]),
        prompt_tokens=np.array([50, 50]),
        output_tokens=np.array([1, 1]),
        runs=runs,
    )
    path = tmp_path / "x.jsonl"
    write_mooncake(path, table, True, 16, None)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["timestamp"] for row in rows] == [0, 250]
    first, second = (row["hash_ids"] for row in rows)
    # 40 of 50 tokens are shared: two whole blocks of 16, then blocks of their own
    assert first[:2] == second[:2]
    assert len({*first, *second}) == 2 + 2 + 2
    # one block of 512 would make them share all or nothing: nothing
    one_run = PromptRuns(ids=runs.ids[:2], offsets=np.arange(3), tokens=np.array([40, 40]))
    write_mooncake(path, replace(table, runs=one_run), True, 512, None)
    assert [json.loads(line)["hash_ids"] for line in path.read_text().splitlines()] == [[0], [1]]


MISTAKES = {
    "no such command": ("inof x", "unknown command: inof (did you mean info?)"),
    "no file": ("info", "info takes one file, got 0 (none)"),
    "two files": ("validate {m} {m}", "validate takes one file, got 2"),
    "missing file": ("info no_such.jsonl", "no_such.jsonl: no such file"),
    "unknown flag": ("info {m} --frmat azure", "unrecognized arguments: --frmat"),
    "unknown format": ("info {m} --format azur", "unknown format: azur (did you mean azure?)"),
    "a kind for a file": (
        "info {m} --format sessions",
        "is generated and reads no file; see synth",
    ),
    "a file for a kind": ("synth mooncake --out x.parquet", "mooncake: reads a file and is not"),
    "unknown kind": ("synth sesions --out x.parquet", "unknown kind: sesions (did you mean sess"),
    "two paths": ("info {m} path=other.jsonl", "path=other.jsonl has no effect: the file is "),
    "unknown key": (
        "info {m} block_token=16",
        "unknown key of trace: block_token (did you mean bl",
    ),
    "bad value": ("info {m} limit=0", "trace.limit=0: must be an integer >= 1"),
    "no effect": ("info {m} copy_offsets=even", "trace.copy_offsets=even has no effect"),
    "transformed validation": ("validate {m} limit=3", "limit: validate reads the file as it is"),
    "wrong format": ("info {m} --format azure", "must be TIMESTAMP,ContextTokens"),
    "no place to write": ("convert {m}", "the following arguments are required: --out"),
    "suffix without format": ("convert {m} --out x.txt", "--out x.txt: the suffix names no format"),
    "onto itself": ("convert {m} --out {m} --to mooncake", "is the file that is read"),
    "merge of one": ("convert {m} --merge --out x.parquet", "--merge has no effect"),
    "lossy parquet": ("convert {m} --lossy --out x.parquet", "--lossy has no effect"),
    "blocks of parquet": ("convert {m} --block-tokens 4 --out x.parquet", "has no effect: parquet"),
    "figure of what": ("info {m} --figure x.doc", "--figure x.doc: must end in one of .png"),
    "a seed": ("info {m} --seed -1", "'-1' must be an integer from 0 to 2**63 - 1"),
    "a key of a job": ("info {m} load=0.5", "load: a trace alone cannot use it"),
    "more formats than files": ("info {m} --format mooncake --format azure", "once per file"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line(name: str, trace: Run, mooncake_file: Path) -> None:
    words, message = MISTAKES[name]
    run = trace(*words.format(m=mooncake_file).split())
    assert (run.code, run.out) == (2, "")
    assert run.error_line.startswith("flocksim-trace: error: ")
    assert message in run.error_line


def test_an_unknown_content_asks_for_the_format(trace: Run, tmp_path: Path) -> None:
    path = tmp_path / "what.txt"
    path.write_text("hello\n")
    assert "no known format is recognised; name it with --format" in trace("info", path).error_line


def test_a_file_may_have_an_equals_sign_in_its_name(
    trace: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a=b.jsonl").write_text(TINY_MOONCAKE)
    monkeypatch.chdir(tmp_path)
    assert trace("validate", "a=b.jsonl").code == 0


def test_the_seed_goes_to_files_that_draw(trace: Run, tmp_path: Path) -> None:
    path = tmp_path / "agents.jsonl"
    row = '"call": 0, "timestamp": 0, "input_length": 9, "output_length": 2, "hash_ids": [1]'
    path.write_text("".join(f'{{"agent": "a", "session_id": "{s}", {row}}}\n' for s in "xyz"))
    spans = [
        json.loads(trace("info", path, "--json", "--seed", seed).out)["span_s"]
        for seed in (1, 1, 2)
    ]
    assert spans[0] == spans[1] != spans[2]


def test_arithmetic_of_impossible_options_is_one_line(
    trace: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def overflowing(*_: object) -> None:
        raise OverflowError("too much")

    monkeypatch.setattr("traces.synthetic.independent.SyntheticTrace.load", overflowing)
    run = trace("synth", "synthetic", "--out", tmp_path / "x.parquet")
    assert run.code == 2
    assert run.error_line.endswith("trace: these options give no valid workload: too much")


def test_ctrl_c_is_130(trace: Run, mooncake_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("experiments.trace_cli.sources.read_pass", interrupted)
    run = trace("info", mooncake_file)
    assert (run.code, run.error_line) == (130, "flocksim-trace: interrupted")
