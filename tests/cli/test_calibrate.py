"""`flocksim-calibrate`: what it fits, prints, writes and refuses.

Its tables are made here from the shipped A100 profile as a hidden device, with noise.
"""

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from experiments.calibrate import command
from experiments.calibrate.figure import comparison_figure
from hwmodels.fitting.device_plan import MIXED_STEPS
from hwmodels.fitting.recipes.decode_attention import predict_decode_s
from hwmodels.fitting.recipes.mixed_attention import MixedForm, predict_mixed_s
from hwmodels.fitting.recipes.unequal_lengths import NUM_SMS
from hwmodels.fitting.validation import compare
from hwmodels.kernels.models import KernelModels, load_kernels
from hwmodels.measurements.data_folder import TABLES
from hwmodels.tables import load_table, tabled
from tests.conftest import Outcome

Run = Callable[..., Outcome]

DEVICE = "a100_sxm_80gb"
HIDDEN = load_kernels(DEVICE)
FILES = TABLES[DEVICE]
NOISE = 0.02
MS = 1e3


@pytest.fixture
def calibrate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command in this process."""

    def run(*arguments: str | Path) -> Outcome:
        capsys.readouterr()
        code = command.run_command([str(item) for item in arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err, tmp_path)

    return run


def grid(**axes: list[float]) -> pd.DataFrame:
    return pd.DataFrame(list(itertools.product(*axes.values())), columns=list(axes))


def noisy_ms(time_s: Any, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    return np.asarray(time_s) * MS * np.exp(NOISE * rng.standard_normal(np.size(time_s)))


def columns_of(frame: pd.DataFrame) -> dict[str, Any]:
    return {name: frame[name].to_numpy(dtype=np.float64) for name in frame.columns}


def gemm_table() -> pd.DataFrame:
    assert HIDDEN.gemm is not None
    frame = grid(
        m=[1, 64, 512, 4096], n=[1024, 2560, 4096, 6144, 12288], k=[1024, 2048, 5120, 8192]
    )
    frame["latency"] = noisy_ms(HIDDEN.gemm.time_s(frame["m"], frame["n"], frame["k"]), 1)
    return frame.assign(gemm_dtype="bfloat16")


def attention_table(is_decode: bool) -> pd.DataFrame:
    heads = grid(num_heads=[4, 8, 16, 32, 64], num_kv_heads=[1, 4, 8])
    heads = heads[heads["num_kv_heads"] <= heads["num_heads"]]
    sizes = grid(batch_size=[1, 4, 16, 64], context_tokens=[128, 1024, 4096, 16384])
    frame = heads.merge(sizes, how="cross")
    columns = columns_of(frame)
    if is_decode:
        assert HIDDEN.decode_attention is not None
        time_s: Any = predict_decode_s(HIDDEN.decode_attention, columns)
        frame = frame.assign(isl=1, step=frame["context_tokens"] - 1)
    else:
        assert HIDDEN.prefill_attention is not None
        time_s = HIDDEN.prefill_attention.time_s(
            columns["batch_size"],
            columns["context_tokens"],
            0,
            columns["num_heads"],
            columns["num_kv_heads"],
        )
        frame = frame.assign(isl=frame["context_tokens"], step=0)
    return frame.rename(columns={"num_kv_heads": "num_key_value_heads"}).assign(
        kernel_source="vllm_flash_attn",
        head_dim=128,
        attn_dtype="bfloat16",
        kv_cache_dtype="bfloat16",
        latency=noisy_ms(time_s, 2),
    )


def moe_table() -> pd.DataFrame:
    assert HIDDEN.moe is not None
    frame = grid(
        num_tokens=[1, 8, 64, 512, 4096],
        hidden_size=[2048, 4096, 6144],
        inter_size=[768, 2048],
        topk=[2, 8],
        num_experts=[8, 64, 256],
    )
    time_s = HIDDEN.moe.time_s(*(frame[name] for name in frame.columns))
    return frame.assign(
        moe_dtype="bfloat16", moe_tp_size=1, moe_ep_size=1, latency=noisy_ms(time_s, 3)
    )


def all_reduce_table(is_graph: bool) -> pd.DataFrame:
    model = HIDDEN.all_reduce if is_graph else HIDDEN.nccl
    assert model is not None
    frame = grid(num_gpus=[2, 4, 8], message_size=[2.0**k for k in range(7, 26)])
    frame["latency"] = noisy_ms(model.time_s(2 * frame["message_size"], frame["num_gpus"]), 4)
    if is_graph:
        return frame.assign(allreduce_dtype="bfloat16", kernel_source="vLLM_custom_graph")
    return frame.assign(op_name="all_reduce", nccl_dtype="half")


def small_ops_table() -> pd.DataFrame:
    assert HIDDEN.small_ops is not None
    frame = grid(
        num_tokens=[1, 4, 16, 64, 256, 1024, 4096], num_tensor_parallel_workers=[1, 2, 4, 8]
    )
    degree = frame["num_tensor_parallel_workers"]
    token_bytes = 2 * (8 * 4096 + 2 * 128 * (32 + 8) / degree + 3 * 14336 / degree)
    total = noisy_ms(HIDDEN.small_ops.time_s(frame["num_tokens"], token_bytes), 5)
    parts = ("input_layernorm", "attn_rope", "post_attention_layernorm", "mlp_act")
    frame = frame.assign(**{f"time_stats.{name}.median": total / 5 for name in parts})
    frame["time_stats.add.median"] = total / 10
    return frame.assign(n_embd=4096, n_head=32, n_kv_head=8, n_expanded_embd=14336)


def l2_table() -> pd.DataFrame:
    assert HIDDEN.l2 is not None
    kib = np.geomspace(6200, 1e6, 40)
    rate = HIDDEN.l2.bytes_per_s(kib * 1024) / 1e9
    return pd.DataFrame({"gpu": FILES.l2_gpu, "data_set_kib": kib, "effective_gb_per_s": rate})


def mixed_table() -> pd.DataFrame:
    """Mixed steps with the hidden device's constants on the GPU of the grid."""
    assert HIDDEN.mixed_attention is not None
    assert HIDDEN.prefill_attention is not None
    reach_bytes = HIDDEN.mixed_attention.l2_reach_bytes * 128 / 40
    mixed = replace(HIDDEN.mixed_attention, l2_reach_bytes=reach_bytes)
    prefill = replace(HIDDEN.prefill_attention, num_sms=NUM_SMS)
    form = MixedForm(mixed=mixed, prefill=prefill)
    frame = grid(n=[2, 16, 64], pc=[16, 512, 2048], kp=[0, 4096], kvs=[256, 2048, 8192])
    frame = frame.assign(regime="mixed", nb=1, kv_big=4 * frame["kvs"])
    frame["kv_mean"] = frame["kvs"] * (frame["n"] + 3) // frame["n"]
    sums = {
        "t_mean_us": (frame["n"] * frame["kv_mean"], frame["kv_mean"]),
        "t_max_us": (frame["n"] * frame["kv_big"], frame["kv_big"]),
        "t_skew_us": ((frame["n"] + 3) * frame["kvs"], frame["kv_big"]),
    }
    for name, (total, longest) in sums.items():
        columns = {
            "batch_size": frame["n"],
            "context_tokens": total,
            "longest_tokens": longest,
            "chunk_tokens": frame["pc"],
            "prefix_tokens": frame["kp"],
        }
        time_s = predict_mixed_s(form, {key: item.to_numpy() for key, item in columns.items()})
        frame[name] = 3e3 * noisy_ms(time_s, 6)
    return frame


