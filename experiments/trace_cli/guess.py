"""The format of a file, told by its content."""

import gzip
import re
import shlex
import zlib
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path

from experiments.help_text import options_of
from sim.errors import ConfigError
from traces.readers.sharegpt import PAIRS

HEAD_BYTES = 1 << 16
"""How much of a file is looked at."""

_GZIP_MAGIC, _ZSTD_MAGIC, _PARQUET_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1"

_KEY = re.compile(rb'"((?:[^"\\]|\\.){1,64})"\s*:')

Test = Callable[[set[str]], bool]

_LIKE = {
    "arrival_s": ("arriv", "time", "stamp", "date", "start"),
    "prompt_tokens": ("prompt", "input", "context", "request"),
    "output_tokens": ("output", "completion", "generated", "response", "out"),
}
"""What names of columns hold that are probably ours, the most telling first."""


def _has(*names: str) -> Test:
    return lambda found: set(names) <= found


def _has_pair(found: set[str]) -> bool:
    return any(found >= set(pair) for pair in PAIRS)


def _names_times(found: set[str]) -> bool:
    """Whether there are recorded times, in place of which that format would invent some."""
    return any(part in name.lower() for name in found for part in _LIKE["arrival_s"])


_JSON: tuple[tuple[str, Test], ...] = (
    ("qwen_bailian", _has("hash_ids", "chat_id")),
    ("agent", _has("hash_ids", "session_id", "call")),
    ("mooncake", _has("hash_ids", "timestamp", "input_length")),
    ("guidellm", _has("benchmarks")),
    ("aiperf", lambda found: bool(found & {"request_start_ns", "input_sequence_length"})),
    ("vllm_bench", lambda found: bool(found & {"input_lens", "num_prompts", "total_input_tokens"})),
    ("sharegpt", lambda found: bool(found & {"conversations", "conversation", "messages"})),
    ("sharegpt", lambda found: _has_pair(found) and not _names_times(found)),
)
"""First match counts: keys anywhere in the head of the file."""

_CSV: tuple[tuple[str, Test], ...] = (
    ("azure", _has("timestamp", "contexttokens", "generatedtokens")),
    ("burstgpt", _has("timestamp", "model", "request tokens", "response tokens")),
    ("csv", _has("arrival_s", "prompt_tokens", "output_tokens")),
    ("sharegpt", lambda found: any(found == set(pair) for pair in PAIRS)),
)
"""Column names in lower case. Lengths with further columns are no conversations without times."""


def file_formats() -> list[str]:
    """Names of the formats that files have, sorted; other options of `trace` are generated."""
    folder = files("experiments.conf") / "trace"
    texts = {name: (folder / f"{name}.yaml").read_text("utf-8") for name in options_of("trace")}
    return [name for name, text in texts.items() if "\npath: ???" in text]


def guess_format(place: str, offered: Sequence[str] = ()) -> str:
    """Name of the format of a file or directory.

    Args:
        place: the file.
        offered: formats that a message lists, for a caller that takes no options of them; none
            means all that files have.

    Raises:
        ConfigError: there is no such file, it cannot be read, or no format is recognised.
    """
    path = Path(place)
    names = ", ".join(offered or file_formats())
    name = _guess(path, names, has_options=not offered)
    if name is not None and name in options_of("trace"):
        return name
    raise ConfigError(
        f"{place}: no known format is recognised; name it with --format NAME, one of {names}"
    )


def _guess(path: Path, names: str, *, has_options: bool) -> str | None:
    try:
        if path.is_dir():
            has_clients = any(path.glob("*-trace.csv")) or any(path.glob("*-dataset.json"))
            return "servegen" if has_clients else None
        if path.is_fifo():
            raise ConfigError(
                f"{path}: is a pipe, which can be read only once; name its format with --format "
                f"NAME, one of {names}"
            )
        head = _head(path)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except (OSError, EOFError, ValueError, zlib.error) as error:
        why = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise ConfigError(f"{path}: cannot be read: {why}") from None
    if head.startswith(_PARQUET_MAGIC):
        return "parquet"
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not text and len(head) < HEAD_BYTES:
        raise ConfigError(f"{path}: is empty, must have at least one row")
    if text[:1] in (b"{", b"["):
        keys = {key.decode("utf-8", "replace") for key in _KEY.findall(text)}
        return _first(_JSON, keys)
    header = text.partition(b"\n")[0].decode("utf-8", "replace")
    columns = [name.strip().strip('"') for name in header.split(",")]
    found = _first(_CSV, {name.lower() for name in columns})
    is_table = len(columns) > 2 and all(columns) and header.isprintable()
    if found is None and is_table and has_options:
        raise ConfigError(_as_csv(path, columns))
    return found


def _as_csv(path: Path, columns: list[str]) -> str:
    """What to say of a CSV file of no known layout."""
    settings = " ".join(shlex.quote(f"columns.{ours}={_probable(ours, columns)}") for ours in _LIKE)
    return (
        f"{path}: the columns {', '.join(columns)} are those of no known format; say which is what:"
        f" --format csv {settings} (time_unit=ms, us, ns or iso8601 where times are not in s), or "
        "name another format with --format"
    )


def _probable(ours: str, columns: list[str]) -> str:
    """The column that is probably ours, as a value of an option; else COLUMN."""
    for part in _LIKE[ours]:
        for name in columns:
            if part in name.lower():
                return name if re.fullmatch(r"[\w.-]+", name) else f'"{name}"'
    return "COLUMN"


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
