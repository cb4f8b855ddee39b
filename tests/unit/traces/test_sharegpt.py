"""Conversations without times: tokens by characters, prompts that grow, arrivals, and faults."""

import hashlib
import json
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim.errors import ConfigError, TraceFormatError
from sim.rng import stream
from traces.build import build_workload
from traces.readers import text_file
from traces.readers.parquet_table import ParquetTrace
from traces.readers.reading import FaultFinding
from traces.readers.sharegpt import PAIRS, ShareGptTrace
from traces.readers.vllm_bench import VllmBenchTrace
from traces.schema import TraceTable
from traces.synthetic.arrivals import poisson_arrivals


def chat(*texts: str, first: str = "human") -> dict[str, Any]:
    """A conversation in which human and model take turns."""
    roles = ("human", "gpt") if first == "human" else ("gpt", "human")
    messages = [{"from": roles[i % 2], "value": text} for i, text in enumerate(texts)]
    return {"id": "x", "conversations": messages}


TWO = [chat("a" * 5, "b" * 8, "c" * 9, "d"), chat("e" * 40, "f" * 3)]
"""Prompt and output tokens at 4 characters a token: (2, 2), (2 + 2 + 3, 1) and (10, 1)."""


def write(folder: Path, content: Any, indent: int | None = None) -> Path:
    path = folder / "chats.json"
    text = content if isinstance(content, str) else json.dumps(content, indent=indent)
    path.write_text(text)
    return path


def read(path: Path, seed: int = 0, **options: Any) -> TraceTable:
    return ShareGptTrace(path=path, **{"rate_per_s": 1.0, **options}).load(seed)


def by_session(table: TraceTable) -> TraceTable:
    assert table.session_id is not None and table.turn is not None
    return table.take(np.lexsort((table.turn, table.session_id)))


def test_a_prompt_is_all_that_was_said_before(tmp_path: Path) -> None:
    table = by_session(read(write(tmp_path, TWO)))
    assert table.prompt_tokens.tolist() == [2, 7, 10]
    assert table.output_tokens.tolist() == [2, 1, 1]
    assert table.session_id is not None and table.session_id.tolist() == [0, 0, 1]
    assert table.turn is not None and table.turn.tolist() == [0, 1, 0]
    assert table.parent_id is not None and table.parent_id.tolist() == [-1, 0, -1]


def test_a_follow_up_finds_prompt_and_answer_of_the_turn_before(tmp_path: Path) -> None:
    table = by_session(read(write(tmp_path, TWO)))
    assert table.runs is not None and table.output_run is not None
    assert table.runs.tokens is not None
    assert table.runs.offsets.tolist() == [0, 1, 4, 5]
    assert table.runs.tokens.tolist() == [2, 2, 2, 3, 10]
    ids = table.runs.ids.tolist()
    assert ids[1] == ids[0]
    assert len(set(ids)) == 4
    assert table.output_run.tolist() == [ids[2], -1, -1]
    source = ShareGptTrace(path=write(tmp_path, TWO), rate_per_s=1.0)
    workload = build_workload(source, seed=0)
    second = int(np.flatnonzero(workload.prompt_tokens == 7)[0])
    assert workload.shared_tokens()[second] == 4


def test_conversations_that_begin_alike_share_what_precedes_the_first_answer(
    tmp_path: Path,
) -> None:
    def with_system(question: str) -> dict[str, Any]:
        roles = ("system", "user", "assistant", "user", "assistant")
        texts = ("be brief" * 8, question, "yes", "why", "so")
        messages = [{"role": r, "content": t} for r, t in zip(roles, texts, strict=True)]
        return {"messages": messages}

    chats = [with_system("is it?"), with_system("is it?"), with_system("was it?")]
    table = by_session(read(write(tmp_path, chats)))
    assert table.prompt_tokens.tolist() == [18, 20, 18, 20, 18, 20]
    assert table.runs is not None
    ids, offsets = table.runs.ids.tolist(), table.runs.offsets.tolist()
    prompts = [ids[a:b] for a, b in pairwise(offsets)]
    assert prompts[0] == prompts[2] != prompts[4]
    assert prompts[0][0] == prompts[4][0]
    assert prompts[1][:2] == prompts[3][:2]
    assert prompts[1][2] != prompts[3][2]  # answers are a conversation's own
    assert prompts[1][3] != prompts[3][3]


