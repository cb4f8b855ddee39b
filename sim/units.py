"""Units: SI base units everywhere inside (seconds, bytes, tokens); conversion at the edges only."""

KIB = 1024
MIB = 1024**2
GIB = 1024**3
"""Bytes; used only where vendors state binary sizes (GPU memory, cache sizes)."""

KILO, MEGA, GIGA, TERA = 1e3, 1e6, 1e9, 1e12
"""Decimal prefixes for rates and vendor peaks (tera is 1e12)."""


def blocks_for_tokens(num_tokens: int, block_tokens: int) -> int:
    """KV blocks that hold `num_tokens` tokens: the quotient rounded up."""
    return -(-num_tokens // block_tokens)
