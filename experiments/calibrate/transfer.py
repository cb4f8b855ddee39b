"""`flocksim-calibrate transfer`: kernels of a GPU that nobody measured, from one that was."""

import argparse
import datetime
import sys
from pathlib import Path

from experiments.calibrate.named_kernels import refuse_device_profile
from experiments.cli import EXIT_OK
from experiments.results.atomic import make_writable, write_text
from experiments.results.json_text import json_text
from hwmodels.device import load_profile
from hwmodels.fitting.kernel_transfer import transfer_kernels
from hwmodels.strict_json import looks_like_path
from sim.errors import ConfigError


def transfer(given: argparse.Namespace) -> int:
    """Write the kernels of a device profile, scaled from another one.

    Raises:
        FlocksimError: a profile cannot be read, the kernels cannot be transferred, or the file
            cannot be written.
    """
    source, target = load_profile(given.source), load_profile(given.target)
    date = given.date or datetime.date.today().isoformat()
    models = transfer_kernels(source.kernels, source, target, date)
    out = _out(given, target.name)
    refuse_device_profile(out)
    make_writable(out.parent, [out.name])
    write_text(out, json_text(models.to_json()))
    for name, record in models.provenance.items():
        print(f"{name}: {record.source.split(' There:')[0]}", file=sys.stderr)
    print(out)
    return EXIT_OK


def _out(given: argparse.Namespace, name: str) -> Path:
    """Where to write; beside a profile of the user's own, where a run looks for it."""
    if given.out:
        return Path(given.out)
    out = Path(f"{name}.json")
    if looks_like_path(given.target):
        profile = Path(given.target)
        out = profile.parent / "kernels" / profile.name
    # It may hold kernels that were measured.
    if out.exists():
        raise ConfigError(f"{out} exists; to replace it, give --out {out}")
    return out
