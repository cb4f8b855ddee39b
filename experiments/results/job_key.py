"""Identity of a job: equal keys mean equal results, wherever the files lie."""

import functools
import hashlib
import importlib
import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from experiments.deployment import Deployment
from experiments.package_guard import PACKAGES, package_parent
from experiments.results.json_text import canonical_json
from experiments.schema.job import JobConfig
from experiments.schema.plugin import TARGET, Plugin
from hwmodels.device import DeviceSpec
from hwmodels.model_shape import ModelShape

_HASHED = (".py", ".json")
"""Sources that decide a result; YAML defaults are in the configuration itself."""

_PATHS = ("path", "state_in", "state_out", "table")
"""Keys whose values name files."""


def job_key(
    job: JobConfig, deployment: Deployment, shown: Mapping[str, Any], trace: Any = None
) -> str | None:
    """Key of a job, known before anything of its trace is loaded.

    Args:
        job: its configuration.
        deployment: what serves.
        shown: `shown_config` of it.
        trace: provenance of the loaded trace, for one that cannot be told by its files.

    Returns:
        None if only loading tells what the trace holds: its class is not ours, or a file of it
        cannot be read.
    """
    files = None if trace is not None else _trace_files(job.trace)
    if files is None and trace is None:
        return None
    key = {
        "config": shown,
        "seed": job.seed,
        "trace": trace if files is None else files,
        "hardware": device_sha256(deployment.device, job.hardware.fidelity),
        "model": shape_sha256(deployment.shape),
        "learned": _learned_sha256(job.plugins),
        "sources": sources_sha256(),
        "plugins": foreign_sources(job.plugins),
    }
    return sha256_of(key)


def _learned_sha256(plugins: Iterable[Plugin]) -> dict[str, str | None]:
    """Digest of what every learner starts from that does not start from nothing."""
    return {
        plugin.key: _file_sha256(Path(str(plugin.options["state_in"])))
        for plugin in plugins
        if plugin.options.get("state_in") is not None
    }


def device_sha256(device: DeviceSpec, fidelity: str) -> str:
    """Digest of a hardware profile and, where they price the steps, of its kernels."""
    places = ("kernels_at", "table_at")
    constants = {key: value for key, value in asdict(device).items() if key not in places}
    if fidelity == "roofline":
        return sha256_of(constants)
    parts: list[Any] = [constants, replace(device, table_at="").kernels.to_json()]
    if device.table_at:
        parts.append(_file_sha256(Path(device.table_at)))
    return sha256_of(parts)


def shape_sha256(shape: ModelShape) -> str:
    """Digest of a model's sizes, whatever it is called."""
    sizes = {key: value for key, value in asdict(shape).items() if key not in ("name", "source")}
    return sha256_of(sizes)


def _trace_files(trace: Plugin) -> dict[str, str] | None:
    """Digest of every file that a trace of ours reads, by its key; None if that is unknown."""
    digests: dict[str, str] = {}
    targets = [trace.target]
    for key, value in _leaves("trace", trace.options):
        name = key.rpartition(".")[2]
        if name in (TARGET, "target"):
            targets.append(str(value))
        elif name == "path" and value is not None:
            digest = _file_sha256(Path(str(value)))
            if digest is None:
                return None
            digests[key] = digest
    is_ours = all(target.partition(".")[0] in PACKAGES for target in targets)
    return digests if is_ours else None


def _leaves(prefix: str, section: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in section.items():
        if isinstance(value, Mapping):
            yield from _leaves(f"{prefix}.{key}", value)
        else:
            yield f"{prefix}.{key}", value


def _file_sha256(path: Path) -> str | None:
    """Digest of a file's content, None if it cannot be read."""
    try:
        stat = path.stat()
        return _digest_of(path.resolve(), stat.st_size, stat.st_mtime_ns)
    except OSError:
        return None


@functools.lru_cache(maxsize=64)
def _digest_of(path: Path, _num_bytes: int, _changed_ns: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of(value: Any) -> str:
    """Digest of a value's canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def without_paths(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration less every key that names a file, at any depth."""
    return {
        key: without_paths(value) if isinstance(value, Mapping) else value
        for key, value in config.items()
        if key not in _PATHS
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
