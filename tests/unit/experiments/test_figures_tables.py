"""Distributions, timelines, breakdowns, differences and classes, computed by hand."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experiments.figures import figure, plotted_data
from experiments.figures.errors import FigureError
from experiments.figures.save import write_picture
from experiments.figures.step_functions import imbalance_means, spans_as_events, time_means
from experiments.results.load import Run
from experiments.results.metrics_frame import metrics_frame
from experiments.stats.comparison import comparison
from tests.unit.experiments.figure_runs import (
    gaps_table,
    instances,
    latency_metrics,
    requests_table,
    steps_table,
    study_runs,
    write_run,
)


def values(table: pd.DataFrame, **keys: object) -> list[float]:
    """Values of the rows that agree with the keys."""
    for key, value in keys.items():
        table = table[table[key] == value]
    return [float(value) for value in table.iloc[:, -1]]


def test_a_quantity_that_jumps_is_averaged_exactly() -> None:
    times, changes = np.array([1.0, 0.0, 3.0]), np.array([2.0, 1.0, -3.0])
    # 1 during [0, 1), 3 during [1, 3), 0 after
    means = time_means(times, changes, np.array([-1.0, 0.0, 2.0, 2.5, 5.0]))
    assert means.tolist() == pytest.approx([0.0, 2.0, 3.0, 0.6])
    assert time_means(times[:0], changes[:0], np.array([0.0, 1.0])).tolist() == [0.0]


def test_a_span_without_an_end_goes_on() -> None:
    times, changes = spans_as_events(np.array([0.0, 1.0]), np.array([2.0, np.nan]), 2.0)
    means = time_means(times, changes, np.arange(4.0))
    assert means.tolist() == pytest.approx([2.0, 4.0, 2.0])


def one_run(directory: Path, **files: object) -> Run:
    arrivals, ttfts, tokens = [0.0, 1.0, 2.0, 3.0], [1.0, 1.0, 2.0, 1.0], [1, 11, 101, 1]
    table = requests_table(arrivals, ttfts, tokens)
    return write_run(directory, metrics=latency_metrics(1.0), requests=table, **files)  # type: ignore[arg-type]


def test_quantiles_are_those_of_the_finished_requests(tmp_path: Path) -> None:
    table = plotted_data("cdf", [one_run(tmp_path / "0")], quantities=["ttft", "tpot", "e2e"])
    ttft = table[table["quantity"] == "ttft"]
    expected = np.quantile([1.0, 1.0, 2.0, 1.0], ttft["quantile"])
    assert ttft["value_s"].to_numpy() == pytest.approx(expected)
    # one-token outputs have no TPOT; the others 10 ms
    assert values(table, quantity="tpot", quantile=0.0) == pytest.approx([0.01])
    assert values(table, quantity="tpot", quantile=1.0) == pytest.approx([0.01])
    assert values(table, quantity="e2e", quantile=1.0) == pytest.approx([3.0])


def test_requests_that_did_not_finish_have_no_part_in_quantiles(tmp_path: Path) -> None:
    status = ["finished", "unfinished", "finished"]
    requests = requests_table([0.0, 1.0, 2.0], [1.0, 9.0, 1.0], [2] * 3, status=status)
    run = write_run(tmp_path / "0", metrics=latency_metrics(1.0), requests=requests)
    assert set(plotted_data("cdf", [run], quantities=["ttft"])["value_s"]) == {1.0}


def test_latencies_of_zero_and_names_of_any_kind_can_be_drawn(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    requests = requests_table([0.0, 1.0], [0.0, 0.0], [1, 1], tenant="cost $x$ 中")
    run = write_run(tmp_path / "0", metrics=latency_metrics(1.0), requests=requests)
    for name in ("cdf", "classes", "timeline"):
        write_picture(figure(name, [run]), tmp_path / "figure.svg")
    assert not recwarn.list


def test_quantiles_pool_the_seeds_and_skip_the_warm_up(tmp_path: Path) -> None:
    both = [
        write_run(
            tmp_path / f"{seed}",
            "trace.warmup_s=1.5",
            seed=seed,
            metrics=latency_metrics(1.0 + seed),
            requests=requests_table([0.0, 1.0, 2.0, 3.0], [9.0, 9.0, 1.0 + seed, 3.0], [2] * 4),
        )
        for seed in (0, 1)
    ]
    table = plotted_data("cdf", both, quantities=["ttft"])
    expected = np.quantile([1.0, 3.0, 2.0, 3.0], table["quantile"])
    assert table["value_s"].to_numpy() == pytest.approx(expected)


def test_gaps_of_several_runs_mix_by_their_numbers(tmp_path: Path) -> None:
    both = [
        write_run(
            tmp_path / f"{seed}",
            seed=seed,
            metrics=latency_metrics(1.0 + seed),
            # 30 gaps and 10 gaps
            requests=requests_table([0.0, 1.0], [1.0, 1.0], [16, 16] if seed == 0 else [6, 6]),
            distributions=gaps_table(1.0 + 3 * seed),
        )
        for seed in (0, 1)
    ]
    table = plotted_data("cdf", both, quantities=["itl"])
    # three quarters uniform on [0, 1], one quarter on [0, 4]: F(1) = 0.75 + 0.25 / 4
    below_one = float(np.interp(1.0, table["value_s"], table["quantile"]))
    assert below_one == pytest.approx(0.8125, abs=0.003)
    assert values(table, quantile=1.0) == pytest.approx([4.0], abs=0.01)


def test_without_distributions_the_panel_of_gaps_is_left_out_with_a_note(tmp_path: Path) -> None:
    table = plotted_data("cdf", [one_run(tmp_path / "0")])
    assert set(table["quantity"]) == {"ttft", "tpot", "e2e"}
    assert table.attrs["notes"] == [
        "no run has distributions.parquet, which the panel of ITL needs"
    ]


def test_a_timeline_follows_the_steps(tmp_path: Path) -> None:
    run = one_run(tmp_path / "0", steps=steps_table())
    table = plotted_data("timeline", [run], num_bins=5)  # one second each: the last finish is at 5
    assert table["end_s"].max() == pytest.approx(5.0)
    cluster = table[table["instance"] == -1]
    # instance 0: 4 requests, 40 blocks, 2 waiting for 2 s, a gap, 1 request and 10 blocks for 1 s;
    # instance 1: 2 requests, 20 blocks, 1 waiting for 4 s; 100 usable blocks each
    assert values(cluster, panel="batch_requests") == pytest.approx([3, 3, 1, 1.5, 0])
    assert values(cluster, panel="kv_usage_ratio") == pytest.approx([0.3, 0.3, 0.1, 0.15, 0])
    assert values(cluster, panel="queue_requests") == pytest.approx([3, 3, 1, 1, 0])


def test_a_timeline_without_steps_follows_the_requests(tmp_path: Path) -> None:
    table = plotted_data("timeline", [one_run(tmp_path / "0")], num_bins=10)  # half a second each
    cluster = table[table["instance"] == -1]
    # waiting: [0, 0.5), [1, 1.5), [2, 3), [3, 3.5)
    queue = [1, 0, 1, 0, 1, 1, 1, 0, 0, 0]
    assert values(cluster, panel="queue_requests") == pytest.approx(queue)
    # running: [0.5, 1), [1.5, 2.1), [3, 5), [3.5, 4), per instance
    running = [0, 0.5, 0, 0.5, 0.1, 0, 0.5, 1, 0.5, 0.5]
    assert values(cluster, panel="batch_requests") == pytest.approx(running)
    assert "kv_usage_ratio" not in set(table["panel"])
    assert table.attrs["notes"] == [
        "no steps.parquet (output.steps=true): no KV usage of round_robin"
    ]


def test_the_load_of_an_instance_is_what_was_sent_there_and_has_not_ended(tmp_path: Path) -> None:
    table = plotted_data("timeline", [one_run(tmp_path / "0")], num_bins=5)
    # instance 0: [0, 1) and [2, 5); instance 1: [1, 2.1) and [3, 4)
    assert values(table, instance=0) == pytest.approx([1, 0, 1, 1, 1])
    assert values(table, instance=1) == pytest.approx([0, 1, 0.1, 1, 0])


def test_the_imbalance_is_the_largest_load_over_the_mean_one_while_there_is_any(
    tmp_path: Path,
) -> None:
    table = plotted_data("timeline", [one_run(tmp_path / "0")], num_bins=5)
    # Requests on instances 0 and 1: 1, 0 to 1 s; 0, 1 to 2 s; 1, 1 to 2.1 s and 1, 0 to 3 s;
    # 1, 1 to 4 s; 1, 0 to 5 s.
    expected = [2, 2, 0.1 * 1 + 0.9 * 2, 1, 2]
    assert values(table, panel="imbalance_ratio") == pytest.approx(expected)


def test_a_request_that_is_handed_over_is_on_both_instances_and_in_no_batch_meanwhile(
    tmp_path: Path,
) -> None:
    requests = requests_table(
        [0.0, 0.0],
        [1.0, 1.0],
        [401, 101],
        instance=[1, 0],
        prefill_instance=[0, 0],
        decode_start_s=[3.0, np.nan],
    )
    run = write_run(tmp_path / "0", metrics=latency_metrics(1.0), requests=requests)
    table = plotted_data("timeline", [run], num_bins=5)
    # running: [0.5, 1) and [3, 5), the other one [0.5, 2)
    assert values(table, panel="batch_requests") == pytest.approx([0.5, 0.5, 0, 0.5, 0.5])
    assert values(table, instance=0) == pytest.approx([2, 2, 1, 0, 0])
    assert values(table, instance=1) == pytest.approx([0, 0, 0, 1, 1])
    assert "imbalance_ratio" not in set(table["panel"])


def test_an_empty_span_has_no_imbalance() -> None:
    starts, ends = np.array([0.0, 0.0, 4.0]), np.array([1.0, 2.0, np.nan])
    where = np.array([0, 2, 1])
    found = imbalance_means(starts, ends, where, 3, np.array([0.0, 2.0, 4.0, 6.0]))
    # 1, 0, 1 of 3 to 1 s (1 / (2 / 3)), then one alone (3); nobody to 4 s; one that never ends.
    assert found == pytest.approx([(1.5 + 3) / 2, np.nan, 3.0], nan_ok=True)


def test_imbalance_does_not_depend_on_the_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    starts = np.sort(rng.random(200))
    ends, where = starts + rng.random(200) / 5, rng.integers(0, 4, 200)
    edges = np.linspace(0, 1.2, 9)
    whole = imbalance_means(starts, ends, where, 4, edges)
    monkeypatch.setattr("experiments.figures.step_functions.MAX_CELLS", 28)
    assert imbalance_means(starts, ends, where, 4, edges).tolist() == whole.tolist()


def test_instances_are_ranked_by_their_requests_before_runs_are_averaged(tmp_path: Path) -> None:
    runs = [
        write_run(
            tmp_path / f"{seed}",
            seed=seed,
            metrics=latency_metrics(1.0),
            document={"instances": instances(*counts)},
        )
        for seed, counts in enumerate([(6, 2, 0), (1, 3, 4)])
    ]
    table = plotted_data("instances", runs)
    assert values(table, metric="mean_requests") == pytest.approx([2.5, 1.25, 0.25])
    assert values(table, metric="request_share_ratio") == pytest.approx([0.625, 0.3125, 0.0625])
    # The idle instance has no hits of its own.
    assert values(table, metric="prefix_hit_ratio") == pytest.approx([0.5, 0.25, 0.1])
    assert table["num_runs"].unique().tolist() == [2]


def test_a_lone_instance_is_no_figure(tmp_path: Path) -> None:
    run = write_run(tmp_path, metrics=latency_metrics(1.0), document={"instances": instances(5)})
    with pytest.raises(FigureError, match="no run says what its instances did"):
        plotted_data("instances", [run])


def test_a_rejected_request_is_no_load(tmp_path: Path) -> None:
    gone = {"status": ["finished", "rejected"], "admitted_s": [0.5, np.nan]}
    times = {"first_token_s": [1.0, np.nan], "finish_s": [1.0, np.nan], "instance": [0, 1]}
    requests = requests_table([0.0, 0.0], [1.0, 1.0], [1, 1], **gone, **times)
    run = write_run(tmp_path / "0", metrics=latency_metrics(1.0), requests=requests)
    table = plotted_data("timeline", [run], num_bins=2)
    assert values(table, panel="queue_requests") == pytest.approx([1, 0])
    assert values(table, instance=1) == [0, 0]


def test_a_timeline_shows_the_seed_asked_for(tmp_path: Path) -> None:
    run = one_run(tmp_path / "0", seed=3)
    assert plotted_data("timeline", [run], seed=3).attrs["head"].endswith("offered, seed 3")
    with pytest.raises(FigureError, match=r"no run of seed 4 at this rate"):
        plotted_data("timeline", [run], seed=4)


def test_a_timeline_shows_the_first_replication(tmp_path: Path) -> None:
    parts = [requests_table([0.0, 1.0 + k], [1.0, 1.0], [1, 1]) for k in range(2)]
    twice = pd.concat([part.assign(replication=k) for k, part in enumerate(parts)])
    run = write_run(tmp_path / "0", metrics=latency_metrics(1.0), requests=twice)
    table = plotted_data("timeline", [run], num_bins=2)
    assert values(table, instance=0) == pytest.approx([1, 0])


def test_idle_is_what_the_terms_leave_of_instances_and_makespan(tmp_path: Path) -> None:
    table = plotted_data("breakdown", [one_run(tmp_path / "0", steps=steps_table())])
    seconds = dict(zip(table["term"], table["seconds"], strict=True))
    # two instances for 5 s; terms that are 0 everywhere are not drawn
    assert seconds == pytest.approx(
        {
            "gemm_s": 3.5,
            "attention_prefill_s": 0.25,
            "attention_decode_s": 1.75,
            "launch_s": 1.5,
            "idle_s": 3.0,
        }
    )
    assert table["share_ratio"].sum() == pytest.approx(1.0)
    assert values(table, term="idle_s") == pytest.approx([0.3])


def test_totals_of_the_result_go_before_the_steps(tmp_path: Path) -> None:
    run = one_run(
        tmp_path / "0",
        steps=steps_table(),
        document={"cost_totals": {"gemm_s": 4.0, "flops": 1e15}},
    )
    table = plotted_data("breakdown", [run])
    assert dict(zip(table["term"], table["seconds"], strict=True)) == {"gemm_s": 4.0, "idle_s": 6.0}


def test_steps_of_several_replications_are_averaged(tmp_path: Path) -> None:
    steps = pd.concat([steps_table().assign(replication=k) for k in range(2)])
    # the second begins 100 s later
    parts = [requests_table([100.0 * k, 100.0 * k + 2], [1.0, 2.0], [1, 101]) for k in range(2)]
    twice = pd.concat([part.assign(replication=k) for k, part in enumerate(parts)])
    run = write_run(tmp_path / "0", metrics=latency_metrics(1.0), requests=twice, steps=steps)
    found = plotted_data("breakdown", [run])
    seconds = dict(zip(found["term"], found["seconds"], strict=True))
    assert seconds["gemm_s"] == pytest.approx(3.5)
    assert seconds["idle_s"] == pytest.approx(3.0)


def test_instances_of_all_roles_may_be_idle(tmp_path: Path) -> None:
    cluster = {"num_instances": None, "num_prefill": 1, "num_decode": 3}
    run = one_run(
        tmp_path / "0", document={"cost_totals": {"gemm_s": 4.0}}, config={"cluster": cluster}
    )
    assert values(plotted_data("breakdown", [run]), term="idle_s") == pytest.approx([16 / 20])


def test_differences_are_those_of_the_comparison(tmp_path: Path) -> None:
    runs = study_runs(tmp_path, ("round_robin", "jsq", "random"))
    table = plotted_data("differences", runs, metrics=["ttft_p99_s"], baseline="jsq")
    expected = comparison(metrics_frame(runs), "jsq", ["ttft_p99_s"])
    expected = expected[expected["policy"] != "jsq"]
    assert table["relative_difference"].tolist() == expected["relative_difference"].tolist()
    assert table["verdict"].tolist() == expected["verdict"].tolist()
    # round_robin 0.2, jsq 0.21: 1 / 21 lower at every seed and rate
    first = table.iloc[0]
    assert first["series"] == "round_robin"
    assert first["relative_difference"] == pytest.approx(-1 / 21)
    halves = (table["high"] - table["relative_difference"]) - (
        table["relative_difference"] - table["low"]
    )
    assert halves.to_numpy() == pytest.approx(np.zeros(len(table)), abs=1e-12)


def test_differences_of_one_rate_or_of_too_many_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = study_runs(tmp_path / "few")
    one = plotted_data("differences", runs, rate=2.2)
    assert set(one["offered_rate_per_s"]) == {2.25}
    assert one.attrs["notes"] == []
    monkeypatch.setattr("experiments.figures.differences.MAX_ROWS", 1)
    many = plotted_data("differences", runs)
    assert set(many["offered_rate_per_s"]) == {1.125}
    assert many.attrs["notes"] == ["one rate of several is drawn: option rate"]


def test_an_unknown_baseline_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FigureError, match="unknown policy: fifo; allowed: jsq, round_robin"):
        plotted_data("differences", study_runs(tmp_path), baseline="fifo")


def test_the_smallest_of_many_classes_are_left_out(tmp_path: Path) -> None:
    tenants = [*(f"t{k:02}" for k in range(14)), *(f"t{k:02}" for k in range(2, 14))]
    requests = requests_table(range(26), [1.0] * 26, [2] * 26, tenant=tenants)
    run = write_run(tmp_path / "0", metrics=latency_metrics(1.0), requests=requests)
    table = plotted_data("classes", [run])
    assert sorted(set(table["class"])) == tenants[2:14]
    assert table.attrs["notes"] == ["the 2 smallest of 14 classes are not drawn"]


def test_classes_are_told_apart(tmp_path: Path) -> None:
    requests = requests_table(
        [0.0, 1.0, 2.0, 3.0], [1.0, 5.0, 3.0, 7.0], [2] * 4, slo_class=["a", "b", "a", "b"]
    )
    run = write_run(tmp_path / "0", metrics=latency_metrics(1.0), requests=requests)
    table = plotted_data("classes", [run])
    found = {
        (row["class"], row["metric"]): row["value"]
        for row in table.to_dict("records")
        if row["metric"].startswith("ttft")
    }
    assert found == pytest.approx(
        {
            ("a", "ttft_p50_s"): 2.0,
            ("a", "ttft_p99_s"): 2.98,
            ("b", "ttft_p50_s"): 6.0,
            ("b", "ttft_p99_s"): 6.98,
        }
    )
    assert set(table["num_requests"]) == {2.0}
    with pytest.raises(FigureError, match="no run has a tenant"):
        plotted_data("classes", [run], by="tenant")
