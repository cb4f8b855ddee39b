"""Identity of a job: equal keys mean equal results, wherever the files lie."""

import functools
import hashlib
import importlib
import inspect
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from experiments.package_guard import PACKAGES, package_parent
from experiments.results.json_text import canonical_json
from experiments.schema.plugin import Plugin

_HASHED = (".py", ".json")
"""Sources that decide a result; YAML defaults are in the configuration itself."""


def sha256_of(value: Any) -> str:
    """Digest of a value's canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def without_paths(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration less every key called `path`, at any depth."""
    return {
        key: without_paths(value) if isinstance(value, Mapping) else value
        for key, value in config.items()
        if key != "path"
    }


@functools.cache
def sources_sha256() -> str:
    """Digest of the sources of our packages."""
    digest = hashlib.sha256()
    for package in PACKAGES:
        parent = package_parent(package)
        assert parent is not None
        files = [path for path in (parent / package).rglob("*") if path.suffix in _HASHED]
        for path in sorted(files, key=lambda path: path.relative_to(parent).as_posix()):
            _add(digest, path.relative_to(parent).as_posix(), path)
    return digest.hexdigest()


def foreign_sources(plugins: Iterable[Plugin]) -> dict[str, str]:
    """Digest of the module of every plugin that is not in our packages."""
    found: dict[str, str] = {}
    for plugin in plugins:
        module = plugin.target.rpartition(".")[0]
        if module.partition(".")[0] in PACKAGES:
            continue
        source = inspect.getsourcefile(importlib.import_module(module))
        if source is not None:
            digest = hashlib.sha256()
            _add(digest, module, Path(source))
            found[module] = digest.hexdigest()
    return found


def _add(digest: "hashlib._Hash", name: str, path: Path) -> None:
    content = path.read_bytes()
    digest.update(f"{name}\0{len(content)}\0".encode())
    digest.update(content)