def test_answers_in_a_row_are_one_and_an_early_answer_is_context(tmp_path: Path) -> None:
    messages = [
        {"from": "gpt", "value": "w" * 4},
        {"from": "human", "value": "x" * 8},
        {"from": "human", "value": "y" * 1},
        {"from": "gpt", "value": "z" * 5},
        {"from": "gpt", "value": ""},
        {"from": "gpt", "value": "z" * 5},
        {"from": "human", "value": "unanswered"},
    ]
    table = read(write(tmp_path, [{"conversation": messages}]))
    assert table.prompt_tokens.tolist() == [1 + 2 + 1]
    assert table.output_tokens.tolist() == [4]


@pytest.mark.parametrize(("chars", "tokens"), [(1.0, 5), (2.5, 2), (4.0, 2), (5.0, 1), (100.0, 1)])
def test_tokens_are_characters_over_their_number_rounded_up(
    tmp_path: Path, chars: float, tokens: int
) -> None:
    path = write(tmp_path, [chat("äöü漢字", "b")])
    assert read(path, chars_per_token=chars).prompt_tokens.tolist() == [tokens]


def test_lists_lines_and_sequences_of_objects_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = read(write(tmp_path, TWO))
    texts = [
        json.dumps(TWO, indent=2),
        "\n".join(map(json.dumps, TWO)),
        "".join(json.dumps(item, indent=1) for item in TWO),
        " \n" + json.dumps(TWO) + "\n\n",
    ]
    for piece_bytes in (1, 7, 1000):
        monkeypatch.setattr(text_file, "PIECE_BYTES", piece_bytes)
        for text in texts:
            table = read(write(tmp_path, text))
            assert table.prompt_tokens.tolist() == whole.prompt_tokens.tolist()
            assert table.arrival_s.tolist() == whole.arrival_s.tolist()


@pytest.mark.parametrize("pair", PAIRS)
def test_counted_tokens_are_taken_as_they_are(tmp_path: Path, pair: tuple[str, str]) -> None:
    rows = [{pair[0]: 5, pair[1]: 6}, {pair[0]: 7, pair[1]: 8, "other": None}]
    csv = f"x,{pair[1]},{pair[0]}\na,6,5\nb,8,7\n"
    for content in (rows, "\n".join(map(json.dumps, rows)), csv):
        table = read(write(tmp_path, content))
        assert table.prompt_tokens.tolist() == [5, 7]
        assert table.output_tokens.tolist() == [6, 8]
        assert table.runs is None
        assert table.output_run is None


def test_counts_and_texts_may_be_mixed(tmp_path: Path) -> None:
    table = by_session(read(write(tmp_path, [{"prompt_len": 9, "output_len": 1}, *TWO])))
    assert table.prompt_tokens.tolist() == [9, 2, 7, 10]
    assert table.runs is not None
    assert np.diff(table.runs.offsets).tolist() == [0, 1, 3, 1]
    assert (
        build_workload(
            ShareGptTrace(path=tmp_path / "chats.json", rate_per_s=2.0), seed=0
        ).num_requests
        == 4
    )


def test_conversations_start_at_the_rate_of_requests(tmp_path: Path) -> None:
    """Three turns in two conversations: these start at 2/3 of the rate of requests."""
    table = by_session(read(write(tmp_path, TWO), 5, rate_per_s=3.0, think_time_s=4.0))
    starts = poisson_arrivals(5, 2, 2.0)
    think_s = stream(5, "trace.think_time").standard_exponential(3) * 4.0
    follow_up = starts[0] + 2 * 0.02 + think_s[1]
    assert table.arrival_s == pytest.approx([starts[0], follow_up, starts[1]], rel=1e-12)
    for name in ("after", "delay_s", "concurrency"):
        assert getattr(table, name) is None
    twice = by_session(read(tmp_path / "chats.json", 5, rate_per_s=6.0, think_time_s=4.0))
    assert twice.arrival_s[[0, 2]] == pytest.approx(starts / 2, rel=1e-12)


