"""The format of a file, told by its content."""

import gzip
import re
import zlib
from collections.abc import Callable
from pathlib import Path

from experiments.help_text import options_of
from sim.errors import ConfigError
from traces.readers.sharegpt import PAIRS

HEAD_BYTES = 1 << 16
"""How much of a file is looked at."""

_GZIP_MAGIC, _ZSTD_MAGIC, _PARQUET_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1"

_KEY = re.compile(rb'"((?:[^"\\]|\\.){1,64})"\s*:')

Test = Callable[[set[str]], bool]


def _has(*names: str) -> Test:
    return lambda found: set(names) <= found


def _has_pair(found: set[str]) -> bool:
    return any(found >= set(pair) for pair in PAIRS)


_JSON: tuple[tuple[str, Test], ...] = (
    ("qwen_bailian", _has("hash_ids", "chat_id")),
    ("agent", _has("hash_ids", "session_id", "call")),
    ("mooncake", _has("hash_ids", "timestamp", "input_length")),
    ("guidellm", _has("benchmarks")),
    ("aiperf", lambda found: bool(found & {"request_start_ns", "input_sequence_length"})),
    ("vllm_bench", lambda found: bool(found & {"input_lens", "num_prompts", "total_input_tokens"})),
    ("sharegpt", lambda found: bool(found & {"conversations", "conversation", "messages"})),
    ("sharegpt", _has_pair),
)
"""First match counts: keys anywhere in the head of the file."""

_CSV: tuple[tuple[str, Test], ...] = (
    ("azure", _has("timestamp", "contexttokens", "generatedtokens")),
    ("burstgpt", _has("timestamp", "model", "request tokens", "response tokens")),
    ("csv", _has("arrival_s", "prompt_tokens", "output_tokens")),
    ("sharegpt", _has_pair),
)
"""Column names in lower case."""


def guess_format(place: str) -> str:
    """Name of the format of a file or directory.

    Raises:
        ConfigError: there is no such file, it cannot be read, or no format is recognised.
    """
    path = Path(place)
    name = _guess(path)
    if name is not None and name in options_of("trace"):
        return name
    raise ConfigError(
        f"{place}: no known format is recognised; name it with --format NAME, one of "
        f"{', '.join(options_of('trace'))}"
    )


def _guess(path: Path) -> str | None:
    try:
        if path.is_dir():
            has_clients = any(path.glob("*-trace.csv")) or any(path.glob("*-dataset.json"))
            return "servegen" if has_clients else None
        head = _head(path)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except (OSError, EOFError, ValueError, zlib.error) as error:
        why = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise ConfigError(f"{path}: cannot be read: {why}") from None
    if head.startswith(_PARQUET_MAGIC):
        return "parquet"
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text[:1] in (b"{", b"["):
        keys = {key.decode("utf-8", "replace") for key in _KEY.findall(text)}
        return _first(_JSON, keys)
    header = text.partition(b"\n")[0].decode("utf-8", "replace")
    columns = {name.strip().strip('"').lower() for name in header.split(",")}
    return _first(_CSV, columns)


def _first(tests: tuple[tuple[str, Test], ...], found: set[str]) -> str | None:
    return next((name for name, is_it in tests if is_it(found)), None)


def _head(path: Path) -> bytes:
    """The first bytes of the content, unpacked."""
    with path.open("rb") as file:
        start = file.read(4)
        file.seek(0)
        if start.startswith(_GZIP_MAGIC):
            with gzip.GzipFile(fileobj=file) as packed:
                return packed.read(HEAD_BYTES)
        if start == _ZSTD_MAGIC:
            import pyarrow as pa

            with pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd") as packed:
                content: bytes = packed.read(HEAD_BYTES)
                return content
        return file.read(HEAD_BYTES)
