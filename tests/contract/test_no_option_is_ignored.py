"""Every key that may be set changes the figures of a run that it should change."""

import functools
import json
from pathlib import Path

import pytest

from experiments.composing import compose_config
from experiments.job import simulate_job
from experiments.results.json_text import json_text
from experiments.schema.job import read_job
from sim.errors import ConfigError
from tests.contract.options import composed, options_in
from tests.contract.test_kv_tiers_options import CHANGES as CHANGES_TIERS
from tests.unit.hwmodels.tables.toy_tables import points, table_of

BASE = (
    "trace=sessions",
    "trace.num_requests=80",
    "trace.rate_per_s=100",
    "trace.think_time_s=0.5",
    "trace.user=20-200",
    "trace.output=1-120",
    "trace.num_system_prompts=3",
    "trace.system_prompt_tokens=300",
    "cluster.num_instances=3",
    "routing=least_requests",
)

CHANGES = {
    "seed": "seed=1",
    "model": "model=qwen2_5_7b",
    "hardware": "hardware=h100_sxm",
    "hardware.fidelity": "hardware.fidelity=calibrated",
    "kernel.name": "kernel=flashinfer",
    "kernel.family": "kernel.family=padded",
    "kernel.member_order": "kernel.member_order=contiguous",
    "kernel.mixed_batch": "kernel.mixed_batch=separate",
    "cluster.num_instances": "cluster.num_instances=2",
    "cluster.tensor_parallel": "cluster.tensor_parallel=2",
    "engine.max_num_seqs": "engine.max_num_seqs=2",
    "engine.max_num_batched_tokens": "engine.max_num_batched_tokens=64",
    "engine.async_scheduling": "engine.async_scheduling=true",
    "engine.prefix_caching": "engine.prefix_caching=false",
    "engine.block_tokens": "engine.block_tokens=64",
    "engine.num_gpu_blocks": "engine.num_gpu_blocks=150",
    "engine.gpu_memory_utilization": "engine.gpu_memory_utilization=0.5",
    "engine.max_model_len": "engine.max_model_len=500",
    "routing": "routing=random",
    "routing.view_delay_s": "routing.view_delay_s=0.5",
    "routing.publish_period_s": "routing.publish_period_s=0.5",
    "routing.tie_shift": "routing.tie_shift=1",
    "admission": "admission=token_bucket|admission.burst_tokens=600",
    "frontend.enabled": "frontend.enabled=true",
    "scheduler.enabled": "scheduler.enabled=true",
    "slo.ttft_s": "slo.ttft_s=0.001",
    "slo.tpot_s": "slo.tpot_s=0.001",
    "trace.limit": "trace.limit=40",
    "trace.window_s": "trace.window_s=0.3",
    "trace.rate_scale": "trace.rate_scale=2",
    "trace.sample": "trace.sample=0.5",
    "trace.scale_prompt": "trace.scale_prompt=2",
    "trace.scale_output": "trace.scale_output=2",
    "trace.max_output_tokens": "trace.max_output_tokens=30",
    "trace.max_prompt_tokens": "trace.max_prompt_tokens=400",
    "trace.strip_prefixes": "trace.strip_prefixes=true",
    "trace.copies": "trace.copies=2",
    "trace.poissonise": "trace.poissonise=true",
    "trace.replay_concurrency": "trace.replay_concurrency=4",
    "trace.load": "trace.load=0.5",
    "trace.flood": "trace.flood=true",
    "trace.warmup_s": "trace.warmup_s=0.3",
    "trace.warmup_requests": "trace.warmup_requests=20",
    "replications": "replications=2",
    "trace.num_sessions": "trace.num_requests=null|trace.num_sessions=10",
    "trace.num_requests": "trace.num_requests=70",
    "trace.rate_per_s": "trace.rate_per_s=50",
    "trace.turns": "trace.turns=3",
    "trace.user": "trace.user=50",
    "trace.output": "trace.output=50",
    "trace.think_time_s": "trace.think_time_s=1",
    "trace.service_s_per_token": "trace.service_s_per_token=0.05",
    "trace.num_system_prompts": "trace.num_system_prompts=1",
    "trace.system_prompt_tokens": "trace.system_prompt_tokens=0",
    "trace.steady": "trace.steady=false",
    "trace.arrivals": "trace.arrivals=constant",
    "trace.closed_loop": "trace.closed_loop=true",
    "trace.system_prompt_skew": "trace.system_prompt_skew=3",
}
"""Changed key -> overrides that change it."""

CHANGES_BESIDE = {
    "frontend.delay_s": ("frontend.enabled=true", "frontend.delay_s=0.02"),
    "frontend.request_s": ("frontend.enabled=true", "frontend.request_s=0.002"),
    "frontend.token_s": ("frontend.enabled=true", "frontend.token_s=2e-6"),
    "frontend.hash_block_s": ("frontend.enabled=true", "frontend.hash_block_s=1e-5"),
    "frontend.output_token_s": ("frontend.enabled=true", "frontend.output_token_s=2e-4"),
    "trace.copy_offsets": ("trace.copies=2", "trace.copy_offsets=even"),
    "routing.assume_dispatches": (
        "routing.view_delay_s=0.5",
        "routing.assume_dispatches=true",
    ),
    "trace.replay_think_time_s": ("trace.replay_concurrency=4", "trace.replay_think_time_s=1"),
}
"""Changed key -> the override that it needs, and the one that changes it."""

