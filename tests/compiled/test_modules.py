"""What is compiled: the list is true, and every class can be subclassed and pickled."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

from experiments.compiling.builder import PACKAGES, module_files
from sim.compiled import source_files, sources_root

FOREIGN = {"Enum", "NamedTuple", "Protocol", "dict", "simpy.Environment"}
"""Bases with which mypyc makes a class that is one anyway, or none."""


@pytest.mark.parametrize("package", PACKAGES)
def test_lists_are_in_order(package: str) -> None:
    names = import_module(package).COMPILED
    assert list(names) == sorted(set(names))


def test_every_package_that_names_modules_is_known() -> None:
    found = [path for path in source_files(sources_root()) if "\nCOMPILED = " in path.read_text()]
    assert sorted(path.relative_to(sources_root()).parent.as_posix() for path in found) == sorted(
        package.replace(".", "/") for package in PACKAGES
    )


@pytest.mark.parametrize("file", module_files())
def test_a_module_exists_and_its_classes_may_be_subclassed(file: str) -> None:
    tree = ast.parse((sources_root() / file).read_text(encoding="utf-8"))
    for statement in tree.body:
        if isinstance(statement, ast.ClassDef):
            bases = {ast.unparse(base).partition("[")[0] for base in statement.bases}
            decorators = {ast.unparse(one) for one in statement.decorator_list}
            is_marked = "mypyc_attr(allow_interpreted_subclasses=True)" in decorators
            assert is_marked or bases & FOREIGN, f"{Path(file).stem}.{statement.name}"


@pytest.mark.parametrize("file", module_files())
def test_no_module_keeps_a_constant_that_its_users_would_inline(file: str) -> None:
    """Tests change module constants; a `Final` one would be built into the code."""
    assert "Final" not in (sources_root() / file).read_text(encoding="utf-8")
