"""A mistake in the input: one clear line, exit code 2, no traceback."""

from pathlib import Path

import pytest

from tests.conftest import TINY, TINY_MOONCAKE, Flocksim

CASES = {
    "unknown key": ("engine.max_nums_seqs=1", "key of engine: max_nums_seqs", "max_num_seqs?"),
    "unknown section": ("rooting=x", "unknown key: rooting", "did you mean routing?"),
    "added key": ("+routing.foo=1", "unknown key of routing: foo", "view_delay_s"),
    "option of another router": ("routing.num_clients=2", "num_clients", "allowed: _target_"),
    "unknown option": ("routing=round_robbin", "routing=round_robbin", "mean round_robin?"),
    "unknown model": ("model=llama3_9b", "model=llama3_9b", "llama3_8b"),
    "key of a length": ("trace=sessions|trace.user.mena=2", "key of trace.user: mena", "mean?"),
    "merged length": ("trace=sessions|trace.turns={kind:fixed,value:3}", "value", "~trace.turns"),
    "path of a generated trace": ("trace.path=x", "reads no file", "choose the format", "mooncake"),
    "beginning of a key": ("trace=sessions|trace.rate=3", "did you mean rate_per_s or rate_scale?"),
    "name for a part's trace": (
        "trace=mix|trace.parts.chat.trace=synthetic",
        "trace.parts.chat.trace='synthetic'",
        "trace@trace.parts.chat.trace=KIND",
    ),
    "part outside its section": (
        "trace=mix|trace@parts.chat.trace=synthetic",
        "write trace@trace.parts.chat.trace",
    ),
    "part added outside its section": (
        "trace=mix|+trace@parts.more.trace=synthetic",
        "parts: the parts of trace=mix",
        "+trace@trace.parts.NAME.trace=KIND",
    ),
    "kind of a part that is not there": (
        "trace=mix|trace@trace.parts.more.trace=synthetic",
        "no such part",
        "+trace@trace.parts.NAME.trace=KIND",
    ),
    "key of a part that is not there": (
        "trace=mix|trace.parts.more.tenant=x",
        "unknown part of the trace: more; it has chat, batch",
        "+trace@trace.parts.more.trace=KIND",
    ),
    "label that a part lacks": (
        "trace=mix|+trace@trace.parts.more.trace=synthetic|trace.parts.more.tenant=x",
        "to add it: +trace.parts.more.tenant=...",
    ),
    "key that an added part lacks": (
        "trace=mix|+trace@trace.parts.more.trace=synthetic|trace.parts.more.trace.promt=5",
        "unknown key of trace.parts.more.trace: promt (did you mean prompt?)",
    ),
    "not an override": ("mooncake", "cannot read 'mooncake'", "write key=value"),
    "broken list": ("trace=[1", "cannot read 'trace=[1'", "write key=value"),
    "hydra's own key": ("hydra.foo=1", "hydra.foo", "flocksim --cfg hydra"),
    "no such file": ("trace=azure|trace.path=/no/such.csv", "/no/such.csv", "no such file"),
    "no path given": ("trace=mooncake", "trace.path is not set", "give trace.path="),
    "no instance": ("cluster.num_instances=0", "cluster.num_instances=0", "an integer >= 1"),
    "text for a number": ("cluster.num_instances=two", "'two'", "an integer >= 1"),
    "empty value": ("cluster.num_instances=", "num_instances=''", "an integer >= 1"),
    "float for an integer": (
        "engine.max_num_seqs=1.5",
        "1.5",
        "an integer >= 1 and <= 1000000000, or null",
    ),
    "negative seed": ("seed=-1", "seed=-1", ">= 0"),
    "text for a flag": ("check=maybe", "check='maybe'", "true or false"),
    "share above 1": ("engine.gpu_memory_utilization=1.5", "1.5", "<= 1"),
    "too many instances": ("cluster.num_instances=65537", "num_instances=65537", "<= 65536"),
    "blocks too long": ("engine.block_tokens=65537", "engine.block_tokens=65537", "<= 65536"),
    "too many blocks": ("engine.num_gpu_blocks=1000000000001", "num_gpu_blocks", "<= 10000000"),
    "context too long": ("engine.max_model_len=1000000001", "max_model_len", "<= 1000000000"),
    "too many seats": ("engine.max_num_seqs=1000000001", "max_num_seqs", "<= 1000000000"),
    "budget too large": ("engine.max_num_batched_tokens=1000000001", "tokens=", "<= 1000000000"),
    "seed too large": ("seed=9223372036854775808", "seed=9223372036854775808", "<= 92233720"),
    "period too short": (
        "routing=jsq|routing.publish_period_s=1e-7",
        "routing.publish_period_s=1e-07",
        "0 or a finite number >= 1e-06",
    ),
    "delayed view of a router that is blind": (
        "routing=round_robin|routing.view_delay_s=0.5",
        "routing.view_delay_s=0.5 has no effect",
        "RoundRobin does not look at the cluster",
    ),
    "published view of a router that is blind": (
        "routing=random|routing.publish_period_s=0.5",
        "routing.publish_period_s=0.5 has no effect",
        "Random does not look at the cluster",
    ),
    "weights too large for blocks given": (
        "model=llama2_70b|engine.num_gpu_blocks=1000",
        "does not fit a100_sxm_80gb",
        "tensor_parallel=2 would fit",
    ),
    "several values without a sweep": ("seed=0,1", "'seed=0,1'", "add -m"),
    "several options without a sweep": ("routing=jsq,random", "routing=jsq,random", "add -m"),
    "range without a sweep": ("seed=range(0,3)", "requires --multirun", "add -m"),
    "path with a comma": ("trace.path=a,b.jsonl", "Ambiguous", "trace.path='a=b c.jsonl'"),
    "path with an equals sign": ("trace.path=a=b.jsonl", "cannot read", "trace.path='a=b c"),
    "path with brackets": ("trace.path=a(b).jsonl", "cannot read", "trace.path='a=b c"),
    "number for an option": ("routing=3", "routing=3", "must be a string"),
    "no key": ("=1", "=1", "must be a string"),
    "no such search path": ("hydra.searchpath=[file:///no/such]", "/no/such", "not available"),
    "unknown fidelity": ("hardware.fidelity=exact", "'exact'", "one of roofline, calibrated"),
    "window backwards": ("trace.window_s=[5,2]", "trace.window_s", "> 5"),
    "window without requests": ("trace.window_s=[1e6,2e6]", "leaves no request", "span"),
    "seats over budget": ("engine.max_num_seqs=5000", "max_num_batched_tokens", "5000"),
    "utilization unread": (
        "engine.num_gpu_blocks=100|engine.gpu_memory_utilization=0.5",
        "has no effect",
        "num_gpu_blocks",
    ),
    "view both ways": (
        "routing=vllm_dp|routing.view_delay_s=1",
        "cannot both be set",
        "publish_period_s",
    ),
    "model too large": ("model=llama2_70b", "58.18 GiB missing", "tensor_parallel=2 would fit"),
    "model cannot be split": ("cluster.tensor_parallel=3", "tensor_parallel", "3"),
    "no such class": ("routing._target_=policies.routing.Nope", "cannot load this class", "Nope"),
    "class of another group": (
        "routing._target_=policies.batching.fcfs.FCFS",
        "policies.batching.fcfs.FCFS",
        "must have a method route()",
    ),
    "constructor refuses": ("routing=vllm_dp|routing.num_clients=0", "num_clients=0", "must be"),
    "section removed": ("~routing", "routing._target_ is missing", "class"),
    "broken reference": ("seed=${nothing}", "nothing", "not found"),
    "two sources of a model": ("model.path=x.json", "exactly one of", "model.name"),
    "no such model file": (
        "model=hf|model.path=/no/config.json",
        "/no/config.json",
        "No such file",
    ),
    "no such profile": ("hardware=from_file|hardware.path=/no.json", "/no.json", "No such file"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_ends_in_one_line_and_exit_code_2(name: str, flocksim: Flocksim) -> None:
    overrides, *expected = CASES[name]
    parts = overrides.split("|")
    is_other_trace = any(part.startswith("trace=") for part in parts)
    run = flocksim(*(() if is_other_trace else TINY), *parts)
    assert run.code == 2
    assert run.error_line.startswith("flocksim: error: ")
    for text in expected:
        assert text in run.error_line
    assert not (run.directory / "result.json").exists()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"a: [1\n", "own.yaml:2: expected ',' or ']'"),
        (b"a: 1\n\t- b\n", "own.yaml:2: found character"),
        (b"a: 1\na: 2\n", "own.yaml:2: found duplicate key a"),
        (b"- 1\n- 2\n", "own.yaml:1: must hold keys with values, found a list"),
        (b'a: "\xe9"\n', "own.yaml: is no UTF-8"),
    ],
)
def test_a_broken_yaml_is_named_with_its_line(
    content: bytes, told: str, flocksim: Flocksim, tmp_path: Path
) -> None:
    (tmp_path / "conf" / "routing").mkdir(parents=True)
    path = tmp_path / "conf" / "routing" / "own.yaml"
    path.write_bytes(content)
    run = flocksim(*TINY, f"hydra.searchpath=[file://{tmp_path}/conf]", "routing=own")
    assert run.code == 2
    assert f"{path.parent}/{told}" in run.error_line