CHANGES_NO_FIGURE = {
    "engine.macro_steps",
    "check",
    "output.steps",
    "output.timeline",
    "output.decisions",
    "model.max_context_tokens",
    "trace.anonymise",
    "trace.shift_s",
}
"""A reference path, checks, further files, other names and a later start; tested where they act."""

DECIDES_WHAT_RUNS = {"hardware.allow_transfer"}
"""Without it the job is refused, with it elsewhere too; tested where it acts."""

NAMES_A_SOURCE = {"model.name", "model.path", "hardware.profile", "hardware.path"}
"""Changed through the option of the group."""

NEEDS_A_FILE = {"hardware.table"}
"""Changed below, with files made there."""


@functools.cache
def figures(*overrides: str) -> str:
    return json_text(simulate_job(*compose_config([*BASE, *overrides])).metrics)


@pytest.mark.parametrize("key", CHANGES)
def test_a_key_changes_the_figures(key: str) -> None:
    assert figures(*CHANGES[key].split("|")) != figures()


@pytest.mark.parametrize("key", CHANGES_BESIDE)
def test_a_key_changes_the_figures_beside_another(key: str) -> None:
    needed, change = CHANGES_BESIDE[key]
    assert figures(needed, change) != figures(needed)


def test_every_key_of_the_configuration_is_covered() -> None:
    config = compose_config(BASE)[0]
    keys = {
        f"{section}.{key}" if isinstance(value, dict) else section
        for section, value in config.items()
        for key in (value if isinstance(value, dict) else [section])
        if key != "_target_"
    }
    covered = set(CHANGES) | set(CHANGES_BESIDE) | {f"scheduler.{k}" for k in CHANGES_SCHEDULER}
    covered |= {f"kv_tiers.{k}" for k in CHANGES_TIERS}
    elsewhere = CHANGES_NO_FIGURE | DECIDES_WHAT_RUNS | NAMES_A_SOURCE | NEEDS_A_FILE
    assert keys - covered == elsewhere


def test_the_table_of_measured_points_changes_the_figures(tmp_path: Path) -> None:
    found = {figures("hardware.fidelity=calibrated_l2")}
    for kernel in ("gemm", "decode_attention"):
        measured = [points(kernel, lambda _: 1.2)]
        path = tmp_path / f"{kernel}.json"
        path.write_text(table_of(*measured, device="a100_sxm_80gb").to_text())
        found.add(figures("hardware.fidelity=table", f"hardware.table={path}"))
    assert len(found) == 3


def test_every_kernel_gives_figures_of_its_own() -> None:
    """On one instance whose requests all share a prompt, so that a cascade is used."""
    alike = ("cluster.num_instances=1", "trace.num_system_prompts=1")
    found = {option: figures(*alike, f"kernel={option}") for option in options_in("kernel")}
    assert found.pop("auto") == found["flash"]
    assert len(set(found.values())) == len(found) == 5


QUEUE = ("cluster.num_instances=1", "engine.num_gpu_blocks=150", "trace.num_system_prompts=12")
"""Some wait, and so an order of the queue matters."""

CHANGES_SCHEDULER = {
    "token_compared_s": ("lpm", "1e-6"),
    "node_visit_s": ("lpm", "1e-4"),
    "candidate_s": ("lof", "1e-4"),
    "key_hashed_s": ("hash_tree", "1e-3"),
    "token_hashed_s": ("hash_tree", "1e-5"),
    "heap_operation_s": ("hash_tree", "1e-3"),
    "request_s": ("fcfs", "1e-4"),
    "language_factor": ("lpm", "20"),
}
"""Changed key of the scheduler's costs -> a policy that counts such operations, and its value."""


@pytest.mark.parametrize("key", CHANGES_SCHEDULER)
def test_a_cost_of_the_scheduler_changes_the_figures(key: str) -> None:
    policy, value = CHANGES_SCHEDULER[key]
    base = (*QUEUE, "scheduler.enabled=true", f"batching={policy}")
    assert figures(*base, f"scheduler.{key}={value}") != figures(*base)


CHANGES_ORDERS = {
    ("lpm", "max_waiting"): "3",
    ("lpm", "check_tokens"): "400",
    ("lpm", "defer_tokens"): "1000",
    ("shortest_prefill", "check_tokens"): "400",
    ("shortest_prefill", "defer_tokens"): "1000",
    ("random", "seed"): "5",
}
"""Changed key of an order of the queue -> its value."""


@pytest.mark.parametrize(("option", "key"), CHANGES_ORDERS)
def test_a_key_of_an_order_changes_the_figures(option: str, key: str) -> None:
    base = (*QUEUE, f"batching={option}")
    assert figures(*base, f"batching.{key}={CHANGES_ORDERS[option, key]}") != figures(*base)


