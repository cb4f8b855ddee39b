"""Replications: their seeds, their means, and what is written of them."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from experiments.composing import compose_config
from experiments.job import JobRun, run_job, simulate_job
from experiments.results.replications import Replication, mean_metrics, merged_flags, worst_regime
from experiments.sweep.intervals import half_width
from experiments.sweep.replication import replication_seed
from sim.cost_totals import CostTotals
from sim.errors import ConfigError
from tests.conftest import TINY


def simulated(*overrides: str) -> JobRun:
    return simulate_job(*compose_config([*TINY, *overrides]))


def written(directory: Path, *overrides: str) -> dict[str, Any]:
    run_job(*compose_config([*TINY, *overrides]), overrides, directory)
    document: dict[str, Any] = json.loads((directory / "result.json").read_text())
    return document


def replication(**values: Any) -> Replication:
    nothing = np.empty(0, dtype=np.int64)
    given: dict[str, Any] = {
        "number": 0,
        "seed": 0,
        "regime": "stable",
        "metrics": {},
        "flags": [],
        "costs": CostTotals(),
        "gaps_s": nothing.astype(float),
        "gap_counts": nothing,
        "requests": None,
        "steps": None,
        "is_interrupted": False,
    }
    return Replication(**{**given, **values})


def test_the_first_replication_has_the_seed_itself_and_the_others_63_bits_of_their_own() -> None:
    seeds = [replication_seed(seed, k) for seed in (0, 1, 2**63 - 1) for k in range(50)]
    assert [replication_seed(seed, 0) for seed in (0, 7, 2**63 - 1)] == [0, 7, 2**63 - 1]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert max(seeds[1:50]) > 2**62
    (word,) = np.random.SeedSequence([0, 1]).generate_state(1, np.uint64)
    assert replication_seed(0, 1) == int(word) // 2


@pytest.mark.parametrize("routing", ["random", "power_of_two"])
def test_a_replication_equals_the_job_under_its_seed(routing: str) -> None:
    run = simulated("replications=3", f"routing={routing}")
    for one in run.replications:
        alone = simulated(f"seed={one.seed}", f"routing={routing}")
        assert one.metrics == alone.replications[0].metrics
        assert one.requests.equals(alone.replications[0].requests)
    assert [one.number for one in run.replications] == [0, 1, 2]
    assert run.replications[0].seed == 0


def test_all_policies_see_the_same_requests_in_every_replication() -> None:
    jsq, random = (simulated("replications=3", f"routing={name}") for name in ("jsq", "random"))
    for a, b in zip(jsq.replications, random.replications, strict=True):
        for name in ("arrival_s", "prompt_tokens", "output_tokens"):
            assert a.requests[name].equals(b.requests[name])
        assert not a.requests["instance"].equals(b.requests["instance"])
    arrivals = [one.requests["arrival_s"].to_pylist() for one in jsq.replications]
    assert arrivals[0] != arrivals[1] != arrivals[2] != arrivals[0]


def test_the_metrics_of_a_job_are_means_over_its_replications(tmp_path: Path) -> None:
    document = written(tmp_path, "replications=4")
    parts = [one["metrics"] for one in document["replications"]]
    for name in ("ttft_p99_s", "makespan_s", "hbm_bytes", "mean_batch_size"):
        assert document["metrics"][name] == pytest.approx(sum(p[name] for p in parts) / 4)
    assert document["metrics"]["num_finished"] == 40
    assert list(document["metrics"]) == list(parts[0])
    assert [one["replication"] for one in document["replications"]] == [0, 1, 2, 3]
    assert document["seed"] == document["replications"][0]["seed"] == 0
    l2 = document["metrics"]["l2_hit_ratio"]
    assert l2 == pytest.approx(sum(p["l2_hit_ratio"] for p in parts) / 4)


def test_a_metric_that_one_replication_lacks_is_null() -> None:
    means = mean_metrics(
        [replication(metrics={"a": 1, "b": None}), replication(metrics={"a": 2, "b": 1})]
    )
    assert means == {"a": 1.5, "b": None}


def test_a_count_that_never_varies_stays_whole() -> None:
    means = mean_metrics([replication(metrics={"a": 3, "b": 1.0}) for _ in range(3)])
    assert means == {"a": 3, "b": 1.0}
    assert isinstance(means["a"], int)


@pytest.mark.parametrize(
    ("regimes", "worst"),
    [
        (["stable", "stable"], "stable"),
        (["backlogged", "overloaded", "stable"], "overloaded"),
        (["stable", "backlogged"], "backlogged"),
        (["stable", "closed_loop"], "closed_loop"),
        (["stable", None], None),
    ],
)
def test_the_regime_of_a_job_is_the_worst(regimes: list[str | None], worst: str | None) -> None:
    assert worst_regime([replication(regime=regime) for regime in regimes]) == worst


def test_flags_of_later_replications_are_added_with_their_number() -> None:
    first, later = {"flag": "a", "text": "first"}, {"flag": "b", "text": "later"}
    flags = merged_flags([replication(flags=[first]), replication(number=1, flags=[first, later])])
    assert flags == [first, {"flag": "b", "replication": 1, "text": "later (replication 1)"}]


def test_tables_tell_replications_apart_and_one_alone_has_no_such_column(tmp_path: Path) -> None:
    written(tmp_path, "replications=3", "output.steps=true")
    for name in ("requests", "steps"):
        table = pq.read_table(tmp_path / f"{name}.parquet")
        assert sorted(set(table["replication"].to_pylist())) == [0, 1, 2]
    assert pq.read_table(tmp_path / "requests.parquet").num_rows == 120
    written(tmp_path, "output.steps=true")
    for name in ("requests", "steps"):
        assert "replication" not in pq.read_table(tmp_path / f"{name}.parquet").column_names


def test_replications_with_labels_are_stacked(tmp_path: Path) -> None:
    config = compose_config(["trace=mix", "replications=2"])
    run_job(*config, [], tmp_path)
    table = pq.read_table(tmp_path / "requests.parquet").to_pandas()
    assert set(table["tenant"]) == {"chat", "batch"}
    assert table.groupby("replication").size().tolist() == [4000, 4000]


def test_a_single_run_says_that_it_has_no_replications(tmp_path: Path) -> None:
    document = written(tmp_path)
    run = simulated()
    assert document["replications"] is None
    assert document["offered_load"] is None
    assert document["cost_totals"] == dataclasses.asdict(run.result.costs)
    assert document["cost_totals"]["gemm_s"] > 0
    assert document["metrics"]["hbm_bytes"] == document["cost_totals"]["hbm_bytes"]


def test_cost_totals_are_means_over_replications(tmp_path: Path) -> None:
    document = written(tmp_path, "replications=2")
    runs = [simulated(f"seed={one['seed']}").result.costs for one in document["replications"]]
    assert document["cost_totals"]["gemm_s"] == pytest.approx(sum(c.gemm_s for c in runs) / 2)


def test_distributions_are_percentiles_of_all_gaps_of_all_replications(tmp_path: Path) -> None:
    written(tmp_path, "replications=2")
    run = simulated("replications=2")
    gaps_s = np.concatenate([np.repeat(one.gaps_s, one.gap_counts) for one in run.replications])
    table = pq.read_table(tmp_path / "distributions.parquet")
    assert table.column_names == ["quantile", "itl_s"]
    quantile = table["quantile"].to_numpy()
    assert (len(quantile), quantile[0], quantile[500], quantile[-1]) == (1001, 0.0, 0.5, 1.0)
    np.testing.assert_allclose(table["itl_s"].to_numpy(), np.quantile(gaps_s, quantile), rtol=1e-12)


def test_distributions_are_null_where_no_request_has_two_tokens(tmp_path: Path) -> None:
    written(tmp_path, "trace.output=1")
    assert pq.read_table(tmp_path / "distributions.parquet")["itl_s"].null_count == 1001


def recording(directory: Path) -> Path:
    """An Azure file of 96 rows, one a second, each with another prompt length."""
    rows = [f"2023-11-16 18:{16 + k // 60}:{k % 60:02d},{100 + k},5\n" for k in range(96)]
    path = directory / "recording.csv"
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(rows))
    return path


def test_replications_of_a_recording_draw_its_stretches_anew(tmp_path: Path) -> None:
    """16 stretches of 6 s each; the same ones for every policy."""
    given = ["trace=azure", f"trace.path={recording(tmp_path)}", "replications=3"]
    random, jsq = (
        simulate_job(*compose_config([*given, f"routing={name}"])) for name in ("random", "jsq")
    )
    prompts = [np.array(one.requests["prompt_tokens"]) for one in random.replications]
    assert prompts[0].tolist() == list(range(100, 196))
    for later in prompts[1:]:
        stretches = (later - 100).reshape(16, 6)
        assert (np.diff(stretches, axis=1) == 1).all()
        assert (stretches[:, 0] % 6 == 0).all()
        assert len(set(stretches[:, 0].tolist())) < 16
    assert prompts[1].tolist() != prompts[2].tolist()
    for one, other in zip(random.replications, jsq.replications, strict=True):
        assert one.requests["prompt_tokens"].equals(other.requests["prompt_tokens"])
        assert one.requests["arrival_s"].equals(other.requests["arrival_s"])


def test_a_recording_is_drawn_anew_whatever_a_transform_draws_too(tmp_path: Path) -> None:
    given = ["trace=azure", f"trace.path={recording(tmp_path)}", "replications=2"]
    for transform in ("trace.poissonise=true", "trace.sample=0.99", "trace.copies=2"):
        first, second = simulate_job(*compose_config([*given, transform])).replications
        one, other = (sorted(set(r.requests["prompt_tokens"].to_pylist())) for r in (first, second))
        assert len(other) < 0.9 * len(one)


def test_a_recording_in_which_all_comes_at_once_cannot_be_resampled(tmp_path: Path) -> None:
    path = tmp_path / "once.csv"
    row = "2023-11-16 18:16:00,100,5\n"
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + 3 * row)
    config = compose_config(["trace=azure", f"trace.path={path}", "replications=2"])
    with pytest.raises(ConfigError, match="all requests of this trace arrive at the same time"):
        simulate_job(*config)


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "true", "10001"])
def test_replications_must_be_a_sensible_number(value: str) -> None:
    with pytest.raises(ConfigError, match="replications="):
        simulated(f"replications={value}")


def test_the_key_follows_the_number_of_replications() -> None:
    assert simulated().document["job_key"] != simulated("replications=2").document["job_key"]


def test_half_the_width_of_an_interval_is_students() -> None:
    # Of 1, 2, 3: s = 1, t(0.975, 2) = 4.302653, divided by sqrt(3).
    assert half_width([1.0, 2.0, 3.0]) == pytest.approx(4.302653 / 3**0.5, rel=1e-6)
    assert half_width([1.0]) is None
    assert half_width([5.0, 5.0]) == 0.0