def test_a_truncated_line_is_named(flocksim: Flocksim, tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl"
    path.write_text(TINY_MOONCAKE[:-20])
    run = flocksim("trace=mooncake", f"trace.path={path}")
    assert run.code == 2
    assert f"{path}:5: not valid JSON" in run.error_line


def test_disorder_is_refused_unless_sorted(flocksim: Flocksim, tmp_path: Path) -> None:
    path = tmp_path / "disorder.jsonl"
    path.write_text("".join(reversed(TINY_MOONCAKE.splitlines(keepends=True))))
    refused = flocksim("trace=mooncake", f"trace.path={path}")
    assert refused.code == 2
    assert "trace.sort=true" in refused.error_line
    assert flocksim("trace=mooncake", f"trace.path={path}", "trace.sort=true").code == 0


def test_an_unwritable_directory_is_named(flocksim: Flocksim, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    run = flocksim(*TINY, directory=tmp_path / "file" / "out")
    assert run.code == 2
    assert str(tmp_path / "file") in run.error_line


def test_a_policy_that_decides_nonsense_is_named(
    flocksim: Flocksim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nonsense_router.py").write_text(
        "from sim.interfaces import Router\n"
        "class Nonsense(Router):\n"
        "    def route(self, request, cluster, now_s):\n"
        "        return 99\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    run = flocksim(*TINY, "routing._target_=nonsense_router.Nonsense")
    assert run.code == 2
    assert "policy Nonsense: chose instance 99, allowed are 0 to 3" in run.error_line


def test_an_unknown_flag_shows_the_usage(flocksim: Flocksim) -> None:
    run = flocksim("--no-such-flag")
    assert run.code == 2
    assert "unrecognized arguments: --no-such-flag" in run.err


def test_flags_that_exclude_each_other_are_explained(flocksim: Flocksim) -> None:
    run = flocksim("-m", "--cfg", "job")
    assert run.code == 2
    assert "Only one of --run, --multirun, --cfg" in run.error_line


def test_a_defect_is_not_hidden(flocksim: Flocksim, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr("experiments.job.simulate", fail)
    with pytest.raises(ZeroDivisionError):
        flocksim(*TINY)


def test_nothing_comes_before_the_error_of_a_trace(flocksim: Flocksim, tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl"
    path.write_text(TINY_MOONCAKE[:-20])
    for place in (path, tmp_path / "no_such.jsonl"):
        run = flocksim("trace=mooncake", f"trace.path={place}")
        assert (run.code, run.out) == (2, "")
        assert str(place) in run.error_line
