"""Colour, marker and line of every policy: one map for all figures.

A known policy always looks the same. Colours are distinguishable with the common colour
blindnesses, and no two known policies share both colour and marker, so that grey print can be
read. Source of the colours: Okabe and Ito, "Color Universal Design" (2008), without black (measured
data) and yellow (too light for lines); then three of Tol, "Colour Schemes" (2021), and grey.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#332288",
    "#882255",
    "#999933",
    "#777777",
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "h")
LINES: tuple[str | tuple[int, tuple[float, ...]], ...] = (
    "-",
    (0, (5, 1.5)),
    (0, (4, 1.2, 1, 1.2)),
    (0, (1, 1)),
    (0, (7, 1.5, 1, 1.5, 1, 1.5)),
)

MEASURED = "measured"
"""Label of measured data."""

_KNOWN = (
    # routing, then batching, in the order in which they are told apart best
    *("round_robin", "jsq", "least_requests", "random", "power_of_two", "least_tokens", "vllm_dp"),
    *("lmetric", "most_hit", "linear", "dynamo", "llm_d", "aibrix", "preble", "sglang_router"),
    *("mooncake_ttft", "polyserve", "smetric", "session_affinity", "lpwl"),
    *("fcfs", "lpm", "feather", "aligned_serve", "dfs_weight", "lof", "shortest_prefill"),
    *("feather_heuristic", "hash_tree", "radix_cost", "oracle"),
    *("lru", "always", "token_bucket", "vllm_v1", "sglang", "dynamic_batching"),
)
"""The place decides the look: add names at the end."""

_SEPARATOR = " + "

Line = str | tuple[int, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class Look:
    """How a policy is drawn.

    Attributes:
        colour: of lines and markers.
        marker: of points (Matplotlib's code).
        line: pattern of lines (Matplotlib's code).
    """

    colour: str
    marker: str
    line: Line


MEASURED_LOOK = Look("#000000", "*", (0, (3, 1.5)))


def look_of(policy: str) -> Look:
    """Look of one policy, alone.

    A policy made of several (``"lpm + jsq"``) takes its colour from the last and its marker and
    line from the first. An unknown name takes a place decided by its digest.
    """
    parts = [_look_at(_place(part)) for part in policy.split(_SEPARATOR)]
    return replace(parts[0], colour=parts[-1].colour)


def looks_of(policies: Sequence[str]) -> dict[str, Look]:
    """Looks of the policies of one comparison, all different while there are enough.

    Known policies keep their look; one of unknown name moves on to the next colour that no other
    of the comparison has, or else to the next pair of colour and marker.
    """
    distinct = dict.fromkeys(policies)
    looks = {policy: look_of(policy) for policy in distinct if _is_known(policy)}
    for policy in sorted(policy for policy in distinct if policy not in looks):
        looks[policy] = _free_look(look_of(policy), list(looks.values()))
    return {policy: looks[policy] for policy in distinct}


def _is_known(policy: str) -> bool:
    return all(part in _KNOWN for part in policy.split(_SEPARATOR))


def _free_look(look: Look, taken: Sequence[Look]) -> Look:
    """The look, or one near it that none of the others has."""
    colours = {other.colour for other in taken}
    pairs = {(other.colour, other.marker) for other in taken}
    colour_place, marker_place = COLOURS.index(look.colour), MARKERS.index(look.marker)
    for k in range(len(COLOURS) * len(MARKERS)):
        lap, step = divmod(k, len(COLOURS))
        colour = COLOURS[(colour_place + step) % len(COLOURS)]
        marker = MARKERS[(marker_place + lap) % len(MARKERS)]
        is_free = colour not in colours if len(colours) < len(COLOURS) else True
        if is_free and (colour, marker) not in pairs:
            return replace(look, colour=colour, marker=marker)
    return look


def _place(policy: str) -> int:
    if policy in _KNOWN:
        return _KNOWN.index(policy)
    digest = hashlib.sha256(policy.encode()).digest()
    return int.from_bytes(digest[:4], "big")


def _look_at(place: int) -> Look:
    lap, colour = divmod(place, len(COLOURS))
    marker = (colour + 3 * lap) % len(MARKERS)
    return Look(COLOURS[colour], MARKERS[marker], LINES[(colour + lap) % len(LINES)])
