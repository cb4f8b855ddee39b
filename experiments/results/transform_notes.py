"""What was done to a trace, in plain words."""

from collections.abc import Callable, Mapping
from typing import Any

from experiments.quantities import percent


def told_transform(name: str, value: Any) -> str:
    """One note on a transform.

    Args:
        name: key of the provenance under `transforms`.
        value: what the transform left there.
    """
    tell = _WORDS.get(name)
    return f"the trace was changed: {name}={value}" if tell is None else tell(value)


def counted(number: int, singular: str, plural: str) -> str:
    """A number with the noun and verb that fit it, such as "1 request has"."""
    return f"1 {singular}" if number == 1 else f"{number:,} {plural}"


def _sample(value: Mapping[str, Any]) -> str:
    share = percent(value["share"])
    return f"a random {share} of the sessions and single requests (seed {value['seed']})"


def _copies(value: Mapping[str, Any]) -> str:
    seed = f" (seed {value['seed']})" if "seed" in value else ""
    places = f"{value['offsets']} places{seed}"
    return f"{value['copies']:,} copies of the trace at once, begun at {places}"


def _replay(value: Mapping[str, Any]) -> str:
    users = counted(value["num_users"], "user", "users")
    return f"replayed by {users}, think time {value['think_time_s']:g} s"


def _resampled(value: Mapping[str, Any]) -> str:
    return (
        f"{value['stretches']} stretches of the recording drawn with replacement, in this and "
        "every further replication"
    )


def _shift(value: float) -> str:
    return f"arrivals {abs(value):g} s {'later' if value > 0 else 'earlier'} than in the trace"


def _not_reused(value: int) -> str:
    outputs = counted(value, "output is", "outputs are")
    return f"{outputs} not found in the cache by a prompt that was cut"


_WORDS: dict[str, Callable[[Any], str]] = {
    "sample": _sample,
    "resampled": _resampled,
    "scale_prompt": lambda value: f"prompts {value:g} times as long as in the trace",
    "scale_output": lambda value: f"outputs {value:g} times as long as in the trace",
    "max_output_tokens": lambda value: f"outputs of at most {counted(value, 'token', 'tokens')}",
    "num_outputs_cut": lambda value: counted(value, "output was cut", "outputs were cut"),
    "max_prompt_tokens": lambda value: f"prompts of at most {counted(value, 'token', 'tokens')}",
    "num_prompts_cut": lambda value: counted(value, "prompt was cut", "prompts were cut"),
    "num_outputs_not_reused": _not_reused,
    "strip_prefixes": lambda _: "no two prompts share anything",
    "copies": _copies,
    "poissonise": lambda value: f"sessions start as a Poisson process (seed {value['seed']})",
    "shift_s": _shift,
    "anonymise": lambda _: "numbers in place of ids and names",
    "replay_concurrency": _replay,
}
