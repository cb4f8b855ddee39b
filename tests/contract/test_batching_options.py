"""Every key of Feather and its relatives changes the figures of a run that it should change."""

import functools
from pathlib import Path

import pytest

from experiments.composing import compose_config
from experiments.job import simulate_job
from experiments.results.json_text import json_text
from tests.contract.options import composed

BASE = (
    "trace=prefix_groups",
    "trace.num_requests=150",
    "trace.num_groups=4",
    "trace.prefix_tokens=700",
    "trace.suffix=20-400",
    "trace.output=1-60",
    "trace.deviating_ratio=0.3",
    "trace.rate_per_s=200",
    "cluster.num_instances=1",
    "engine.max_num_seqs=24",
    "engine.num_gpu_blocks=900",
    "hardware.fidelity=roofline",
    "slo.tpot_s=0.02",
)
"""Groups that some requests leave, a queue, and a cache that is nearly full."""

CHANGES = {
    "feather": {
        "chunk_tokens": "200",
        "learner": "q_learning",
        "reward": "exclude_prefill",
        "exploration": "5",
        "alpha": "0.9",
        "gamma": "0.1",
        "epsilon": "0.5",
        "max_wait_s": "0.2",
        "seed": "7",
    },
    "feather_heuristic": {
        "chunk_tokens": "200",
        "loss_ceiling": "0",
        "high_loss_ceiling": "6",
        "many_sharing": "0",
        "max_floor": "2",
    },
    "hash_tree": {"chunk_tokens": "100", "max_missing_chunks": "0"},
    "radix_cost": {"max_missing_tokens": "300"},
    "oracle": {"group_nodes": "2"},
    "dynamic_batching": {
        "tpot_slo_s": "1",
        "memory_ratio": "0.5",
        "tolerance": "2",
        "window_steps": "4",
        "min_batch": "6",
        "max_batch": "12",
        "narrow_by": "4",
        "widen_by": "40",
    },
}
"""Option -> key -> its value."""

BESIDE = {
    "alpha": ("batching.learner=q_learning",),
    "gamma": ("batching.learner=q_learning", "batching.epsilon=0.5"),
    "epsilon": ("batching.learner=q_learning",),
    "seed": ("batching.learner=q_learning", "batching.epsilon=0.5"),
    "high_loss_ceiling": ("batching.many_sharing=1",),
}
"""Key -> overrides without which it does not act."""

WITH_FILES = {"learn", "state_in", "state_out"}
"""Keys of Feather that are tested below."""

KEYS = [(option, key) for option, changes in CHANGES.items() for key in changes]


@functools.cache
def figures(*overrides: str) -> str:
    return json_text(simulate_job(*compose_config([*BASE, *overrides])).metrics)


@pytest.mark.parametrize(("option", "key"), KEYS)
def test_a_key_changes_the_figures(option: str, key: str) -> None:
    chosen = (f"batching={option}", *BESIDE.get(key, ()))
    changed = (*chosen, f"batching.{key}={CHANGES[option][key]}")
    assert figures(*changed) != figures(*chosen)


@pytest.mark.parametrize("option", CHANGES)
def test_every_key_is_covered(option: str) -> None:
    keys = set(composed("batching", option)["batching"]) - {"_target_"}
    assert keys == set(CHANGES[option]) | (WITH_FILES if option == "feather" else set())


def test_every_policy_gives_figures_of_its_own() -> None:
    options = ("fcfs", *CHANGES)
    assert len({figures(f"batching={option}") for option in options}) == len(options)


def test_a_table_that_was_learned_changes_the_figures_of_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    untaught = figures("batching=feather")
    assert figures("batching=feather", f"batching.state_out={path}") == untaught
    taught = figures("batching=feather", f"batching.state_in={path}")
    fixed = figures("batching=feather", f"batching.state_in={path}", "batching.learn=false")
    assert len({untaught, taught, fixed}) == 3


@pytest.mark.parametrize("option", CHANGES)
def test_the_invariants_hold_when_groups_overload_the_cache(option: str) -> None:
    checked = figures(f"batching={option}", "check=true")
    assert checked == figures(f"batching={option}")
    assert '"num_unfinished": 0' in checked
