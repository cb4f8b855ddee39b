"""Entry point of `flocksim-compile`, which runs plain Python itself, whatever the switch says."""

import os
import signal
import sys
from typing import NoReturn

_SWITCH = "FLOCKSIM_COMPILED"  # not imported: that would ask for the build that is to be made


def main() -> NoReturn:
    """Run the command line and exit."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the compiler ends with us
    wish = os.environ.get(_SWITCH, "")
    os.environ[_SWITCH] = "0"
    from experiments.compiling.command import run_command
    from experiments.streams import install_lenient_streams

    install_lenient_streams()
    sys.exit(run_command(sys.argv[1:], wish))
