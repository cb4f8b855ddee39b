"""What tells jobs apart: their policy, and the settings under which policies are compared."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from experiments.results.job_key import sha256_of
from experiments.results.json_text import canonical_json
from sim.errors import ConfigError

if TYPE_CHECKING:
    from experiments.results.load import Run

POLICY_GROUPS = (
    *("routing", "batching", "eviction", "admission", "engine", "kernel", "executor", "cluster"),
    *("routing@cluster.decode_routing", "batching@cluster.decode_batching"),
)
"""Config groups whose choice is a policy, in the order of the label."""

NO_SETTING = ("seed", "replications", "check", "output", "hydra")
"""Sections and keys that make no other setting: observations of one, or what is written."""

PLACEBO_KEY = "routing.tie_shift"
"""Makes no other setting either: runs that differ in it alone are a policy and its placebos."""

_CODE = ("sources", "plugins")
"""What is compared when the code itself differs."""

SHORT_DIGEST = 8
"""Characters of a digest that are shown."""

Value = str | float | int | bool | None


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels of a list of runs, in its order.

    Attributes:
        policies: what each run is called in a comparison, such as ``"jsq"`` or ``"lpm + jsq"``.
        settings: per varying key (``"trace.rate_scale"``), the value of each run.
        parameters: likewise, of the keys that are part of the policies.
    """

    policies: list[str]
    settings: dict[str, list[Value]]
    parameters: dict[str, list[Value]]


def label_runs(
    runs: "Sequence[Run]", policy_keys: Sequence[str] = (), unit_keys: Sequence[str] = ()
) -> Labels:
    """Label runs by what varies among them.

    A key that only some options of a policy group have is a parameter of these policies; every
    other key is a setting.

    Args:
        runs: the jobs.
        policy_keys: keys such as ``"engine.max_num_seqs"`` that make different policies too.
        unit_keys: keys such as ``"trace.window_s"`` whose values are observations of one setting.

    Raises:
        ConfigError: no run has one of the keys.
    """
    for key in (*policy_keys, *unit_keys):
        if any(key in run.choices for run in runs):
            raise ConfigError(f"{key} is a config group: name a key, as in trace.rate_scale")
        if all(_value(run, key) is None for run in runs):
            raise ConfigError(f"no run has the key {key}: name it as in trace.rate_scale")
    rows = telling(runs)
    ignored = {PLACEBO_KEY, *unit_keys} - {*policy_keys}
    chosen = [runs[row].choices for row in rows]
    groups = [
        group
        for group in POLICY_GROUPS
        if _varies([choices[group] for choices in chosen if group in choices])
    ]
    named = [key for key in _overridden(runs) if key not in ignored]
    keys = list(dict.fromkeys([*named, *policy_keys]))
    values = {key: [_value(run, key) for run in runs] for key in keys}
    varying = [key for key in keys if _varies([values[key][row] for row in rows])]
    hidden = _hidden_differences(runs, rows, [values[key] for key in varying], ignored)
    values = {**hidden, **values}
    varying += [key for key in hidden if key not in varying]
    parameters = {
        key: values[key] for key in varying if key in policy_keys or _is_parameter(runs, key)
    }
    policies = [
        _policy(run, groups, {key: column[row] for key, column in parameters.items()})
        for row, run in enumerate(runs)
    ]
    settings = {key: values[key] for key in varying if key not in parameters}
    return Labels(policies, settings, parameters)


def telling(runs: "Sequence[Run]") -> list[int]:
    """Places of the runs that labels must tell apart: those with figures, else all."""
    return [row for row, run in enumerate(runs) if run.metrics] or list(range(len(runs)))


def names_of(runs: "Sequence[Run]") -> list[str]:
    """Names of the directories, with as many parents as it takes to tell them apart."""
    parts = [run.directory.parts for run in runs]
    depth = 1
    while depth < max(map(len, parts), default=1):
        if len({part[-depth:] for part in parts}) == len(runs):
            break
        depth += 1
    return ["/".join(part[-depth:]) for part in parts]


def _policy(run: "Run", groups: Sequence[str], parameters: Mapping[str, Value]) -> str:
    chosen = [run.choices[group] for group in groups if group in run.choices]
    name = " + ".join(chosen) or run.choices.get("routing", "all")
    given = [
        f"{key.rpartition('.')[2]}={shown_value(value)}"
        for key, value in parameters.items()
        if value is not None
    ]
    return " ".join([name, *given])


def _is_parameter(runs: "Sequence[Run]", key: str) -> bool:
    """Whether only some options of a policy group have this key."""
    group, _, name = key.partition(".")
    sections = [run.config.get(group) for run in runs if group in POLICY_GROUPS]
    has = [
        isinstance(section, Mapping) and name.partition(".")[0] in section for section in sections
    ]
    return any(has) and not all(has)


