"""The profile below the constants that are fitted, and the overlay that is written."""

import os
from dataclasses import replace
from pathlib import Path

from experiments.schema.job import HardwareConfig
from hwmodels.overlay import BASE_KEY, Overlay, base_of, overlay_of
from hwmodels.strict_json import looks_like_path, read_object


def base_overlay(hardware: HardwareConfig) -> Overlay:
    """What a configuration runs on, as an overlay: without constants unless it is one already.

    A base of the user's own is named by its whole path.

    Raises:
        ConfigError: a file cannot be read.
    """
    empty = Overlay(base=str(hardware.profile), name="fitted", date="-", values={}, sources={})
    if not hardware.path:
        return empty
    path = Path(hardware.path)
    record = read_object(path)
    if BASE_KEY not in record:
        return replace(empty, base=_named(path.resolve()))
    below = overlay_of(path, record)
    base = base_of(path, below)
    name = _named(base.resolve()) if isinstance(base, Path) else base
    return replace(below, base=name)


def seen_from(overlay: Overlay, directory: Path) -> Overlay:
    """The overlay as a file in a directory: a base of the user's own by its path from there."""
    if not looks_like_path(overlay.base):
        return overlay
    return replace(overlay, base=_named(Path(os.path.relpath(overlay.base, directory.resolve()))))


def _named(path: Path) -> str:
    """A path that cannot be taken for the name of a packaged profile."""
    text = path.as_posix()
    return text if looks_like_path(text) else f"./{text}"
