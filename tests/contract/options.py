"""Every option of every config group, with what it needs to be built."""

import copy
import functools
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Any

from experiments.composing import GROUPS, compose_config
from experiments.help_text import options_of
from tests.conftest import TINY_MOONCAKE
from tests.unit.traces.tiny_files import tiny_trace

QWEN = (
    '{"chat_id": 1, "parent_chat_id": -1, "timestamp": 0, "input_length": 5, "output_length": 2, '
    '"type": "text", "turn": 1, "hash_ids": [1]}'
)
AGENT = (
    '{"agent": "a", "session_id": "s", "call": 0, "timestamp": 0, "input_length": 5, '
    '"output_length": 2, "hash_ids": [1]}'
)
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"

TINY_FILES = (
    "burstgpt",
    "csv",
    "vllm_bench",
    "guidellm",
    "aiperf",
    "sharegpt",
    "parquet",
    "servegen",
)
"""Kinds of trace whose file `tiny_trace` writes."""

OPTIONS = [(group, option) for group in GROUPS for option in options_of(group)]
"""(group, option) of every YAML."""

POLICIES = [pair for pair in OPTIONS if pair[0] in ("batching", "routing", "eviction", "admission")]


def options_in(group: str) -> list[str]:
    """Options of one group."""
    return [option for name, option in OPTIONS if name == group]


def overrides_for(group: str, option: str, directory: Path) -> list[str]:
    """Overrides that choose the option and give it the files it cannot do without."""
    chosen = [f"{group}={option}"]
    if group == "model":
        chosen += ["cluster.tensor_parallel=2", "hardware=h200_sxm"]
    needed = {
        ("trace", "mooncake"): ("trace.jsonl", TINY_MOONCAKE),
        ("trace", "azure"): ("trace.csv", AZURE),
        ("trace", "qwen_bailian"): ("trace.jsonl", QWEN),
        ("trace", "agent"): ("trace.jsonl", AGENT),
        ("model", "hf"): ("config.json", _packaged("catalogue", "llama3_8b")),
        ("hardware", "from_file"): ("gpu.json", _packaged("profiles", "a100_sxm_80gb")),
    }
    if (group, option) in needed:
        name, text = needed[group, option]
        (directory / name).write_text(text)
        chosen.append(f"{group}.path={directory / name}")
    if (group, option) == ("hardware", "from_file"):
        (directory / "kernels").mkdir(exist_ok=True)
        kernels = _packaged("profiles/kernels", "a100_sxm_80gb")
        (directory / "kernels" / "gpu.json").write_text(kernels)
    if group == "trace" and option in TINY_FILES:
        chosen += tiny_trace(option, directory)
    return chosen


def _packaged(folder: str, name: str) -> str:
    return (files("hwmodels") / folder / f"{name}.json").read_text()


def composed(group: str, option: str) -> dict[str, Any]:
    """A fresh copy of the configuration with that option."""
    return copy.deepcopy(_composed(group, option)[0])


@functools.cache
def _composed(group: str, option: str) -> tuple[dict[str, Any], Any]:
    folder = tempfile.TemporaryDirectory()  # lives as long as the cache
    config, _ = compose_config(overrides_for(group, option, Path(folder.name)))
    return config, folder