def shown_value(value: Value) -> str:
    """A value for a label; floats without trailing zeros."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _overridden(runs: "Sequence[Run]") -> list[str]:
    """Keys (no choices) that some command line named, in order of mention."""
    keys: dict[str, bool] = {}
    for run in runs:
        for key, text in _given(run).items():
            if key.partition(".")[0] not in NO_SETTING and key not in run.choices:
                keys[key] = keys.get(key, True) and text.startswith("{")
    found = [_parts(runs, key) if is_section else [key] for key, is_section in keys.items()]
    return list(dict.fromkeys(part for parts in found for part in parts))


def _parts(runs: "Sequence[Run]", key: str) -> list[str]:
    """The keys inside a section, where all runs have the same ones there; else the key itself."""
    found = [_at(run, key) for run in runs]
    first = found[0]
    if not isinstance(first, Mapping) or not first:
        return [key]
    if not all(isinstance(one, Mapping) and one.keys() == first.keys() for one in found):
        return [key]
    return [part for name in first for part in _parts(runs, f"{key}.{name}")]


def _given(run: "Run") -> dict[str, str]:
    """Keys and texts of the command line; deletions have no value."""
    pairs = (item.partition("=") for item in run.overrides if not item.startswith("~"))
    return {key.lstrip("+").partition("@")[0]: text for key, _, text in pairs}


def _at(run: "Run", key: str) -> Any:
    """What the configuration holds under a key; None where it has no such key."""
    at: Any = run.config
    for part in key.split("."):
        at = at.get(part) if isinstance(at, Mapping) else None
    return at


def _value(run: "Run", key: str) -> Value:
    """The value in the configuration, or as given where that is none or a container."""
    at = _at(run, key)
    if at is None or isinstance(at, Mapping | list):
        given = _given(run).get(key)
        if given is not None and given != "null":
            return given
        return None if at is None else canonical_json(at)
    return at  # type: ignore[no-any-return]


def _hidden_differences(
    runs: "Sequence[Run]",
    rows: Sequence[int],
    known: Sequence[Sequence[Value]],
    ignored: Collection[str],
) -> dict[str, list[Value]]:
    """Whatever else differs between runs that all labels and seeds call the same.

    Runs of different policies may differ in what belongs to policies, and in the source code.
    """
    identities = [
        {key: value for key, value in _identity(run).items() if key not in ignored} for run in runs
    ]
    found: dict[str, None] = {}
    for are_policies_equal in (True, False):

        def labels(row: int, with_policies: bool = are_policies_equal) -> str:
            chosen = {
                group: option
                for group, option in runs[row].choices.items()
                if with_policies or group not in POLICY_GROUPS
            }
            seed = runs[row].document.get("seed")
            return canonical_json([chosen, seed, *(column[row] for column in known)])

        for _, equal in groupby(sorted(rows, key=labels), labels):
            places = list(equal)
            same = [identities[row] for row in places]
            clusters = [runs[row].choices.get("cluster") for row in places]
            of_policies = {*POLICY_GROUPS, *_CODE} - (
                {"cluster"} if not _varies(clusters) else set()
            )
            for key in dict.fromkeys(key for identity in same for key in identity):
                is_policys = key.partition(".")[0] in of_policies
                if (are_policies_equal or not is_policys) and _varies(
                    [one.get(key) for one in same]
                ):
                    found[key] = None
    return {key: [identity.get(key) for identity in identities] for key in found}


def _identity(run: "Run") -> dict[str, Value]:
    """Every value of the configuration that decides a result, and digests of what it came from."""
    flat = {
        key: value
        for key, value in _leaves(run.config, "")
        if key.partition(".")[0] not in (*NO_SETTING, "choices")
    }
    provenance = run.document.get("provenance") or {}
    for name in ("trace", "hardware", "model"):
        digest = (provenance.get(name) or {}).get("sha256")
        flat[f"{name}.sha256"] = digest and str(digest)[:SHORT_DIGEST]
    sources = provenance.get("sources_sha256")
    flat["sources"] = sources and str(sources)[:SHORT_DIGEST]
    plugins = provenance.get("plugins_sha256") or {}
    flat["plugins"] = sha256_of(plugins)[:SHORT_DIGEST] if plugins else None
    return flat


def _leaves(section: Mapping[str, Any], prefix: str) -> list[tuple[str, Value]]:
    found: list[tuple[str, Value]] = []
    for key, value in section.items():
        if isinstance(value, Mapping):
            found += _leaves(value, f"{prefix}{key}.")
        else:
            found.append(
                (prefix + key, canonical_json(value) if isinstance(value, list) else value)
            )
    return found


def _varies(values: Sequence[Value]) -> bool:
    return any(value != values[0] for value in values[1:])
