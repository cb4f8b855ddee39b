"""Formats told by their content."""

import gzip
from pathlib import Path

import pytest

from experiments.help_text import options_of
from experiments.trace_cli.guess import guess_format
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


def test_a_directory_of_clients_is_servegen(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no known format is recognised"):
        guess_format(str(tmp_path))
    (tmp_path / "chunk-0-trace.csv").write_text("0,1,1,Gamma,1,1\n")
    assert guess_format(str(tmp_path)) == "servegen"


def test_every_file_format_is_guessed() -> None:
    generated = {"demo", "mix", "prefix_groups", "prefix_tree", "sessions", "synthetic"}
    assert set(options_of("trace")) - generated == {*SAMPLES, "servegen"}


@pytest.mark.parametrize("content", [b"", b"hello\n", b"{}", b"\x1f\x8bnot gzip", b"a,b\n1,2\n"])
def test_anything_else_is_refused_in_one_line(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"recognised; name it with|cannot be read: "):
        guess_format(str(path))
