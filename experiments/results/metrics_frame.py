"""One table of all runs: labels, then every metric; one row per run and replication."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from experiments.results.job_key import sha256_of
from experiments.results.labels import PLACEBO_KEY, POLICY_GROUPS, label_runs, names_of, telling
from experiments.results.warmup import counted

if TYPE_CHECKING:
    import pandas as pd

    from experiments.results.load import Run

LABELS = (
    *("run", "status", "regime", "seed", "replication", "tie_shift", "load", "users", "policy"),
    "offered_rate_per_s",
)
"""Columns that are no metrics, besides the config groups and the varying keys, which stand before
the last one."""

CLOSED_LOOP = "closed_loop"
"""Regime, and flag, of a run whose requests are sent by a fixed number of users."""

_LOAD_DIGITS = 12
"""Of the digest of a trace: enough to tell the traces of a comparison apart."""


def metrics_frame(
    runs: "Sequence[Run]", policy_keys: Sequence[str] = (), unit_keys: Sequence[str] = ()
) -> "pd.DataFrame":
    """Labels and metrics of runs.

    Args:
        runs: the jobs, those that could not run included.
        policy_keys: keys that make different policies instead of different settings.
        unit_keys: keys whose values are observations of one setting, as seeds are.

    Returns:
        One row per (run, replication): `run` (name of the directory), `status`, `regime`, `seed`,
        `replication`, `tie_shift` (above the least of its policy and setting: a placebo), `load`
        (a digest of the trace that it saw), `users` (how many send the requests in a closed loop,
        else NaN), `policy`, one column per config group (the choice), one per key that varies,
        `offered_rate_per_s` (arrivals / span of the arrivals; NaN if that is 0 and in a closed
        loop), and every metric of result.json (NaN where null). `attrs` holds `groups`, `settings`
        (the columns that tell settings apart) and `metrics`: lists of column names.
    """
    observations = [_observations(run) for run in runs]
    return frame_of(runs, observations, policy_keys, unit_keys=unit_keys)


def frame_of(
    runs: "Sequence[Run]",
    observations: Sequence[Sequence[Mapping[str, Any]]],
    policy_keys: Sequence[str] = (),
    extra_settings: Sequence[str] = (),
    unit_keys: Sequence[str] = (),
) -> "pd.DataFrame":
    """Labels of runs beside figures of any kind; see `metrics_frame` for the columns.

    Args:
        runs: the jobs.
        observations: per run, its rows: `seed`, `replication`, `regime`, `offered_rate_per_s`,
            the columns named by `extra_settings`, and figures.
        policy_keys: keys that make different policies instead of different settings.
        extra_settings: columns of the observations that tell settings apart.
        unit_keys: keys whose values are observations of one setting.
    """
    import pandas as pd

    labels, run_names = label_runs(runs, policy_keys, unit_keys), names_of(runs)
    varying = {**labels.settings, **labels.parameters}
    groups = list(dict.fromkeys(group for run in runs for group in sorted(run.choices)))
    rows: list[dict[str, Any]] = []
    for index, run in enumerate(runs):
        head: dict[str, Any] = {
            "run": run_names[index],
            "status": run.status,
            "tie_shift": _tie_shift_of(run),
            "load": load_of(run),
            "users": users_of(run),
            "policy": labels.policies[index],
            **{group: run.choices.get(group) for group in groups},
            **{key: column[index] for key, column in varying.items()},
        }
        rows += [{**head, **row} for row in observations[index]]
    observed = dict.fromkeys(key for several in observations for row in several for key in row)
    figures = [name for name in observed if name not in (*LABELS, *extra_settings)]
    columns = [*LABELS[:-1], *groups, *varying, *extra_settings, LABELS[-1], *figures]
    frame = pd.DataFrame(rows, columns=columns)
    numbers = ["users", LABELS[-1], *figures]
    frame[numbers] = frame[numbers].astype(float)
    frame.attrs = {
        "groups": groups,
        "settings": [*_varying_groups(runs, groups), *labels.settings, *extra_settings],
        "metrics": figures,
    }
    return frame


def _varying_groups(runs: "Sequence[Run]", groups: Sequence[str]) -> list[str]:
    """Groups whose choice is no policy, but differs among runs."""
    rows = telling(runs)
    return [
        group
        for group in groups
        if group not in POLICY_GROUPS and len({runs[row].choices.get(group) for row in rows}) > 1
    ]


def is_plain(frame: "pd.DataFrame") -> "pd.Series[bool]":
    """Which rows are no placebos: of equal policies and settings those of the least tie shift."""
    keys = [frame[key].map(str) for key in ("policy", *frame.attrs["settings"])]
    least = frame["tie_shift"].groupby(keys).transform("min")
    found: pd.Series[bool] = frame["tie_shift"] == least
    return found


def _tie_shift_of(run: "Run") -> int:
    section, _, key = PLACEBO_KEY.partition(".")
    shift: int = (run.config.get(section) or {}).get(key) or 0
    return shift


def load_of(run: "Run") -> str:
    """Digest of the trace that a run saw: its file or generator, options and transforms."""
    return sha256_of((run.document.get("provenance") or {}).get("trace"))[:_LOAD_DIGITS]


def users_of(run: "Run") -> int | None:
    """How many users send the requests of a run, each the next when the last one has ended.

    None where requests arrive whatever the cluster does.
    """
    for flag in run.document.get("flags") or []:
        if flag.get("flag") == CLOSED_LOOP:
            users: int | None = flag.get("concurrency")
            return users
    replayed: int | None = (run.config.get("trace") or {}).get("replay_concurrency")
    return replayed


def is_closed_loop(run: "Run") -> bool:
    """Whether a fixed number of users sends the requests: then no rate is offered."""
    return run.document.get("regime") == CLOSED_LOOP or users_of(run) is not None


def replications_of(run: "Run") -> list[dict[str, Any]]:
    """Replications of a run: `replication`, `seed`, `regime` and `metrics` of each."""
    document = run.document
    alone = {"replication": 0, "seed": document.get("seed"), "regime": document.get("regime")}
    return document.get("replications") or [{**alone, "metrics": dict(run.metrics)}]


def offered_rates(run: "Run") -> dict[int, float]:
    """Arrivals / span of the arrivals, per second, of each replication; counted requests only.

    None of a closed loop: there the cluster decides when requests arrive.
    """
    if is_closed_loop(run):
        return {}
    table = run.read_table("requests.parquet", ["request_id", "arrival_s", "replication"])
    if table is None:
        return {}
    rates: dict[int, float] = {}
    for replication, rows in by_replication(counted(table, run.config)):
        arrival_s = rows["arrival_s"]
        span_s = float(arrival_s.max() - arrival_s.min()) if len(rows) else 0.0
        if span_s > 0:
            rates[replication] = len(rows) / span_s
    return rates


def by_replication(table: "pd.DataFrame") -> "list[tuple[int, pd.DataFrame]]":
    """Rows of each replication; a file without that column holds one."""
    if "replication" not in table.columns:
        return [(0, table)]
    return [(int(str(key)), rows) for key, rows in table.groupby("replication")]


def _observations(run: "Run") -> list[dict[str, Any]]:
    rates = offered_rates(run)
    return [
        {
            "seed": one["seed"],
            "replication": one["replication"],
            "regime": one["regime"],
            "offered_rate_per_s": rates.get(one["replication"]),
            **one["metrics"],
        }
        for one in replications_of(run)
    ]
