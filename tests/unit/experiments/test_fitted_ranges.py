"""Flags of kernels that are asked beyond their measurements."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from experiments.compare.caveats import flags as caveats
from experiments.composing import compose_config
from experiments.job import JobRun, simulate_job
from experiments.results import fitted_ranges
from experiments.results.fitted_ranges import range_flags
from experiments.results.flags import is_told
from experiments.results.kernel_seconds import kernel_times
from experiments.results.run_shapes import run_shapes
from experiments.results.tables import run_columns
from hwmodels.calibrated_ledger import CalibratedLedger
from sim.interfaces import DecodeBatchView, PrefillChunk

WIDE = (0.0, 1e15)
TRACE = ("trace=sessions", "trace.limit=60", "cluster.num_instances=2", "output.steps=true")
Ranges = Mapping[str, Mapping[str, tuple[float, float]]]


@cache
def simulated(*overrides: str) -> JobRun:
    return simulate_job(*compose_config([*TRACE, *overrides]))


def found(run: JobRun, ranges: Ranges, source: str = "rows") -> dict[str, dict[str, Any]]:
    """Flags by kernel if the kernels had been fitted to these ranges and no others stated."""
    kernels = run.deployment.spec.cost.kernels_in_use  # type: ignore[attr-defined]
    records = {name: SimpleNamespace(valid=ranges.get(name, {}), source=source) for name in kernels}
    device = SimpleNamespace(kernels=SimpleNamespace(provenance=records))
    deployed = run.deployment
    deployment: Any = SimpleNamespace(spec=deployed.spec, gpu_cost=deployed.gpu_cost, device=device)
    return {flag["kernel"]: flag for flag in range_flags(run.result, deployment)}


def column(run: JobRun, name: str) -> Any:
    """A column of the runs of steps, a cost term or a number, all instances together."""
    parts = [run_columns(instance)[name] for instance in run.result.instances]
    return np.concatenate(parts).astype(float)


def busy_s(run: JobRun) -> float:
    return float((column(run, "end_s") - column(run, "start_s")).sum())


def decode_steps(run: JobRun) -> list[tuple[float, float]]:
    """(mean context, seconds of attention) of every step that only decodes, one by one."""
    steps: list[tuple[float, float]] = []
    names = ("num_decodes", "num_prefills", "num_steps", "context_tokens", "attention_decode_s")
    for decodes, prefills, count, total, seconds in zip(
        *(column(run, name) for name in names), strict=True
    ):
        if decodes and not prefills:
            steps += [(total / decodes + step, seconds / count) for step in range(int(count))]
    return steps


def test_nothing_is_said_inside_the_ranges() -> None:
    run = simulated()
    names = ("batch_size", "context_tokens", "chunk_tokens", "prefix_tokens", "m", "n", "k")
    wide = dict.fromkeys(names, WIDE)
    kernels = ("gemm", "decode_attention", "prefill_attention", "mixed_attention")
    assert found(run, dict.fromkeys(kernels, wide)) == {}


def test_the_roofline_has_no_ranges() -> None:
    run = simulated("hardware.fidelity=roofline")
    assert not [flag for flag in run.document["flags"] if "outside" in flag["flag"]]


def test_steps_outside_are_counted_one_by_one() -> None:
    run = simulated()
    steps = decode_steps(run)
    contexts = [context for context, _ in steps]
    low, high = (float(bound) + 0.5 for bound in np.percentile(contexts, [20, 70]).round())
    flag = found(run, {"decode_attention": {"context_tokens": (low, high)}})["decode_attention"]
    outside_s = sum(seconds for context, seconds in steps if not low <= context <= high)
    assert 0.02 < outside_s / busy_s(run) < 0.9
    assert flag["share_ratio"] == pytest.approx(outside_s / busy_s(run))
    (argument,) = flag["arguments"]
    assert argument["reached"] == pytest.approx([min(contexts), max(contexts)])
    assert flag["text"].startswith("decode_attention is priced outside its fitted range in ")
    assert "mean context down to " in flag["text"]
    assert " and up to " in flag["text"]


def test_steps_outside_by_two_arguments_count_once() -> None:
    run = simulated()
    beyond = {"batch_size": (1000.0, 2000.0), "context_tokens": (1e6, 2e6)}
    flag = found(run, {"decode_attention": beyond})["decode_attention"]
    shares = [one["share_ratio"] for one in flag["arguments"]]
    assert shares[0] == shares[1] == pytest.approx(flag["share_ratio"])
    assert flag["text"].count("fitted from") == 2


def test_a_product_that_is_too_wide_counts_by_its_own_time() -> None:
    run = simulated()
    shape, device = run.deployment.shape, run.deployment.device
    flag = found(run, {"gemm": {"n": (1.0, shape.vocab_size - 1.0)}})["gemm"]
    shapes = run_shapes(run.result)
    rows = shapes.num_decodes + shapes.num_chunks
    product_s = device.gemm_time_s(rows, shape.vocab_size, shape.hidden_size)
    outside_s = float((shapes.num_steps * product_s).sum())
    assert flag["share_ratio"] == pytest.approx(outside_s / float(shapes.duration_s.sum()))
    assert flag["text"].endswith("width of a product up to 128,256 (fitted to 128,255)")


def test_products_of_every_layer_count() -> None:
    run = simulated()
    (argument,) = found(run, {"gemm": {"k": (1.0, 14335.0)}})["gemm"]["arguments"]
    shapes, shape = run_shapes(run.result), run.deployment.shape
    down_s = run.deployment.device.gemm_time_s(shapes.num_tokens, shape.hidden_size, 14336)
    outside_s = shape.num_layers * float((shapes.num_steps * down_s).sum())
    assert argument["share_ratio"] == pytest.approx(outside_s / float(shapes.duration_s.sum()))


def test_heads_of_the_model_concern_every_step_of_the_kernel() -> None:
    run = simulated()
    flag = found(run, {"decode_attention": {"num_kv_heads": (16.0, 64.0)}})["decode_attention"]
    outside_s = sum(seconds for _, seconds in decode_steps(run))
    assert flag["share_ratio"] == pytest.approx(outside_s / busy_s(run))
    assert flag["text"].endswith("KV heads down to 8 (fitted from 16)")


def test_messages_grow_with_the_tokens_of_a_step() -> None:
    run = simulated("cluster.tensor_parallel=2")
    flag = found(run, {"all_reduce": {"num_bytes": (1.0, 8191.0), "num_gpus": (2.0, 8.0)}})
    (argument,) = flag["all_reduce"]["arguments"]
    largest = max(int(shapes) for shapes in run_shapes(run.result).num_tokens)
    assert argument["reached"] == [8192.0, 8192.0 * largest]
    collective_s = float(column(run, "collective_s").sum())
    # Logits are gathered, not reduced.
    assert 0.9 < argument["share_ratio"] * busy_s(run) / collective_s < 1.0


def test_experts_have_ranges_too() -> None:
    run = simulated("model=qwen3_30b_a3b", "trace.limit=10")
    sizes = {"num_experts": (1.0, 64.0), "top_k": (1.0, 8.0)}
    (argument,) = found(run, {"moe": sizes})["moe"]["arguments"]
    assert argument["argument"] == "num_experts"
    assert 0.1 < argument["share_ratio"] < column(run, "gemm_s").sum() / busy_s(run)


@pytest.mark.parametrize("model", ["llama3_8b", "qwen3_30b_a3b"])
def test_the_seconds_of_kernels_are_those_of_the_ledger(model: str) -> None:
    run = simulated(f"model={model}", "trace.limit=20", "cluster.tensor_parallel=2")
    cost: Any = run.deployment.spec.cost
    times = kernel_times(cost, run_shapes(run.result))
    attention_s = column(run, "attention_decode_s") + column(run, "attention_prefill_s")
    is_decode = column(run, "num_prefills") == 0  # elsewhere not every chunk makes logits
    assert times["attention"][is_decode] == pytest.approx(attention_s[is_decode], abs=1e-12)
    gemm_s = (times["gemm"] + times["moe"])[is_decode]
    assert gemm_s == pytest.approx(column(run, "gemm_s")[is_decode])
    assert times["attention"].sum() == pytest.approx(attention_s.sum(), rel=0.01)
    for name, term in (("small_ops", "small_ops_s"), ("all_reduce", "collective_s")):
        assert 0.8 < times[name].sum() / column(run, term).sum() < 1.0


@pytest.mark.parametrize("mixed_batch", ["fused_varlen", "separate"])
@pytest.mark.parametrize("lag", ["false", "true"])
def test_a_chunk_after_other_tokens_is_known_from_the_records(
    mixed_batch: str, lag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The largest prefix of every step with chunks, as the pricing saw it."""
    noted: list[tuple[CalibratedLedger, int]] = []

    def spy(ledger: CalibratedLedger, batch: DecodeBatchView, chunks: list[PrefillChunk]) -> float:
        noted.append((ledger, max(prefix for _, prefix, _ in chunks)))
        return price(ledger, batch, chunks)

    price = CalibratedLedger.mixed_step_s
    monkeypatch.setattr(CalibratedLedger, "mixed_step_s", spy)
    run = simulate_job(
        *compose_config(
            [
                *TRACE,
                f"kernel.mixed_batch={mixed_batch}",
                f"engine.async_scheduling={lag}",
                "engine.max_num_batched_tokens=512",
                "cluster.num_instances=1",
                "trace.rate_scale=0.2",
            ]
        )
    )
    shapes = run_shapes(run.result, run.deployment.spec.rules.lag)
    seen = np.array([prefix for _, prefix in noted], dtype=float)
    worked_out = shapes.prefix_tokens[shapes.num_chunks > 0]
    assert len(seen) == len(worked_out) > 50
    assert 0.1 < (seen > 0).mean() < 1.0
    assert ((seen > 0) == (worked_out > 0)).all()
    assert np.abs(worked_out - seen).mean() < 0.05 * seen.mean()