def test_in_a_closed_loop_a_follow_up_waits_for_the_end(tmp_path: Path) -> None:
    path = write(tmp_path, TWO)
    table = by_session(read(path, 5, closed_loop=True, think_time_s=4.0))
    assert table.after is not None and table.delay_s is not None
    assert table.after.tolist() == [-1, 0, -1]
    think_s = stream(5, "trace.think_time").standard_exponential(3) * 4.0
    assert table.delay_s.tolist() == [0.0, think_s[1], 0.0]
    loop = {"kind": "closed_loop", "concurrency": 1, "think_time_s": 3, "think": "fixed"}
    table = by_session(read(path, closed_loop=True, arrivals=loop, rate_per_s=None))
    assert table.concurrency == 1
    assert table.delay_s is not None
    assert table.delay_s[[0, 2]].tolist() == [3.0, 3.0]
    with pytest.raises(ConfigError, match=r"trace.closed_loop=False: must be true"):
        read(path, arrivals=loop)


def test_turns_may_be_limited(tmp_path: Path) -> None:
    table = read(write(tmp_path, TWO), max_turns=1)
    assert sorted(table.prompt_tokens.tolist()) == [2, 10]
    assert table.output_run is not None
    assert table.output_run.tolist() == [-1, -1]
    starts = poisson_arrivals(0, 2, 1.0)
    assert table.arrival_s == pytest.approx(starts, rel=1e-12)


def test_provenance_names_digest_options_and_seed(tmp_path: Path) -> None:
    path = write(tmp_path, TWO)
    assert read(path, 3).provenance == {
        "format": "sharegpt",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "num_rows": 3,
        "options": {
            "rate_per_s": 1.0,
            "arrivals": "poisson",
            "max_turns": None,
            "chars_per_token": 4.0,
            "skip_empty": False,
            "think_time_s": 10.0,
            "service_s_per_token": 0.02,
            "closed_loop": False,
        },
        "seed": 3,
    }


EMPTY = [chat("only a question"), chat("q", "", "r", "s"), chat("", "a"), *TWO, chat()]


def test_empty_turns_are_refused_or_left_out_and_counted(tmp_path: Path) -> None:
    path = write(tmp_path, EMPTY, indent=0)
    with pytest.raises(TraceFormatError) as caught:
        read(path)
    assert caught.value.line == 2
    assert caught.value.why == (
        "has no answer to a question (trace.skip_empty=true leaves such turns out)"
    )
    finding = FaultFinding(path)
    assert ShareGptTrace(path=path, rate_per_s=1.0).read(finding).num_requests == 4
    assert [fault.kind for fault in finding.faults] == ["empty"] * 4
    table = by_session(read(path, skip_empty=True))
    assert table.prompt_tokens.tolist() == [2, 2, 7, 10]
    assert table.provenance["skipped"] == {"empty": 4}
    with pytest.raises(TraceFormatError, match="has no conversation with an answer to a question"):
        read(write(tmp_path, EMPTY[:1]), skip_empty=True)


