"""Files of a job: text of JSON, atomic writing, keys, flags, columns."""

from pathlib import Path

import numpy as np
import pytest

from experiments.composing import compose_config
from experiments.job import JobRun, simulate_job
from experiments.results.atomic import OutputError, make_writable, write_atomically, write_text
from experiments.results.job_key import foreign_sources, sources_sha256, without_paths
from experiments.results.json_text import canonical_json, json_text
from experiments.results.tables import column, name_column, request_table
from experiments.schema.plugin import Plugin
from tests.conftest import TINY


def simulated(*overrides: str) -> JobRun:
    return simulate_job(*compose_config([*TINY, *overrides]))


def flags(run: JobRun) -> dict[str, dict[str, object]]:
    return {flag["flag"]: flag for flag in run.document["flags"]}


def test_json_writes_nan_and_infinities_as_null_and_floats_exactly() -> None:
    value = {"b": float("nan"), "a": [0.1, float("inf"), np.float64(2.5), np.int64(3)]}
    assert json_text(value).replace("\n", "").replace(" ", "") == '{"b":null,"a":[0.1,null,2.5,3]}'


def test_canonical_json_does_not_depend_on_the_order_of_keys() -> None:
    assert canonical_json({"b": 1, "a": 2}) == canonical_json({"a": 2, "b": 1}) == '{"a":2,"b":1}'


def test_json_refuses_what_it_cannot_write() -> None:
    with pytest.raises(TypeError, match="no JSON for object"):
        json_text({"a": object()})


