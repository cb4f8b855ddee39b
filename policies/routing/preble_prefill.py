"""Preble's prefill times: Mistral-7B on an A6000."""


def prefill_s(num_tokens: int, context_tokens: int) -> float:
    """Seconds to prefill `num_tokens` >= 1 after `context_tokens` others.

    Linear layers and attention, both fitted in milliseconds, over 0.9.

    Source: Preble, profile of Mistral-7B on an A6000.
    """
    n = num_tokens
    if n >= 384:
        linear_ms = 0.1084 * n + 4.21
    elif n >= 192:
        linear_ms = -118 + 1.25 * n - 0.00256 * n**2
    else:
        linear_ms = 22.0
    context = context_tokens + n
    attention_ms = 0.32 if context <= 1024 else 1.86e-4 * context + 0.159
    if n >= 4096:
        attention_ms += -7.37 + 3.86e-3 * n + 2.16e-6 * n**2
    return (linear_ms + attention_ms) / 0.9 / 1000