def test_chunks_without_measured_prefixes_are_told_so() -> None:
    run = simulated("kernel.mixed_batch=separate")
    flag = found(run, {"prefill_attention": {"prefix_tokens": (0.0, 0.0)}})["prefill_attention"]
    assert flag["text"].endswith(" (fitted without any)")
    shapes = run_shapes(run.result)
    attention_s = column(run, "attention_decode_s") + column(run, "attention_prefill_s")
    outside_s = float(attention_s[shapes.prefix_tokens > 0].sum())
    assert flag["share_ratio"] == pytest.approx(outside_s / busy_s(run), rel=0.01)


def test_fused_chunks_are_asked_of_the_mixed_kernel() -> None:
    run = simulated()
    beyond = {"chunk_tokens": (1e6, 2e6)}
    flags = found(run, {"prefill_attention": beyond, "mixed_attention": beyond})
    shapes = run_shapes(run.result)
    has_both = (shapes.num_chunks > 0) & (shapes.num_decodes > 0)
    alone = (shapes.num_chunks > 0) & (shapes.num_decodes == 0)
    attention_s = column(run, "attention_decode_s") + column(run, "attention_prefill_s")
    assert flags["mixed_attention"]["share_ratio"] == pytest.approx(
        attention_s[has_both].sum() / busy_s(run), rel=0.01
    )
    assert flags["prefill_attention"]["share_ratio"] == pytest.approx(
        attention_s[alone].sum() / busy_s(run), rel=0.05
    )


