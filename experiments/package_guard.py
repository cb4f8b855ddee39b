"""Start-up check that our five packages are ours.

Other distributions on PyPI carry packages of the same names (`traces`, `policies`, `experiments`)
and would shadow ours unnoticed.
"""

import importlib.util
from collections.abc import Callable
from pathlib import Path

PACKAGES = ("sim", "policies", "hwmodels", "traces", "experiments")


def package_parent(name: str) -> Path | None:
    """Directory that holds a package, None if there is no such package. Imports nothing."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations))).resolve().parent


def foreign_package(parent_of: Callable[[str], Path | None] = package_parent) -> str | None:
    """What is wrong with the packages, one line; None if they belong together.

    Args:
        parent_of: finds the directory that holds a package.
    """
    home = parent_of("experiments")
    for name in PACKAGES:
        parent = parent_of(name)
        if parent is None:
            return f"package {name!r} is missing beside 'experiments' in {home}: reinstall flocksim"
        if parent != home:
            return (
                f"package {name!r} is not flocksim's: found in {parent}, expected in {home}; "
                f"uninstall the distribution that brings it (pip uninstall {name})"
            )
    return None