def prefix_table() -> pd.DataFrame:
    model = HIDDEN.shared_prefix
    assert model is not None
    rows = []
    trees = {1: ((1, 64), (4096, 256)), 2: ((1, 8, 64), (512, 512, 512)), 3: ((4, 256), (1024, 64))}
    for tree, (nodes, tokens) in trees.items():
        for heads in ((32, 32), (32, 8), (64, 8)):
            times = {
                "PAT": model.time_s(nodes, tokens, *heads, kernel="packed"),
                "FlashInfer": model.time_s(nodes, tokens, *heads, kernel="flashinfer"),
                "FlashAttn": model.time_s(nodes, tokens, *heads, kernel="flash_pat"),
            }
            best = min(times.values())
            text = f"{','.join(map(str, nodes))}_{','.join(map(str, tokens))}"
            rows += [
                {
                    "heads_q_kv": f"{heads[0]}/{heads[1]}",
                    "tree_id": tree,
                    "tree_B_L": text,
                    "method": method,
                    "normalized_perf_pct": 100 * best / time_s,
                }
                for method, time_s in times.items()
            ]
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of measurements of a hidden device."""
    folder = tmp_path_factory.mktemp("measurements")
    small_ops = small_ops_table()
    contents: dict[str | None, pd.DataFrame] = {
        FILES.gemm: gemm_table(),
        FILES.generation_attention: attention_table(is_decode=True),
        FILES.context_attention: attention_table(is_decode=False),
        FILES.moe: moe_table(),
        FILES.custom_all_reduce: all_reduce_table(is_graph=True),
        FILES.nccl: all_reduce_table(is_graph=False),
        FILES.l2_bandwidth: l2_table(),
        FILES.shared_prefix: prefix_table(),
        MIXED_STEPS: mixed_table(),
    }
    contents |= dict.fromkeys(FILES.small_ops, small_ops)
    for name, frame in contents.items():
        path = folder / str(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".parquet":
            frame.to_parquet(path)
        else:
            frame.to_csv(path, index=False)
    return folder


@pytest.fixture(scope="module")
def profile(tables: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("profile") / "fitted.json"
    arguments = ["fit", "--data", tables, "--device", DEVICE, "--date", "2026-01-02", "--out", out]
    assert command.run_command([str(item) for item in arguments]) == 0
    return out


def test_a_fit_writes_a_complete_profile_that_loads(profile: Path, tables: Path) -> None:
    models = load_kernels(profile)
    assert models.date == "2026-01-02"
    assert set(models.provenance) == set(HIDDEN.provenance)
    carried = {name for name, one in models.provenance.items() if one.is_extrapolated}
    assert carried == {"mixed_attention"}
    assert sorted(models.inputs) == sorted(HIDDEN.inputs)
    assert KernelModels.from_json(models.to_json()) == models


def test_a_fit_finds_the_hidden_device(profile: Path) -> None:
    found = load_kernels(profile)
    for kernel, parameter in (
        ("gemm", "flops_per_s"),
        ("gemm", "hbm_bytes_per_s"),
        ("decode_attention", "hbm_bytes_per_s"),
        ("decode_attention", "launch_s"),
        ("decode_attention", "cta_gqa_bytes_per_s"),
        ("prefill_attention", "flops_per_s"),
        ("prefill_attention", "launch_s"),
        ("small_ops", "layer_s"),
        ("small_ops", "bytes_per_s"),
        ("l2", "midpoint_bytes"),
        ("l2", "l2_bytes_per_s"),
    ):
        value = getattr(getattr(found, kernel), parameter)
        truth = getattr(getattr(HIDDEN, kernel), parameter)
        error = found.provenance[kernel].standard_errors[parameter]
        assert error is not None
        assert value == pytest.approx(truth, abs=4.5 * error + 0.01 * truth), (kernel, parameter)
    assert found.mixed_attention is not None
    assert HIDDEN.mixed_attention is not None
    for name in ("block_s", "idle_block_s", "longest_weight", "l2_reach_bytes", "resident_weight"):
        truth = getattr(HIDDEN.mixed_attention, name)
        assert getattr(found.mixed_attention, name) == pytest.approx(truth, rel=0.1), name


def test_held_out_errors_are_those_of_the_noise(profile: Path) -> None:
    records = load_kernels(profile).provenance
    for kernel in ("gemm", "decode_attention", "prefill_attention", "moe"):
        stated = records[kernel].heldout_mape
        assert stated is not None
        assert 0.01 < stated < 0.035, kernel
    exact = records["shared_prefix"].heldout_mape
    assert exact is not None
    assert exact < 0.005, "its ratios have no noise"


def test_a_fit_repeats_byte_for_byte(calibrate: Run, tables: Path, profile: Path) -> None:
    again = profile.parent / "again.json"
    outcome = calibrate(
        "fit", "--data", tables, "--device", DEVICE, "--date", "2026-01-02", "--out", again
    )
    assert outcome.code == 0
    assert outcome.out == f"{again}\n"
    assert again.read_bytes() == profile.read_bytes()
    assert "gemm: 80 rows, error on held-out shapes" in outcome.err
    assert " 0 rows left out" not in outcome.err


def test_validate_prints_every_kernel_and_writes_files(
    calibrate: Run, tables: Path, profile: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    outcome = calibrate("validate", "--profile", profile, "--data", tables, "--figures", out)
    assert outcome.code == 0
    assert outcome.err == ""
    for kernel in HIDDEN.provenance:
        assert kernel in outcome.out
    assert "gemm: worst n=" in outcome.out
    assert sorted(path.name for path in out.iterdir()) == [
        "l2_curve.png",
        "predicted_against_measured.png",
        "roofline.png",
        "validation.csv",
        "validation.json",
    ]
    report = json.loads((out / "validation.json").read_text())
    frame = pd.read_csv(out / "validation.csv")
    assert len(frame) == len(report["comparisons"])
    gemm = report["comparisons"][0]
    assert (gemm["kernel"], gemm["subset"], gemm["num_rows"]) == ("gemm", "fitted range", 80)
    assert gemm["mape"] == pytest.approx(frame["mape_ratio"][0], rel=1e-5)
    assert 0.01 < gemm["mape"] < 0.03
    assert report["extrapolated"] == ["mixed_attention"]


def test_validate_prints_json_alone(calibrate: Run, tables: Path) -> None:
    outcome = calibrate("validate", "--profile", DEVICE, "--data", tables, "--json")
    assert outcome.code == 0
    report = json.loads(outcome.out)
    assert report["device"] == DEVICE
    kernels = {one["kernel"] for one in report["comparisons"]}
    assert kernels == set(HIDDEN.provenance) - {"mixed_attention"}, "measured on another GPU"


def test_validate_warns_of_what_is_extrapolated(
    calibrate: Run, tables: Path, profile: Path, tmp_path: Path
) -> None:
    record = json.loads(profile.read_text())
    record["kernels"]["moe"]["is_extrapolated"] = True
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(record))
    outcome = calibrate("validate", "--profile", changed, "--data", tables)
    assert outcome.code == 0
    assert "moe: extrapolated, no error known." in outcome.out


def test_a_table_holds_the_measured_points_and_repeats_byte_for_byte(
    calibrate: Run, tables: Path, tmp_path: Path
) -> None:
    files = [tmp_path / "one.json", tmp_path / "two.json"]
    for out in files:
        outcome = calibrate(
            "table", "--data", tables, "--device", DEVICE, "--date", "2026-01-02", "--out", out
        )
        assert outcome.code == 0
        assert outcome.out == f"{out}\n"
    assert files[0].read_bytes() == files[1].read_bytes()
    assert "gemm: 80 points, error on 20 held-out shapes" in outcome.err
    assert "of the form" not in outcome.err
    found = load_table(files[0])
    assert (found.device, found.date) == (DEVICE, "2026-01-02")
    read = (FILES.gemm, FILES.generation_attention, FILES.context_attention, FILES.moe)
    assert set(found.inputs) == {*read, FILES.custom_all_reduce, FILES.nccl}
    gemm = found.kernels["gemm"]
    rows = pd.read_parquet(tables / FILES.gemm).sort_values(["m", "n", "k"])
    assert gemm.time_s * MS == pytest.approx(rows["latency"].to_numpy(), rel=1e-8)


def test_points_that_are_the_form_and_noise_are_left_to_the_form(
    calibrate: Run, tables: Path, tmp_path: Path
) -> None:
    out = tmp_path / "noise.json"
    outcome = calibrate("table", "--data", tables, "--device", DEVICE, "--out", out)
    assert "no better than the form, which stays" in outcome.err
    kernels = tabled(HIDDEN, load_table(out))
    assert kernels.gemm is HIDDEN.gemm


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["table", "--data", "no_such_folder", "--device", DEVICE], "no such folder of measure"),
        (["table", "--data", ".", "--device", DEVICE], "gemm.parquet: no such file"),
        (["table", "--data", ".", "--device", "a100"], "unknown"),
        (["table", "--data", "rows.jsonl", "--device", DEVICE], "rows.jsonl: No such file"),
        (["table", "--device", DEVICE], "--data"),
        (["fit", "--data", "no_such_folder", "--device", DEVICE], "no such folder of measurements"),
        (["fit", "--data", ".", "--device", "a100"], "unknown"),
        (["fit", "--data", "."], "--device"),
        (["fit", "--data", ".", "--device", DEVICE, "--date", "today"], "must be a date"),
        (["validate", "--profile", "a100", "--data", "."], "unknown device"),
        (["validate", "--profile", DEVICE, "--data", "no_such_folder"], "no such folder"),
        (["validate", "--profile", DEVICE, "--data", "."], "gemm.parquet: no such file"),
        (["tune"], "invalid choice"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    calibrate: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    line: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = calibrate(*arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.error_line.startswith("flocksim-calibrate: error: ")
    assert line in outcome.error_line
    assert list(tmp_path.iterdir()) == []


def test_help_and_version_are_answers(calibrate: Run) -> None:
    for arguments in (["--help"], ["fit", "--help"], ["--version"]):
        outcome = calibrate(*arguments)
        assert outcome.code == 0
        assert "flocksim-calibrate" in outcome.out
        assert outcome.err == ""
    nothing = calibrate()
    assert nothing.code == 2
    assert "usage: flocksim-calibrate" in nothing.out


def test_the_figure_has_measured_times_on_x_and_predicted_on_y_in_ms(tables: Path) -> None:
    found = [one for one in compare(HIDDEN, tables) if one.kernel == "gemm"]
    axes = comparison_figure(DEVICE, found).axes[0]
    points = axes.lines[0]
    assert np.sort(points.get_xdata()) == pytest.approx(np.sort(found[1].measured * MS))
    assert np.sort(points.get_ydata()) == pytest.approx(np.sort(found[1].predicted * MS))
    assert axes.get_xlabel() == "measured time (ms)"
    assert axes.get_ylabel() == "predicted time (ms)"
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.get_title() == f"gemm: MAPE {100 * found[0].errors.mape:.1f} %"