def test_a_failed_write_keeps_the_old_file_and_leaves_no_temporary_one(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_text(path, "old")

    def half(temporary: Path) -> None:
        temporary.write_text("ha")
        raise OSError(28, "No space left on device")

    with pytest.raises(OutputError, match=r"result\.json: cannot be written: No space left"):
        write_atomically(path, half)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_directory_below_a_file_is_not_writable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        make_writable(tmp_path / "file" / "out")
    make_writable(tmp_path / "new" / "out")
    assert list((tmp_path / "new" / "out").iterdir()) == []


def test_paths_are_left_out_of_the_configuration_at_any_depth() -> None:
    config = {"trace": {"path": "/x", "sort": True}, "path": 1, "seed": 2}
    assert without_paths(config) == {"trace": {"sort": True}, "seed": 2}


def test_the_job_key_follows_every_value_that_decides_the_result() -> None:
    keys = [
        simulated(*overrides).document["job_key"]
        for overrides in ([], ["seed=1"], ["slo.ttft_s=1"], ["routing=jsq"], ["trace.limit=39"])
    ]
    assert len(set(keys)) == 5
    assert simulated().document["job_key"] == keys[0]


def test_sources_of_our_packages_and_of_foreign_plugins_are_hashed() -> None:
    ours = Plugin(key="p", target="policies.batching.fcfs.FCFS", options={})
    foreign = Plugin(key="p", target="json.JSONDecoder", options={})
    assert list(foreign_sources([ours, foreign])) == ["json"]
    assert len(sources_sha256()) == 64


def test_requests_beyond_the_context_are_flagged_with_their_share() -> None:
    flag = flags(simulated("trace.prompt=8192", "trace.limit=10"))["max_model_len_not_enforced"]
    assert (flag["num_requests"], flag["share_ratio"]) == (10, 1.0)
    assert flag["max_context_tokens"] == 8192
    assert "max_model_len_not_enforced" not in flags(simulated())


def test_an_enforced_length_rejects_prompts_and_cuts_outputs() -> None:
    run = simulated("trace.prompt=100", "trace.output=50", "engine.max_model_len=120")
    assert flags(run)["outputs_cut"]["num_requests"] == 40
    assert "max_model_len_not_enforced" not in flags(run)
    run = simulated("trace.prompt=100", "engine.max_model_len=100")
    assert flags(run)["over_max_model_len"]["num_requests"] == 40


def test_what_was_cut_from_the_trace_is_flagged() -> None:
    run = simulated("trace.window_s=2", "trace.limit=5", "trace.rate_scale=3", "trace.output=1")
    found = flags(run)
    assert found["trace_window"]["window_s"] == 2
    assert found["trace_limit"]["limit"] == 5
    assert found["trace_rate_scaled"]["rate_scale"] == 3
    assert found["one_token_outputs"]["num_requests"] == 5
    assert run.metrics["tpot_mean_s"] is None
    texts = [str(found[name]["text"]) for name in ("trace_window", "trace_limit")]
    assert texts == [
        "only arrivals from 0 s to 2 s of the trace",
        "only the first 5 requests of the trace",
    ]


def test_a_single_request_is_spoken_of_in_the_singular() -> None:
    found = flags(simulated("trace.limit=1", "trace.output=1"))
    assert found["trace_limit"]["text"] == "only the first request of the trace"
    assert found["one_token_outputs"]["text"] == "1 request has one output token and no TPOT"
    run = simulated("trace.limit=1", "trace.prompt=100", "engine.max_model_len=100")
    assert flags(run)["over_max_model_len"]["text"] == (
        "1 request rejected: it has a prompt of engine.max_model_len or more"
    )
    run = simulated("trace.limit=2", "trace.prompt=100", "engine.max_model_len=100")
    assert flags(run)["over_max_model_len"]["text"] == (
        "2 requests rejected: they have a prompt of engine.max_model_len or more"
    )


def test_transforms_are_told_in_plain_words() -> None:
    run = simulated(
        "trace.sample=0.999",
        "trace.scale_prompt=2",
        "trace.scale_output=0.5",
        "trace.max_output_tokens=1",
        "trace.max_prompt_tokens=1000000",
        "trace.strip_prefixes=true",
        "trace.copies=2",
        "trace.anonymise=true",
        "trace.replay_concurrency=64",
    )
    texts = {name: flag["text"] for name, flag in flags(run).items() if name.startswith("trace_")}
    num_cut = flags(run)["trace_num_outputs_cut"]["num_outputs_cut"]
    assert texts == {
        "trace_sample": "a random 99.9 % of the sessions and single requests (seed 0)",
        "trace_scale_prompt": "prompts 2 times as long as in the trace",
        "trace_scale_output": "outputs 0.5 times as long as in the trace",
        "trace_max_output_tokens": "outputs of at most 1 token",
        "trace_num_outputs_cut": f"{num_cut} outputs were cut",
        "trace_max_prompt_tokens": "prompts of at most 1,000,000 tokens",
        "trace_num_prompts_cut": "0 prompts were cut",
        "trace_strip_prefixes": "no two prompts share anything",
        "trace_copies": "2 copies of the trace at once, begun at random places (seed 0)",
        "trace_anonymise": "numbers in place of ids and names",
        "trace_replay_concurrency": "replayed by 64 users, think time 0 s",
    }
    run = simulated("trace.shift_s=3", "trace.poissonise=true")
    assert flags(run)["trace_shift_s"]["text"] == "arrivals 3 s later than in the trace"
    assert "Poisson process (seed 0)" in str(flags(run)["trace_poissonise"]["text"])


def test_a_resampled_recording_names_no_seed_of_a_single_replication(mooncake_file: Path) -> None:
    overrides = ["trace=mooncake", f"trace.path={mooncake_file}", "replications=2"]
    flag = flags(simulate_job(*compose_config(overrides)))["trace_resampled"]
    assert flag["text"] == (
        "16 stretches of the recording drawn with replacement, in this and every further "
        "replication (replication 1)"
    )


def test_refused_requests_and_given_blocks_are_flagged() -> None:
    run = simulated(
        "admission=token_bucket", "admission.burst_tokens=300", "engine.num_gpu_blocks=99"
    )
    assert flags(run)["refused_at_admission"]["num_requests"] == run.metrics["num_rejected"]
    assert run.metrics["num_rejected"]
    assert flags(run)["num_gpu_blocks_given"]["num_gpu_blocks"] == 99
    assert run.document["provenance"]["kv_capacity"] is None


def test_engine_sizes_in_the_result_are_those_that_were_used() -> None:
    engine = simulated("hardware=h100_sxm").document["config"]["engine"]
    assert (engine["max_num_seqs"], engine["max_num_batched_tokens"]) == (1024, 8192)


def test_a_column_has_nulls_where_told() -> None:
    values = column(np.array([1.5, 2.5, 3.5]), np.array([False, True, False]))
    assert values.to_pylist() == [1.5, None, 3.5]
    assert column(np.arange(20), np.arange(20) % 3 == 0).null_count == 7
    assert column(np.array([1, 2], dtype=np.int32)).to_pylist() == [1, 2]


def test_names_are_null_without_a_code_or_without_a_name() -> None:
    names = name_column(np.array([0, 1, -1, 2]), ("a", None, "grün"))
    assert names.to_pylist() == ["a", None, None, "grün"]
    assert name_column(np.array([-1]), ()).to_pylist() == [None]


def test_sessions_appear_in_the_request_table() -> None:
    run = simulate_job(*compose_config(["trace.num_requests=30"]))
    table = request_table(run.result)
    rows = table.to_pylist()
    assert {"session_id", "turn", "parent_id"} <= set(table.column_names)
    turns = {row["request_id"]: (row["session_id"], row["turn"]) for row in rows}
    children = [row for row in rows if row["parent_id"] is not None]
    assert 0 < len(children) < len(rows)
    for row in children:
        assert turns[row["parent_id"]] == (row["session_id"], row["turn"] - 1)
