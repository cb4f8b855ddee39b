"""Provenance of generated traces."""

from collections.abc import Mapping
from typing import Any


def provenance_of_generator(
    name: str, seed: int, num_rows: int, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Like a file's, but with the seed and all options in place of a digest."""
    return {
        "format": name,
        "sha256": None,
        "seed": seed,
        "num_rows": num_rows,
        "options": dict(options),
    }