BAD_FILES: dict[str, tuple[str, int, str]] = {
    "no keys": (
        '[\n{"id": 1}]',
        2,
        "object has no messages (conversations, messages, conversation)",
    ),
    "later line": ('[\n{\n"prompt_len": 1, "output_len": 1\n},\n{"id": 4}]', 5, "object has no"),
    "messages": ('{"messages": 3}', 1, "messages 3: must be a list"),
    "message": ('{"messages": [3]}', 1, "message 3: must be an object"),
    "role": ('{"messages": [{"role": "cat", "content": "x"}]}', 1, "role 'cat': must be one of"),
    "no role": ('{"messages": [{"content": "x"}]}', 1, "role None: must be one of assistant, bard"),
    "text": ('{"messages": [{"role": "user", "content": 3}]}', 1, "text of user 3: must be a text"),
    "counts": ('{"prompt_len": 1, "output_len": 0}', 1, "output_len 0: must be an integer from 1"),
    "string": ('["x"]', 1, "'\"x\"]\\n': must be a JSON object"),
    "cut": ('[{"messages":\n [3, \n}', 3, "not valid JSON: Expecting value"),
    "no end": (json.dumps(TWO)[:-1], 1, "not valid JSON: list has no end"),
    "comma": (json.dumps(TWO)[:-1] + ",]", 1, "not valid JSON: comma before ]"),
    "no comma": (
        json.dumps(TWO).replace('}, {"id', '} {"id'),
        1,
        "not valid JSON: no comma between",
    ),
    "after": (json.dumps(TWO) + "\n1", 2, "not valid JSON: text after the end of the list"),
    "bracket": (json.dumps(TWO[0]) + "\n]", 2, "not valid JSON: ] without ["),
    "none": ("[ ]", 0, "is empty, must have at least one object"),
    "deep": ('{"a": ' + "[" * 100_000, 1, "not valid JSON: maximum recursion depth exceeded"),
    "header": ("a,b\n1,2\n", 1, "header has no messages"),
    "cell": ("prompt_len,output_len\n1,2\n1,x\n", 3, "output_len 'x': must be an integer"),
    "fields": ("prompt_len,output_len\n1\n", 2, "1 fields in '1': must be 2, as in the header"),
    "long": (f"[{json.dumps(chat('a' * 11, 'b'))}]", 1, "prompt of 11 tokens: must be at most 10"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_is_refused_in_one_line(
    tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, line, why = BAD_FILES[case]
    options: dict[str, Any] = {}
    if case == "long":
        monkeypatch.setattr("traces.readers.chats.MAX_TOKENS", 10)
        options["chars_per_token"] = 1.0
    path = write(tmp_path, text)
    with pytest.raises(TraceFormatError) as caught:
        read(path, **options)
    assert caught.value.why.startswith(why)
    assert caught.value.line == line
    assert "\n" not in str(caught.value)
    try:
        ShareGptTrace(path=path, rate_per_s=1.0, **options).read(FaultFinding(path))
    except TraceFormatError as error:
        assert "\n" not in error.why


def test_an_object_with_a_key_twice_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    twice = '{"messages": [{"role": "user", "role": "user", "content": "x"}]}'
    path.write_text(f'[{twice},\n{{"prompt_len": 3, "output_len": 4}},\n{twice}]')
    finding = FaultFinding(path)
    assert ShareGptTrace(path=path, rate_per_s=1.0).read(finding).prompt_tokens.tolist() == [3]
    why = "key 'role' appears twice"
    assert [(f.line, f.kind, f.why) for f in finding.faults] == [
        (line, "repeated key", why) for line in (1, 3)
    ]
    path.write_text(twice)
    assert ShareGptTrace(path=path, rate_per_s=1.0).read(FaultFinding(path)).num_requests == 0
    with pytest.raises(TraceFormatError, match=why):
        VllmBenchTrace(path=path).read(FaultFinding(path))


def test_what_is_read_twice_is_no_pipe(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    for source in (ShareGptTrace(path=path, rate_per_s=1.0), ParquetTrace(path)):
        with pytest.raises(TraceFormatError, match="is a pipe, must be a file"):
            source.load(0)


def test_good_conversations_are_read_beside_bad_ones(tmp_path: Path) -> None:
    path = write(tmp_path, [{"messages": 3}, TWO[0], {"id": 4}, {"prompt_len": 0, "output_len": 0}])
    finding = FaultFinding(path)
    table = ShareGptTrace(path=path, rate_per_s=1.0).read(finding)
    assert [fault.kind for fault in finding.faults] == [
        "messages",
        "object",
        "prompt_len",
        "output_len",
    ]
    assert table.num_requests == 2
    path = write(tmp_path, [{"id": 4}])
    finding = FaultFinding(path)
    assert ShareGptTrace(path=path, rate_per_s=1.0).read(finding).num_requests == 0


def test_prompts_that_repeat_too_much_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("traces.readers.chats.MAX_RUNS", 4)
    with pytest.raises(
        TraceFormatError, match=r"repeat more than 4 messages, give trace.max_turns"
    ):
        read(write(tmp_path, TWO))
    assert read(write(tmp_path, TWO), max_turns=1).num_requests == 2


BAD_OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "rate": ({"rate_per_s": 0}, "trace.rate_per_s=0: must be"),
    "no rate": ({"rate_per_s": None}, "trace.rate_per_s=None: must be"),
    "arrivals": ({"arrivals": "x"}, "trace.arrivals.kind='x': must be one of"),
    "turns": ({"max_turns": 0}, "trace.max_turns=0: must be an integer >= 1"),
    "chars": ({"chars_per_token": 0}, "trace.chars_per_token=0: must be"),
    "skip": ({"skip_empty": 1}, "trace.skip_empty=1: must be true or false"),
    "think": ({"think_time_s": -1}, "trace.think_time_s=-1: must be"),
    "service": ({"service_s_per_token": "x"}, "trace.service_s_per_token='x': must be"),
    "loop": ({"closed_loop": 1}, "trace.closed_loop=1: must be true or false"),
}


@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_bad_options_are_refused(case: str) -> None:
    options, why = BAD_OPTIONS[case]
    with pytest.raises(ConfigError, match=why):
        ShareGptTrace(**{"path": "x.json", "rate_per_s": 1.0, **options})
