"""Try out a build: `python trial.py FOLDER MODULE...`; the exit code is 0 if it is sound.

Runs in a process of its own, which the build may bring down.
"""

import sys
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path


def faults(folder: Path, modules: list[str]) -> list[str]:
    """What is wrong with a build in `folder`, a line each."""
    import sim.simulation  # noqa: F401  # whoever runs the engine imports this first

    found = []
    for name in modules:
        file = Path(import_module(name).__file__ or "")
        expected = folder.joinpath(*name.split(".")).with_suffix(EXTENSION_SUFFIXES[0])
        if file != expected:
            found.append(f"error: {name} is not compiled: it comes from {file}")
    tiny = float("5e-324")
    if tiny / 1 == 0.0 or (0.1 + 0.2) + 0.3 == 0.1 + (0.2 + 0.3):
        found.append("error: the compiler changes Python's arithmetic (-ffast-math?)")
    return found


if __name__ == "__main__":
    lines = faults(Path(sys.argv[1]), sys.argv[2:])
    print("\n".join(lines))
    sys.exit(1 if lines else 0)