@pytest.mark.parametrize("option", ["lpm", "dfs_weight", "lof", "random", "shortest_prefill"])
def test_every_key_of_an_order_is_covered(option: str) -> None:
    keys = set(composed("batching", option)["batching"]) - {"_target_"}
    assert keys == {key for name, key in CHANGES_ORDERS if name == option}


SGLANG = (
    "engine=sglang",
    "engine.num_gpu_blocks=3000",
    "engine.init_new_token_ratio=0.3",
    "cluster.num_instances=1",
)
"""Retracts, so that what decides about it matters."""

CHANGES_SGLANG = {
    "max_num_seqs": "4",
    "max_num_batched_tokens": "64",
    "max_prefill_tokens": "100",
    "schedule_conservativeness": "0.1",
    "init_new_token_ratio": "0.5",
    "min_new_token_ratio_factor": "1",
    "new_token_ratio_decay_steps": "5",
    "retract_decode_steps": "200",
    "clip_max_new_tokens": "20",
    "prefix_caching": "false",
    "num_gpu_blocks": "4000",
    "max_model_len": "500",
}
"""Changed key of engine=sglang -> its value."""


@pytest.mark.parametrize("key", CHANGES_SGLANG)
def test_a_key_of_sglang_changes_the_figures(key: str) -> None:
    assert figures(*SGLANG, f"engine.{key}={CHANGES_SGLANG[key]}") != figures(*SGLANG)


def test_the_memory_share_of_sglang_changes_the_figures() -> None:
    smaller = figures("engine=sglang", "engine.gpu_memory_utilization=0.3")
    assert smaller != figures("engine=sglang")


def test_every_key_of_sglang_is_covered() -> None:
    keys = set(composed("engine", "sglang")["engine"]) - {"_target_"}
    tested_elsewhere = {"gpu_memory_utilization", "macro_steps", "block_tokens"}
    assert keys == set(CHANGES_SGLANG) | tested_elsewhere


@pytest.mark.parametrize(
    ("option", "change"),
    [
        ("synthetic", "trace.num_requests=70"),
        ("synthetic", "trace.rate_per_s=3"),
        ("synthetic", "trace.prompt=70"),
        ("synthetic", "trace.output=70"),
        ("synthetic", 'trace.arrivals="constant"'),
        ("prefix_groups", "trace.num_groups=2"),
        ("prefix_groups", "trace.prefix_tokens=70"),
        ("prefix_groups", "trace.skew=2"),
        ("prefix_groups", "trace.suffix=70"),
        ("prefix_groups", "trace.output=70"),
        ("prefix_groups", 'trace.arrivals="constant"'),
        ("prefix_groups", "trace.deviating_ratio=0.5"),
        ("prefix_groups", "trace.deviating_ratio=0.5|trace.deviate_after=0.2"),
        ("prefix_groups", "trace.warm_start_s=70"),
        ("prefix_tree", "trace.num_requests=70"),
        ("prefix_tree", "trace.rate_per_s=3"),
        ("prefix_tree", 'trace.arrivals="constant"'),
        ("prefix_tree", "trace.fan_out=[1,2,3]"),
        ("prefix_tree", "trace.level_tokens=[1,2,3]"),
        ("prefix_tree", "trace.skew=2"),
        ("prefix_tree", "trace.suffix=70"),
        ("prefix_tree", "trace.output=70"),
    ],
)
def test_a_key_of_another_trace_changes_its_rows(option: str, change: str) -> None:
    config = composed("trace", option)
    tables = [read_job(config).trace.build().load(0)]
    for single in change.split("|"):
        key, value = single.removeprefix("trace.").split("=")
        config["trace"][key] = json.loads(value)
        tables.append(read_job(config).trace.build().load(0))
    before, after = tables[-2:]
    columns = ("arrival_s", "prompt_tokens", "output_tokens")
    is_same = all(
        getattr(before, name).tobytes() == getattr(after, name).tobytes() for name in columns
    )
    if is_same:
        assert before.runs is not None
        assert after.runs is not None
        is_same = all(
            getattr(before.runs, name).tobytes() == getattr(after.runs, name).tobytes()
            for name in ("ids", "tokens")
        )
    assert not is_same


@pytest.mark.parametrize("option", options_in("routing"))
@pytest.mark.parametrize("change", ["view_delay_s", "publish_period_s"])
def test_the_age_of_the_view_is_refused_by_routers_that_do_not_look(
    option: str, change: str
) -> None:
    config = composed("routing", option)
    config["routing"] |= {"view_delay_s": 0.0, "publish_period_s": 0.0, change: 0.3}
    if option in ("random", "round_robin"):
        with pytest.raises(ConfigError, match=f"routing.{change}=0.3 has no effect"):
            read_job(config)
        return
    job = read_job(config)
    is_looking = job.routing.load_class().looks_at_cluster
    assert (is_looking, getattr(job.routing_options, change)) == (True, 0.3)
