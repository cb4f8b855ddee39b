"""Messages about unknown names: what is allowed, and what was probably meant."""

import difflib
from collections.abc import Iterable


def unknown_name(kind: str, name: str, allowed: Iterable[str], shown: str | None = None) -> str:
    """One line that lists the allowed names and the closest ones.

    Args:
        kind: what the name should have been, for example ``"key of engine"``.
        name: what the user wrote.
        allowed: the valid names.
        shown: how to show it, by default the name itself.
    """
    names = sorted(allowed)
    longer = [known for known in names if known.startswith(f"{name}_")] if name else []
    close = longer or difflib.get_close_matches(name, names, n=1)
    hint = f" (did you mean {' or '.join(close[:3])}?)" if close else ""
    return f"unknown {kind}: {shown or name}{hint}; allowed: {', '.join(names) or 'nothing'}"
