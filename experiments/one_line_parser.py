"""The parser of our commands: a mistake is one line, which whoever called prints."""

import argparse
from typing import NoReturn

from sim.errors import ConfigError


class OneLineParser(argparse.ArgumentParser):
    """Hands mistakes to the caller.

    Attributes:
        help_of: the command whose --help a mistake points to; None is the first word of `prog`.
    """

    help_of: str | None = None

    def error(self, message: str) -> NoReturn:
        """Raise the mistake as one line."""
        raise ConfigError(f"{message}; see {self.help_of or self.prog.split()[0]} --help")
