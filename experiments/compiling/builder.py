"""Makes a build of the compiled engine: copied, translated, tried out, put in place."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from experiments.compiling.builds import new_folder, put, remove_old_builds
from sim import compiled
from sim.errors import ConfigError

PACKAGES = ("sim", "hwmodels", "hwmodels.attention")
"""Packages that name modules in `COMPILED`."""

_NEEDS = "pip install 'mypy[mypyc]' setuptools (in a checkout: make compile)"

_STRAYS = ("CFLAGS", "CPPFLAGS", "CXXFLAGS", "LDFLAGS", "LDSHARED", "MYPYPATH")
"""Variables that would change what is built; the compiler alone may be chosen (CC)."""


def module_files() -> list[str]:
    """Sources that are translated, below the folder of the packages."""
    return [
        f"{package.replace('.', '/')}/{name}.py"
        for package in PACKAGES
        for name in import_module(package).COMPILED
    ]


def why_impossible() -> str | None:
    """What is missing here to compile, one line; None if nothing is."""
    missing = [name for name in ("mypyc", "setuptools") if find_spec(name) is None]
    if missing:
        return f"{' and '.join(missing)} not installed: {_NEEDS}"
    said = os.environ.get("CC", "")
    try:
        compiler = shlex.split(said or sysconfig.get_config_var("CC") or "cc")[0]
    except (ValueError, IndexError):
        return f"CC={said!r}: must be the command of a C compiler"
    if os.name != "nt" and shutil.which(compiler) is None:
        known = "set CC, or Debian: gcc; macOS: xcode-select --install"
        return f"no C compiler: {compiler} not found ({known})"
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if not header.is_file():
        return f"no headers of this Python: {header} not found (Debian: python3-dev)"
    return None


def build() -> Path:
    """Compile the engine and put the build in place.

    Returns:
        The folder of the build.

    Raises:
        ConfigError: it does not compile, or does not run, or a source was edited meanwhile.
        OSError: the folder of builds cannot be written.
    """
    target = compiled.build_folder()
    with new_folder(target.parent) as work:
        for package in compiled.PACKAGES:
            _copy_sources(compiled.sources_root() / package, work / package)
        if compiled.digest_of(work) != target.name:
            raise ConfigError("a source was edited while it was copied: try again")
        made = work / "builds" / target.name
        script = Path(__file__).with_name("translate.py")
        _run([sys.executable, "-P", str(script), str(made), *module_files()], work, target)
        compiled.mark_complete(made)
        try_out(made)
        put(made, target)
    remove_old_builds(target)
    return target


def try_out(folder: Path) -> None:
    """Import every compiled module from a build, and see that arithmetic is Python's.

    Raises:
        ConfigError: it does not run as it should.
    """
    modules = [file.removesuffix(".py").replace("/", ".") for file in module_files()]
    script = Path(__file__).with_name("trial.py")
    environment = {compiled.SWITCH: "1", compiled.FOLDER: str(folder.parent)}
    paths = [str(compiled.sources_root()), os.environ.get("PYTHONPATH")]
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    _run([sys.executable, "-P", str(script), str(folder), *modules], None, folder, environment)


def _copy_sources(source: Path, copy: Path) -> None:
    for path in source.rglob("*.py"):
        target = copy / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


def _run(
    command: list[str], folder: Path | None, target: Path, more: dict[str, str] | None = None
) -> None:
    """Run a process of the build; what it says is kept beside the build if it fails."""
    kept = {name: value for name, value in os.environ.items() if name not in _STRAYS}
    environment = {**kept, compiled.SWITCH: "0", **(more or {})}
    log = compiled.builds_folder() / f"{target.name}.log"
    code, said = _output(command, folder, environment)
    if code:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(said)
        _fail(said.decode(errors="replace"), log)
    log.unlink(missing_ok=True)


def _output(
    command: list[str], folder: Path | None, environment: dict[str, str]
) -> tuple[int, bytes]:
    """Exit code and output of a process; if we are interrupted, so are all that it has started."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate()
    except BaseException:
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.wait()
        raise
    return process.returncode, said


def _fail(output: str, log: Path) -> NoReturn:
    """Say the first line that is marked as an error, else the last one."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    marked = [line for line in lines if re.search(r"(^|\s)(fatal )?error: ", line)]
    said = (marked or lines[-1:] or ["nothing was said"])[0]
    said = said if len(said) <= 200 else said[:197] + "..."
    raise ConfigError(f"the engine does not compile here: {said} (all of it: {log})")
