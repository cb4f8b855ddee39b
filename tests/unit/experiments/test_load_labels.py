"""What tells jobs apart: policy labels and settings."""

from pathlib import Path

from experiments.results.load import Run, load_runs, metrics_frame
from tests.job_directories import write_job


def labels(runs: list[Run], *policy_keys: str) -> tuple[list[str], list[str]]:
    frame = metrics_frame(runs, policy_keys)
    return frame["policy"].tolist(), frame.attrs["settings"]


def test_a_policy_is_named_by_the_choices_that_vary(tmp_path: Path) -> None:
    write_job(tmp_path / "0", "routing=jsq", "batching=lpm")
    write_job(tmp_path / "1", "routing=random", "batching=lpm")
    assert labels(load_runs(tmp_path)) == (["jsq", "random"], [])
    write_job(tmp_path / "2", "routing=random", "batching=fcfs")
    assert labels(load_runs(tmp_path))[0] == ["jsq + lpm", "random + lpm", "random + fcfs"]


def test_a_lone_policy_is_named_by_its_router(tmp_path: Path) -> None:
    write_job(tmp_path / "0", "routing=jsq", seed=0)
    write_job(tmp_path / "1", "routing=jsq", seed=1)
    assert labels(load_runs(tmp_path)) == (["jsq", "jsq"], [])


def test_override_keys_and_other_choices_that_vary_are_settings(tmp_path: Path) -> None:
    write_job(tmp_path / "0", "trace.rate_scale=1", "model=llama3_8b", "trace.limit=5")
    write_job(tmp_path / "1", "trace.rate_scale=2", "model=llama2_7b", "trace.limit=5")
    frame = metrics_frame(load_runs(tmp_path))
    assert frame.attrs["settings"] == ["model", "trace.rate_scale"]
    assert frame["trace.rate_scale"].tolist() == [1.0, 2.0]


def test_what_is_written_and_seeds_are_no_settings(tmp_path: Path) -> None:
    write_job(tmp_path / "0", "output.steps=true", "check=true", seed=0)
    write_job(tmp_path / "1", "output.steps=false", "check=false", seed=1)
    assert labels(load_runs(tmp_path))[1] == []


def test_a_key_that_one_option_alone_has_is_its_parameter(tmp_path: Path) -> None:
    write_job(tmp_path / "0", "routing=jsq")
    write_job(tmp_path / "1", "routing=linear", "routing.weight=0.5")
    write_job(tmp_path / "2", "routing=linear", "routing.weight=2")
    runs = load_runs(tmp_path)
    assert labels(runs) == (["jsq", "linear weight=0.5", "linear weight=2"], [])
    assert metrics_frame(runs)["routing.weight"].tolist()[1:] == [0.5, 2.0]


def test_a_key_that_all_options_have_is_a_setting_unless_told(tmp_path: Path) -> None:
    for row, (router, delay) in enumerate([("jsq", 0), ("jsq", 1), ("random", 0), ("random", 1)]):
        write_job(tmp_path / str(row), f"routing={router}", f"routing.view_delay_s={delay}")
    runs = load_runs(tmp_path)
    assert labels(runs) == (["jsq", "jsq", "random", "random"], ["routing.view_delay_s"])
    policies, settings = labels(runs, "routing.view_delay_s")
    assert policies[:2] == ["jsq view_delay_s=0", "jsq view_delay_s=1"]
    assert settings == []


def test_a_difference_that_no_override_names_is_found(tmp_path: Path) -> None:
    write_job(tmp_path / "0", "routing=jsq", config={"cluster": {"num_instances": 4}})
    write_job(tmp_path / "1", "routing=jsq", config={"cluster": {"num_instances": 8}})
    frame = metrics_frame(load_runs(tmp_path))
    assert frame.attrs["settings"] == ["cluster.num_instances"]
    assert frame["cluster.num_instances"].tolist() == [4, 8]


def test_a_hidden_difference_is_found_between_policies_too(tmp_path: Path) -> None:
    write_job(tmp_path / "0", "routing=jsq", config={"cluster": {"num_instances": 4}})
    write_job(tmp_path / "1", "routing=random", config={"cluster": {"num_instances": 8}})
    assert labels(load_runs(tmp_path))[1] == ["cluster.num_instances"]


def test_what_belongs_to_a_policy_is_no_hidden_difference(tmp_path: Path) -> None:
    write_job(tmp_path / "0", "routing=jsq", config={"routing": {"_target_": "a.Jsq"}})
    write_job(tmp_path / "1", "routing=random", config={"routing": {"_target_": "a.Random"}})
    assert labels(load_runs(tmp_path)) == (["jsq", "random"], [])


def test_another_state_of_the_code_makes_another_setting_of_the_same_job(tmp_path: Path) -> None:
    for name, digest in (("0", "a"), ("1", "b")):
        job = tmp_path / name
        write_job(job, "routing=jsq", provenance={"sources_sha256": digest * 64})
    frame = metrics_frame(load_runs(tmp_path))
    assert frame.attrs["settings"] == ["sources"]
    assert frame["sources"].tolist() == ["a" * 8, "b" * 8]


def test_a_job_that_could_not_run_makes_no_settings(tmp_path: Path) -> None:
    write_job(tmp_path / "0", "routing=jsq", "trace.limit=5")
    write_job(tmp_path / "1", "routing=random", "trace.limit=5")
    write_job(tmp_path / "2", "batching=lpm", "model=huge", "trace.limit=9", status="infeasible")
    assert labels(load_runs(tmp_path))[0][:2] == ["jsq", "random"]
    assert labels(load_runs(tmp_path))[1] == []


def test_a_container_is_shown_as_it_was_given(tmp_path: Path) -> None:
    for name, given, high in (("0", "64-256", 256), ("1", "64-512", 512)):
        lengths = {"kind": "uniform", "low": 64, "high": high}
        write_job(tmp_path / name, f"trace.prompt={given}", config={"trace": {"prompt": lengths}})
    frame = metrics_frame(load_runs(tmp_path))
    assert frame["trace.prompt"].tolist() == ["64-256", "64-512"]


def test_a_section_given_whole_is_told_by_what_differs_in_it(tmp_path: Path) -> None:
    for users in (8, 16):
        process = {"kind": "closed_loop", "concurrency": users}
        given = f"trace.arrivals={{kind: closed_loop, concurrency: {users}}}"
        write_job(tmp_path / f"{users}", given, config={"trace": {"arrivals": process}})
    frame = metrics_frame(load_runs([tmp_path / "8", tmp_path / "16"]))
    assert frame.attrs["settings"] == ["trace.arrivals.concurrency"]
    assert frame["trace.arrivals.concurrency"].tolist() == [8, 16]


def test_clusters_with_roles_and_without_are_policies(tmp_path: Path) -> None:
    decode = "routing@cluster.decode_routing"
    write_job(tmp_path / "0", "cluster=colocated", config={"cluster": {"num_instances": 4}})
    for row, router in enumerate(("jsq", "random"), start=1):
        overrides = ["cluster=distserve", f"{decode}={router}"]
        write_job(tmp_path / str(row), *overrides, config={"cluster": {"num_decode": 2}})
    runs = load_runs(tmp_path)
    expected = ["colocated", "distserve + jsq", "distserve + random"]
    assert labels(runs) == (expected, [])
    assert labels(runs[:2])[0] == ["colocated", "distserve"]
