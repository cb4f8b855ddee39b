"""Builds of the compiled engine: made, tried out, put in place, removed."""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from sim import compiled
from sim.errors import ConfigError

PACKAGES = ("sim", "hwmodels", "hwmodels.attention")
"""Packages that name modules in `COMPILED`."""

MAX_BUILDS = 3
"""Builds that stay, the newest ones: those of sources as they were before may come back."""

TRY = "import sim.simulation, hwmodels.calibrated, hwmodels.roofline"
"""What must run with a new build."""

_NEEDS = "pip install 'flocksim[compile]'"


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
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    if os.name != "nt" and shutil.which(compiler) is None:
        return f"no C compiler: {compiler} not found (Debian: gcc; macOS: xcode-select --install)"
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if not header.is_file():
        return f"no headers of this Python: {header} not found (Debian: python3-dev)"
    return None


def build() -> Path:
    """Compile the engine and put the build in place.

    Returns:
        The folder of the build.

    Raises:
        ConfigError: it does not compile, or does not run.
        OSError: the folder of builds cannot be written.
    """
    target = compiled.build_folder()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="flocksim-compile-") as name:
        work = Path(name)
        for package in compiled.PACKAGES:
            shutil.copytree(
                compiled.sources_root() / package,
                work / package,
                ignore=lambda folder, names: [n for n in names if not _is_source(folder, n)],
            )
        made = work / "made"
        script = Path(__file__).with_name("translate.py")
        command = [sys.executable, "-P", str(script), str(made), *module_files()]
        _run(command, work, target.with_suffix(".log"))
        compiled.mark_complete(made)
        _put(made, target)
    _try_out(target)
    forget_old_builds(target)
    return target


def remove_builds() -> list[Path]:
    """Remove every build of this environment; returns what was there."""
    folder = compiled.builds_folder()
    if not folder.is_dir():
        return []
    found = sorted(path for path in folder.iterdir() if path.is_dir())
    shutil.rmtree(folder)
    return found


def _is_source(folder: str, name: str) -> bool:
    return name.endswith(".py") or (Path(folder, name).is_dir() and name != "__pycache__")


def _run(command: list[str], work: Path, log: Path) -> None:
    environment = {**os.environ, compiled.SWITCH: "0"}
    done = subprocess.run(
        command, cwd=work, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode:
        log.write_bytes(done.stdout)
        _fail(done.stdout.decode(errors="replace"), log)
    log.unlink(missing_ok=True)


def _put(made: Path, target: Path) -> None:
    """Move a build into place at once, so that nobody ever sees half of it."""
    beside = Path(tempfile.mkdtemp(prefix=".new-", dir=target.parent))
    try:
        shutil.copytree(made, beside / "made")
        shutil.rmtree(target, ignore_errors=True)
        (beside / "made").rename(target)
    except OSError:
        if not compiled.is_complete(target):  # else another process was quicker
            raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _try_out(target: Path) -> None:
    command = [sys.executable, "-c", TRY]
    environment = {**os.environ, compiled.SWITCH: "1"}
    root = compiled.sources_root()
    done = subprocess.run(
        command, cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode:
        log = target.with_suffix(".log")
        log.write_bytes(done.stdout)
        shutil.rmtree(target, ignore_errors=True)
        _fail(done.stdout.decode(errors="replace"), log)


def _fail(output: str, log: Path) -> NoReturn:
    lines = [line.strip() for line in output.splitlines() if "error" in line.lower()]
    said = lines[0] if lines else (output.strip().splitlines() or ["nothing was said"])[-1]
    raise ConfigError(f"the engine does not compile here: {said} (all of it: {log})")


def forget_old_builds(newest: Path) -> None:
    """Remove the oldest builds beside a new one."""
    builds = [path for path in newest.parent.iterdir() if compiled.is_complete(path)]
    builds.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for path in builds[MAX_BUILDS:]:
        if path != newest:
            shutil.rmtree(path, ignore_errors=True)
