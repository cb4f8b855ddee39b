"""Order of the command line: Hydra's parser wants all overrides on one side of the flags."""

from collections.abc import Sequence

_TAKE_A_VALUE = frozenset(
    {
        *("--cfg", "-c", "--package", "-p", "--config-path", "-cp", "--config-name", "-cn"),
        *("--config-dir", "-cd", "--experimental-rerun"),
    }
)
_MAY_TAKE_A_VALUE = frozenset({"--info", "-i"})


def overrides_first(arguments: Sequence[str]) -> list[str]:
    """The same arguments with every override before every flag, both in their own order."""
    if "--" in arguments:
        return list(arguments)
    overrides: list[str] = []
    flags: list[str] = []
    last = ""
    for item in arguments:
        is_value = last in _TAKE_A_VALUE or (last in _MAY_TAKE_A_VALUE and "=" not in item)
        (flags if is_value or item.startswith("-") else overrides).append(item)
        last = item if item.startswith("-") else ""
    return overrides + flags
