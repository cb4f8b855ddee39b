"""Where the public traces and measurements are, if this machine has them."""

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


def real_data_dir() -> Path:
    """Folder named by FLOCKSIM_DATA, else `../shared/data` beside the repository."""
    named = os.environ.get("FLOCKSIM_DATA")
    return Path(named) if named else REPOSITORY.parent / "shared" / "data"


def real_data_file(relative: str) -> Path:
    """A file of the real data; skips the test with a reason where it is absent."""
    path = real_data_dir() / relative
    if not path.is_file():
        pytest.skip(f"real data not here: {path} (set FLOCKSIM_DATA)")
    return path
