"""docs/traces.md names every kind of trace and every transform, and its rows can be read."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from experiments.composing import compose_config
from experiments.help_text import options_of
from experiments.job import load_workload
from experiments.schema.job import read_job
from experiments.trace_cli.arguments import COMMANDS, parse_arguments
from experiments.trace_cli.command import run_command
from traces.readers.aiperf import AiperfTrace
from traces.readers.azure import AzureTrace
from traces.readers.burstgpt import BurstGptTrace
from traces.readers.csv_table import CsvTrace
from traces.readers.mooncake import MooncakeTrace
from traces.readers.parquet_table import ParquetTrace
from traces.readers.qwen_bailian import QwenBailianTrace
from traces.readers.sharegpt import ShareGptTrace
from traces.schema import TraceSource
from traces.transforms import Transforms

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "traces.md").read_text()


@pytest.mark.parametrize("name", options_of("trace"))
def test_every_kind_has_a_row(name: str) -> None:
    assert f"\n| `{name}` |" in TEXT


def test_the_transforms_are_listed_in_their_order() -> None:
    table = TEXT.partition("## Transforms")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert named == list(Transforms.__dataclass_fields__)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_shown(command: str) -> None:
    assert f"\nflocksim-trace {command} " in TEXT


def test_the_examples_of_the_command_can_be_read() -> None:
    head = TEXT.partition("## What a trace is")[0]
    examples = re.findall(r"^flocksim-trace (.*)$", head, re.MULTILINE)
    assert len(examples) == 3
    for example in examples:
        assert parse_arguments(example.split()).command in COMMANDS


def commands_of(section: str) -> list[list[str]]:
    """The command lines shown in a section, in words."""
    text = "".join(blocks_of(section)).replace("\\\n", " ")
    return [shlex.split(line) for line in text.splitlines() if line.startswith("flocksim")]


def test_both_commands_make_the_same_tenants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The examples of a mix, from flocksim and from flocksim-trace."""
    (tmp_path / "code.csv").write_text(blocks_of("azure")[0])
    monkeypatch.chdir(tmp_path)
    lines = commands_of("Several tenants")
    assert [words[0] for words in lines] == ["flocksim", "flocksim-trace"] * 2
    tenants = []
    for job, synth in zip(lines[::2], lines[1::2], strict=True):
        workload = load_workload(read_job(compose_config(job[1:])[0]))
        assert run_command(synth[1:]) == 0
        stored = ParquetTrace(path=synth[-1]).load(0)
        assert stored.arrival_s.tolist() == workload.arrival_s.tolist()
        assert stored.prompt_tokens.tolist() == workload.prompt_tokens.tolist()
        assert workload.tenant is not None
        tenants.append(
            dict(zip(workload.tenant.names, np.bincount(workload.tenant.codes), strict=True))
        )
    assert tenants == [
        {"chat": 1600, "nightly": 600},
        {"chat": 2000, "batch": 2000, "code": 1},
    ]


def test_every_job_that_is_shown_can_be_read() -> None:
    lines = re.findall(r"^flocksim (?:[^\\\n]|\\\n)*", TEXT, re.MULTILINE)
    assert len(lines) == 6
    for line in lines:
        read_job(compose_config(shlex.split(line.replace("\\\n", " "))[1:])[0])


def blocks_of(section: str) -> list[str]:
    part = TEXT.partition(f"\n### {section}")[2].partition("\n### ")[0].partition("\n## ")[0]
    return re.findall(r"```\n(.*?)```", part, re.DOTALL)


SOURCES = {
    "mooncake": MooncakeTrace,
    "qwen_bailian": QwenBailianTrace,
    "azure": AzureTrace,
    "burstgpt": BurstGptTrace,
    "sharegpt": ShareGptTrace,
    "vllm_bench, guidellm, aiperf": AiperfTrace,
    "csv and parquet": CsvTrace,
}


@pytest.mark.parametrize("section", SOURCES)
def test_the_example_of_a_format_is_read(section: str, tmp_path: Path) -> None:
    path = tmp_path / "example"
    text = blocks_of(section)[-1]
    if section == "qwen_bailian":
        text = text.replace('"parent_chat_id": 3', '"parent_chat_id": -1')
    path.write_text(text)
    more = {"rate_per_s": 1.0} if section == "sharegpt" else {}
    source: TraceSource = SOURCES[section](path=path, **more)
    assert source.load(0).num_requests == 1
