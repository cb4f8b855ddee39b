"""Translate and compile some modules: `python translate.py OUT MODULE_FILE...`.

Runs in a process of its own, whose working directory holds copies of the packages, because mypyc
and setuptools leave files where they run and end the process when they fail.
"""

import os
import sys
from pathlib import Path

from mypyc.build import mypycify
from setuptools import setup

_MYPY = ("--config-file=", "--explicit-package-bases", "--ignore-missing-imports")

_EXACT = ("-fno-fast-math", "-ffp-contract=off")
"""Python's arithmetic: every operation rounded by itself, nothing reordered."""


def translate(out: Path, files: list[str]) -> None:
    """Compile the modules in `files` into `out`, which then has the same folders."""
    extensions = mypycify(
        [*_MYPY, *files], opt_level="3", debug_level="0", group_name="flocksim_engine"
    )
    if os.name != "nt":
        for extension in extensions:
            extension.extra_compile_args = [*extension.extra_compile_args, *_EXACT]
            extension.extra_link_args = [*extension.extra_link_args, _EXACT[0]]
    build = ("build_ext", "--build-lib", str(out), "--build-temp", "objects")
    setup(
        name="flocksim-engine",
        packages=[],
        py_modules=[],
        ext_modules=extensions,
        script_args=["--no-user-cfg", *build],
    )


if __name__ == "__main__":
    translate(Path(sys.argv[1]), sys.argv[2:])
