"""What is written of routing: decisions.parquet, its summary, figures of every instance."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from experiments import api
from experiments.compare.build import compare_runs
from experiments.compare.markdown import markdown_text
from experiments.composing import compose_config
from experiments.job import run_job, simulate_job
from experiments.results.instances import instance_metrics
from experiments.results.load import ResultError, load_run
from experiments.results.routing import decision_table, hotspot_metrics, routing_summary
from policies.routing.lmetric import LMetric
from policies.routing.lpwl import LPWL
from policies.routing.round_robin import RoundRobin
from sim.decision_log import DecisionRecords
from tests.conftest import TINY
from tests.engine_runs import run_engine
from tests.twin.stories import Ask, workload_of

SESSIONS = (
    "trace=sessions",
    "trace.num_requests=60",
    "trace.rate_per_s=50",
    "trace.user=20-200",
    "trace.output=1-60",
    "trace.system_prompt_tokens=300",
    "cluster.num_instances=3",
)


def records(**columns: Any) -> DecisionRecords:
    """Three decisions between two instances: 10 tokens missed, 2 requests too many, a draw."""
    given: dict[str, Any] = {
        "request_id": [0, 1, 2],
        "time_s": [0.0, 1.0, 2.0],
        "instance": [0, 1, 0],
        "score": [5.0, 6.0, np.nan],
        "other_score": [5.0, 8.0, np.nan],
        "other_instance": [1, 0, -1],
        "hit_tokens": [10, 20, 0],
        "other_hit_tokens": [20, 0, 0],
        "num_requests": [3, 1, 1],
        "other_num_requests": [1, 1, 2],
        "queued_tokens": [0, 0, 40],
        "other_queued_tokens": [5, 0, 10],
        "num_better": [1, 0, 0],
        "hotspot_class": [-1, 7, 7],
        "hotspot_state": [-1, 1, 2],
        "scores": [[5.0, 5.0], [8.0, 6.0], [np.nan, np.nan]],
    }
    arrays = {name: np.array(values) for name, values in {**given, **columns}.items()}
    return DecisionRecords(**arrays, smaller_is_better=True, has_detector=True)


PROMPTS = np.array([40, 40, 20])


def test_what_was_given_up_is_the_excess_of_the_best_other_instance() -> None:
    found = routing_summary(records(), PROMPTS, np.ones(3, dtype=np.bool_))
    assert found == {
        "num_decisions": 3,
        "longer_hit_elsewhere_ratio": 1 / 3,
        "hit_tokens_given_up_mean_tokens": 10 / 3,
        "hit_tokens_given_up_ratio": 0.1,
        "fewer_requests_elsewhere_ratio": 1 / 3,
        "excess_requests_mean": 2 / 3,
        "fewer_queued_tokens_elsewhere_ratio": 1 / 3,
        "excess_queued_mean_tokens": 10.0,
        "dominated_choice_ratio": 1 / 3,
        "num_scored_decisions": 2,
        "tied_score_ratio": 0.5,
        "better_score_elsewhere_ratio": 0.0,
        "score_margin_mean_ratio": 0.125,
        "score_margin_p50_ratio": 0.125,
    }


def test_a_better_score_elsewhere_is_told_in_its_own_sense() -> None:
    drawn = records(score=[5.0, 9.0, 3.0], other_score=[5.0, 8.0, 4.0])
    found = routing_summary(drawn, PROMPTS, np.ones(3, dtype=np.bool_))
    assert found["better_score_elsewhere_ratio"] == 1 / 3


def test_requests_of_the_warm_up_do_not_count() -> None:
    found = routing_summary(records(), PROMPTS, np.array([False, True, True]))
    assert found["num_decisions"] == 2
    assert found["longer_hit_elsewhere_ratio"] == 0.0
    nothing = routing_summary(records(), PROMPTS, np.zeros(3, dtype=np.bool_))
    assert nothing["longer_hit_elsewhere_ratio"] is None
    assert nothing["score_margin_p50_ratio"] is None


def test_a_lone_instance_gives_nothing_up() -> None:
    alone = {name: [-1] * 3 for name in ("other_num_requests", "other_queued_tokens")}
    found = routing_summary(records(**alone), PROMPTS, np.ones(3, dtype=np.bool_))
    assert found["excess_requests_mean"] == found["excess_queued_mean_tokens"] == 0.0


def test_rows_of_decisions_are_null_where_there_is_nothing() -> None:
    rows = decision_table(records()).to_pylist()
    assert rows[0]["scores"] == [5.0, 5.0]
    assert rows[2]["scores"] is rows[2]["score"] is rows[2]["other_instance"] is None
    assert [row["hotspot_state"] for row in rows] == [None, "alarm", "filter"]
    assert [row["hotspot_class"] for row in rows] == [None, 7, 7]
    blind = records(score=[np.nan] * 3, scores=[[np.nan, np.nan]] * 3)
    assert decision_table(blind)["scores"].to_pylist() == [None] * 3


def test_hotspot_counts_are_null_without_a_detector() -> None:
    assert set(hotspot_metrics(RoundRobin()).values()) == {None}
    assert set(hotspot_metrics(LMetric()).values()) == {None}
    assert set(hotspot_metrics(LMetric(hotspot="sliding")).values()) == {0}


def test_instances_have_their_requests_hits_and_time_means() -> None:
    asks = [Ask(0, 20, 3, (0,)), Ask(1, 20, 3, (0,)), Ask(10, 20, 3, (0,))]
    workload = workload_of(asks, [(-1, 16)])
    result = run_engine(workload, router=LPWL(), num_instances=2)
    rows = instance_metrics(result, np.ones(3, dtype=np.bool_))
    # All on instance 0, where the second and the third one find 16 tokens; 3 s each, and the
    # first step of the second one begins at 1 s; the last one ends at 13 s.
    assert rows == [
        {
            "num_requests": 3,
            "request_share_ratio": 1.0,
            "prompt_tokens": 60,
            "cached_tokens": 32,
            "prefix_hit_ratio": 32 / 60,
            "mean_requests": 9 / 13,
        },
        {
            "num_requests": 0,
            "request_share_ratio": 0.0,
            "prompt_tokens": 0,
            "cached_tokens": 0,
            "prefix_hit_ratio": None,
            "mean_requests": 0.0,
        },
    ]


def test_instances_sum_to_the_cluster() -> None:
    run = simulate_job(*compose_config([*SESSIONS, "trace.warmup_requests=10"]))
    rows = run.document["instances"]
    assert [row["instance"] for row in rows] == [0, 1, 2]
    assert sum(row["num_requests"] for row in rows) == run.metrics["num_requests"] == 50
    assert sum(row["request_share_ratio"] for row in rows) == pytest.approx(1)
    hits = sum(row["cached_tokens"] for row in rows) / sum(row["prompt_tokens"] for row in rows)
    assert hits == run.metrics["prefix_hit_ratio"]


def test_a_request_that_is_handed_over_counts_where_it_was_prefilled_and_where_it_decodes() -> None:
    pools = ("cluster=disaggregated", "cluster.num_prefill=2", "cluster.num_decode=1")
    asked = [item for item in SESSIONS if not item.startswith("cluster.")]
    run = simulate_job(*compose_config([*asked, *pools, "output.decisions=true"]))
    handed_over = int(np.count_nonzero(run.result.requests.instance == 2))
    first, second, decode = run.document["instances"]
    assert first["num_requests"] + second["num_requests"] == 60
    assert decode["num_requests"] == handed_over > 0
    assert decode["prefix_hit_ratio"] is None
    cached, prompts = (first[k] + second[k] for k in ("cached_tokens", "prompt_tokens"))
    assert cached / prompts == run.metrics["prefix_hit_ratio"]
    # Every request is on one instance at a time.
    requests = run.result.requests
    spent_s = float((requests.finish_s - requests.arrival_s).sum())
    span_s = float(requests.finish_s.max() - requests.arrival_s.min())
    means = sum(row["mean_requests"] for row in (first, second, decode))
    assert means == pytest.approx(spent_s / span_s)
    assert run.document["routing"]["num_decisions"] == 60


def test_a_job_writes_its_decisions_on_request(tmp_path: Path) -> None:
    asked = (*SESSIONS, "routing=lmetric", "output.decisions=true", "replications=2")
    run_job(*compose_config(asked), asked, tmp_path)
    table = pq.read_table(tmp_path / "decisions.parquet")
    assert table.num_rows == 120
    assert table["replication"].to_pylist() == [0] * 60 + [1] * 60
    assert len(table["scores"][0].as_py()) == 3
    document = json.loads((tmp_path / "result.json").read_text())
    assert document["routing"]["num_decisions"] == 60
    run = load_run(tmp_path)
    assert len(run.decisions) == 120
    (extra,) = compare_runs([run])[1].extras
    assert extra.rows[0][0] == "lmetric"
    assert "### Decisions: what another instance would have given" in markdown_text(
        compare_runs([run])[1]
    )


def test_without_being_asked_no_decision_is_written(tmp_path: Path) -> None:
    asked = (*TINY, "output.decisions=true")
    run_job(*compose_config(asked), asked, tmp_path)
    run_job(*compose_config(TINY), TINY, tmp_path)
    assert not (tmp_path / "decisions.parquet").exists()
    run = load_run(tmp_path)
    assert run.document["routing"] is None
    assert not compare_runs([run])[1].extras
    with pytest.raises(ResultError, match=r"no decisions.parquet: .* output.decisions=true"):
        _ = run.decisions


def test_the_same_run_writes_the_same_decisions(tmp_path: Path) -> None:
    asked = [*SESSIONS, "routing=linear", "output.decisions=true"]
    first, second = (api.run(*asked, directory=tmp_path / name) for name in ("a", "b"))
    assert api.decisions([first, second])["request_id"].tolist() == [*range(60)] * 2
    files = [run.directory / "decisions.parquet" for run in (first, second)]
    assert files[0].read_bytes() == files[1].read_bytes()
