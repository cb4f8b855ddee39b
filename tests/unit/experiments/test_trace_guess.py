"""Formats told by their content."""

import gzip
import os
from pathlib import Path

import pytest

from experiments.help_text import options_of
from experiments.trace_cli.guess import file_formats, guess_format
from sim.errors import ConfigError

BLOCKS = '"input_length": 5, "output_length": 2, "hash_ids": [1]'

SAMPLES = {
    "mooncake": f'{{"timestamp": 0, {BLOCKS}}}\n',
    "qwen_bailian": f'{{"chat_id": 1, "parent_chat_id": -1, "timestamp": 0, {BLOCKS}}}\n',
    "agent": f'{{"agent": "a", "session_id": "s", "call": 0, "timestamp": 0, {BLOCKS}}}\n',
    "vllm_bench": '{"date": "x", "backend": "vllm", "num_prompts": 2, "input_lens": [1, 2]}',
    "guidellm": '{"metadata": {}, "benchmarks": [{"requests": {"successful": []}}]}',
    "aiperf": '{"metadata": {"request_start_ns": 5}, "metrics": {}}\n',
    "sharegpt": '[{"conversations": [{"from": "human", "value": "b \\"hash_ids\\": 1"}]}]',
    "azure": "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,374,44\n",
    "burstgpt": "Timestamp,Model,Request tokens,Response tokens,Log Type\n5,a,1,2,b\n",
    "csv": "arrival_s,prompt_tokens,output_tokens\n0,1,2\n",
    "parquet": "PAR1....",
}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_format_is_told_from_the_head_of_the_file(name: str, tmp_path: Path) -> None:
    plain, packed = tmp_path / "a", tmp_path / "b"
    plain.write_text(SAMPLES[name])
    packed.write_bytes(gzip.compress(SAMPLES[name].encode()))
    assert guess_format(str(plain)) == name
    assert guess_format(str(packed)) == name
    plain.write_bytes(b"\xef\xbb\xbf\n" + SAMPLES[name].encode())
    if name not in ("parquet", "azure", "burstgpt", "csv"):
        assert guess_format(str(plain)) == name


def test_lengths_without_times_are_those_of_conversations(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text('{"prompt_tokens": 3, "output_tokens": 4}\n')
    assert guess_format(str(path)) == "sharegpt"
    path.write_text("input_tokens,output_tokens\n3,4\n")
    assert guess_format(str(path)) == "sharegpt"


@pytest.mark.parametrize(
    ("header", "form"),
    [
        (
            "time,prompt_tokens,output_tokens,user",
            "columns.arrival_s=time columns.prompt_tokens=prompt_tokens "
            "columns.output_tokens=output_tokens ",
        ),
        (
            "id,input_tokens,output_tokens",
            "columns.arrival_s=COLUMN columns.prompt_tokens=input_tokens "
            "columns.output_tokens=output_tokens ",
        ),
        (
            '"Start Time",n in,completion (tokens)',
            "'columns.arrival_s=\"Start Time\"' columns.prompt_tokens=COLUMN "
            "'columns.output_tokens=\"completion (tokens)\"' ",
        ),
    ],
)
def test_lengths_with_further_columns_are_not_guessed(
    header: str, form: str, tmp_path: Path
) -> None:
    path = tmp_path / "log.csv"
    path.write_text(f"{header}\n0,10,5,a\n")
    with pytest.raises(ConfigError) as caught:
        guess_format(str(path))
    told = str(caught.value)
    assert told.startswith(f"{path}: the columns {header.replace(chr(34), '').replace(',', ', ')} ")
    assert f"--format csv {form}" in told
    assert "time_unit=ms" in told


def test_lengths_with_recorded_times_are_no_conversations(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"created_time": 1, "prompt_tokens": 3, "output_tokens": 4}\n')
    with pytest.raises(ConfigError, match="no known format is recognised"):
        guess_format(str(path))


def test_a_directory_of_clients_is_servegen(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no known format is recognised"):
        guess_format(str(tmp_path))
    (tmp_path / "chunk-0-trace.csv").write_text("0,1,1,Gamma,1,1\n")
    assert guess_format(str(tmp_path)) == "servegen"


def test_every_file_format_is_guessed() -> None:
    generated = {"demo", "mix", "prefix_groups", "prefix_tree", "sessions", "synthetic"}
    assert set(options_of("trace")) - generated == {*SAMPLES, "servegen"}
    assert set(file_formats()) == {*SAMPLES, "servegen"}


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf\n \n", gzip.compress(b"", mtime=0)])
def test_an_empty_file_is_said_to_be_empty(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="x: is empty, must have at least one row"):
        guess_format(str(path))


def test_a_pipe_must_be_named(tmp_path: Path) -> None:
    path = tmp_path / "x"
    os.mkfifo(path)
    with pytest.raises(ConfigError, match=r"is a pipe, which can be read only once; .* azure"):
        guess_format(str(path))


@pytest.mark.parametrize("content", [b"hello\n", b"{}", b"\x1f\x8bnot gzip", b"a,b\n1,2\n"])
def test_anything_else_is_refused_in_one_line(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"recognised; name it with|cannot be read: "):
        guess_format(str(path))