def test_points_of_a_table_are_measured_and_not_fitted() -> None:
    run = simulated()
    flag = found(run, {"gemm": {"m": (1e6, 2e6)}}, source="table of 9 points: x")["gemm"]
    gemm_share = float(column(run, "gemm_s").sum()) / busy_s(run)
    assert flag["share_ratio"] == pytest.approx(gemm_share, rel=0.01)
    assert "outside its measured range in " in flag["text"]
    assert "(measured from 1,000,000)" in flag["text"]


def test_hardly_any_time_is_written_down_but_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    run = simulated()
    most = float(run_shapes(run.result).num_tokens.max())
    flag = found(run, {"gemm": {"m": (0.0, most - 1.0)}})["gemm"]
    share = flag["share_ratio"]
    monkeypatch.setattr(fitted_ranges, "SMALLEST_SHARE", share)
    loud = found(run, {"gemm": {"m": (0.0, most - 1.0)}})["gemm"]
    monkeypatch.setattr(fitted_ranges, "SMALLEST_SHARE", share * 1.01)
    quiet = found(run, {"gemm": {"m": (0.0, most - 1.0)}})["gemm"]
    assert quiet == {**loud, "is_minor": True}
    assert (is_told(loud), is_told(quiet)) == (True, False)
    runs: Any = [SimpleNamespace(document={"flags": [quiet, loud, {**loud, "kernel": "moe"}]})]
    assert len(caveats(runs, ())) == 2


def test_the_flags_of_a_run_are_those_of_its_profile() -> None:
    run = simulated("kernel.mixed_batch=separate")
    flags = [flag for flag in run.document["flags"] if flag["flag"] == "outside_fitted_range"]
    assert [flag["kernel"] for flag in flags] == ["gemm", "prefill_attention"]
    assert range_flags(run.result, replace(run.deployment)) == flags
