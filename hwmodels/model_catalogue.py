"""Known models by name, and models of the user's own by path."""

from dataclasses import MISSING, fields
from importlib.resources.abc import Traversable
from pathlib import Path

from hwmodels.hf_config import from_hf_config
from hwmodels.model_shape import ModelShape
from hwmodels.strict_json import (
    as_text,
    check_keys,
    looks_like_path,
    packaged_names,
    packaged_record,
    read_object,
)

_FOLDER = "catalogue"
_REQUIRED = [item.name for item in fields(ModelShape) if item.default is MISSING] + ["source"]
_OPTIONAL = [item.name for item in fields(ModelShape) if item.name not in _REQUIRED]


def available_models() -> list[str]:
    """Names in the packaged catalogue, sorted."""
    return packaged_names(_FOLDER)


def load_model(name_or_path: str | Path) -> ModelShape:
    """Read a model shape.

    Args:
        name_or_path: a catalogue name such as ``llama3_8b``; or the path of a catalogue-style JSON
            file, of a Hugging Face ``config.json``, or of a folder that holds one. A text is a path
            if it has a path separator or ends in ``.json``.

    Raises:
        ConfigError: unknown name, unreadable file, or a key or value that is not allowed.
    """
    source: Path | Traversable
    if isinstance(name_or_path, Path) or looks_like_path(name_or_path):
        source = Path(name_or_path)
        if source.is_dir() or "architectures" in read_object(source):
            return from_hf_config(source)
    else:
        source = packaged_record("model", _FOLDER, name_or_path)
    record = read_object(source)
    check_keys(f"{source}", record, _REQUIRED, _OPTIONAL)
    for key in ("name", "source"):
        as_text(f"{source}: {key}", record[key])
    return ModelShape(**record)  # type: ignore[arg-type]
