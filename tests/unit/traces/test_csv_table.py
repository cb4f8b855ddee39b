"""CSV files of any kind: columns by name, units, quoting, and a line for every fault."""

import gzip
import hashlib
from pathlib import Path
from typing import Any

import pytest

from sim.errors import ConfigError, TraceFormatError
from traces.options import MAX_TOKENS
from traces.readers import csv_rows
from traces.readers.csv_table import CsvTrace
from traces.readers.reading import FaultFinding
from traces.schema import TraceTable

NAMES = {"arrival_s": "t", "prompt_tokens": "in", "output_tokens": "out"}


def write(folder: Path, *lines: str, end: str = "\n") -> Path:
    path = folder / "t.csv"
    path.write_bytes("\n".join(lines).encode() + end.encode())
    return path


def read(path: Path, **options: Any) -> TraceTable:
    return CsvTrace(path, **{"columns": NAMES, **options}).load(0)


def test_columns_are_found_by_name_in_any_order(tmp_path: Path) -> None:
    path = write(tmp_path, "x, out ,t,in", "a,3,10.5,7", "b,4,11,8")
    table = read(path)
    assert table.arrival_s.tolist() == [0.0, 0.5]
    assert table.prompt_tokens.tolist() == [7, 8]
    assert table.output_tokens.tolist() == [3, 4]
    for name in ("runs", "tenant", "slo_class", "session_id", "turn", "priority"):
        assert getattr(table, name) is None


def test_our_own_names_need_no_options(tmp_path: Path) -> None:
    path = write(tmp_path, "arrival_s,prompt_tokens,output_tokens", "2,3,4")
    assert CsvTrace(path).load(0).prompt_tokens.tolist() == [3]


def test_all_optional_columns(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "t,in,out,who,class,chat,turn,prio,ids",
        '0,40,1,acme,fast,s9,0,-2,"1 2,3"',
        "1,40,1,,fast,,1,5,",
        "2,33,1,zeta,slow,s9,0,0,[1; 2]",
        "3,33,1,acme,fast,s1,0,0,5000000000",
    )
    columns = {
        **NAMES,
        "tenant": "who",
        "slo_class": "class",
        "session_id": "chat",
        "turn": "turn",
        "priority": "prio",
        "hash_ids": "ids",
    }
    table = read(path, columns=columns, block_tokens=16)
    assert table.tenant is not None and table.slo_class is not None and table.runs is not None
    assert [table.tenant.name_of(i) for i in range(4)] == ["acme", None, "zeta", "acme"]
    assert table.slo_class.names == ("fast", "slow")
    assert table.session_id is not None and table.session_id.tolist() == [0, -1, 0, 1]
    assert table.turn is not None and table.turn.tolist() == [0, 1, 0, 0]
    assert table.priority is not None and table.priority.tolist() == [-2, 5, 0, 0]
    assert table.runs.ids.tolist() == [1, 2, 3, 1, 2, 5_000_000_000]
    assert table.runs.offsets.tolist() == [0, 3, 3, 5, 6]
    assert table.runs.block_tokens == 16


def test_ids_that_fit_take_four_bytes(tmp_path: Path) -> None:
    columns = {**NAMES, "hash_ids": "ids"}
    path = write(tmp_path, "t,in,out,ids", f"0,40,1,{2**31 - 1}")
    table = read(path, columns=columns, block_tokens=16)
    assert table.runs is not None
    assert table.runs.ids.dtype == "int32"


@pytest.mark.parametrize(
    ("unit", "times", "seconds"),
    [
        ("s", ["100", "100.25"], 0.25),
        ("s", ["1e2", "+100.25"], 0.25),
        ("ms", ["5", "7"], 0.002),
        ("ms", ["5.0", "7.5"], 0.0025),
        ("us", ["1700000000000000", "1700000000000001"], 1e-6),
        ("ns", ["1700000000000000000", "1700000000000000001"], 1e-9),
        ("iso8601", ["2023-11-16 18:17:03.9799600", "2023-11-16T18:17:04"], 0.02004),
        ("iso8601", ["2024-02-29 23:59:59.999999999Z", "2024-03-01 00:00Z"], 1e-9),
        ("iso8601", ["2024-01-01T01:00:00+01:00", "2023-12-31T22:30:01-0130"], 1.0),
    ],
)
def test_times_of_every_unit(tmp_path: Path, unit: str, times: list[str], seconds: float) -> None:
    path = write(tmp_path, "t,in,out", *(f"{time},1,1" for time in times))
    assert read(path, time_unit=unit).arrival_s.tolist() == pytest.approx([0, seconds], rel=1e-12)


def test_times_may_be_taken_as_they_are(tmp_path: Path) -> None:
    path = write(tmp_path, "t,in,out", "1500,1,1", "2500,1,1")
    table = read(path, time_unit="ms", time_origin="zero")
    assert table.arrival_s.tolist() == [1.5, 2.5]


def test_whole_numbers_may_be_written_as_floats(tmp_path: Path) -> None:
    path = write(tmp_path, "t,in,out", "0,374.0,1e3", "1, 5 ,7")
    table = read(path)
    assert table.prompt_tokens.tolist() == [374, 5]
    assert table.output_tokens.tolist() == [1000, 7]


def test_quoted_fields_hold_delimiters_quotes_and_newlines(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        't;in;out;"who; what"',
        '0;1;1;"a;""b"""',
        '1;1;1;"two',
        'lines"',
        '2;1;1; "c;"',
        "x;1;1;d",
    )
    columns = {**NAMES, "tenant": "who; what"}
    finding = FaultFinding(path)
    table = CsvTrace(path, columns=columns, delimiter=";").read(finding)
    assert table.tenant is not None
    assert table.tenant.names == ('a;"b"', "two\nlines", "c;", "d")
    assert [fault.line for fault in finding.faults] == [6]


def test_any_delimiter_newline_and_packing_will_do(tmp_path: Path) -> None:
    path = write(tmp_path, "t\tin\tout", "0\t1\t2")
    assert read(path, delimiter="\t").output_tokens.tolist() == [2]
    path.write_bytes(gzip.compress(b"\xef\xbb\xbft,in,out\r\n0,1,2\r\n1,3,4"))
    table = read(path)
    assert table.output_tokens.tolist() == [2, 4]
    content = b"\xef\xbb\xbft,in,out\r\n0,1,2\r\n1,3,4"
    assert table.provenance == {
        "format": "csv",
        "sha256": hashlib.sha256(content).hexdigest(),
        "num_rows": 2,
        "options": {
            "columns": NAMES,
            "time_unit": "s",
            "time_origin": "first",
            "block_tokens": None,
            "delimiter": ",",
            "sort": False,
        },
    }


def test_a_file_read_in_many_batches_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = {**NAMES, "tenant": "who", "hash_ids": "ids"}
    lines = [
        f"{i},{50 + i},{i + 1},{'abc'[i % 3]},{' '.join(map(str, range(i % 4)))}" for i in range(40)
    ]
    path = write(tmp_path, "t,in,out,who,ids", *lines)
    whole = read(path, columns=columns, block_tokens=16)
    assert whole.runs is not None and whole.tenant is not None
    for rows in (1, 7, 39, 40, 41):
        monkeypatch.setattr(csv_rows, "BATCH_ROWS", rows)
        table = read(path, columns=columns, block_tokens=16)
        assert table.runs is not None and table.tenant is not None
        assert table.prompt_tokens.tolist() == list(range(50, 90))
        assert table.runs.ids.tolist() == whole.runs.ids.tolist()
        assert table.runs.offsets.tolist() == whole.runs.offsets.tolist()
        assert table.tenant.codes.tolist() == [i % 3 for i in range(40)]


RANGE = f"must be an integer from 1 to {MAX_TOKENS:,}"

BAD_ROWS = {
    "blank": ("", "blank line, must have 5 fields"),
    "short": ("1,2,3,4", "4 fields in '1,2,3,4': must be 5, as in the header"),
    "long": ("1,2,3,4,5,6", "6 fields in '1,2,3,4,5,6': must be 5, as in the header"),
    "no time": (",1,1,,", "t '': must be a number of s"),
    "word": ("soon,1,1,,", "t 'soon': must be a number of s"),
    "nan": ("nan,1,1,,", "t 'nan': must be a number of s"),
    "infinite": ("1e999,1,1,,", "t '1e999': must be a number of s"),
    "underscore": ("1_0,1,1,,", "t '1_0': must be a number of s"),
    "no prompt": ("1,0,1,,", f"in '0': {RANGE}"),
    "absent": ("1,,1,,", f"in '': {RANGE}"),
    "half": ("1,2.5,1,,", f"in '2.5': {RANGE}"),
    "arabic": ("1,٣,1,,", f"in '٣': {RANGE}"),
    "negative": ("1,1,-1,,", f"out '-1': {RANGE}"),
    "huge": (f"1,1,{MAX_TOKENS + 1},,", f"out '10000001': {RANGE}"),
    "endless": (f"1,1,{'9' * 5000},,", f"out '{'9' * 56}...: {RANGE}"),
    "turn": ("1,1,1,-1,", "n '-1': must be an integer from 0 to 1,000,000,000,000,000,000"),
    "id": ("1,9,1,0,1 x", "ids '1 x': must be integers from 0 to"),
    "negative id": ("1,9,1,0,1 -2", "ids '1 -2': must be integers from 0 to"),
    "large id": (f"1,9,1,0,{2**62 + 1}", f"ids '{2**62 + 1}': must be integers from 0 to"),
    "ids": ("1,16,1,0,1 2", "ids has 2 ids: must be at most one per started 16 tokens"),
    "quote": ('1,1,1,"0"x,', "row cannot be read: ',' expected after '\"'"),
    "open quote": ('1,1,1,"0,', "row cannot be read: quotes that never end"),
}


@pytest.mark.parametrize("case", BAD_ROWS)
def test_a_bad_row_is_refused_with_its_line(tmp_path: Path, case: str) -> None:
    row, why = BAD_ROWS[case]
    path = write(tmp_path, "t,in,out,n,ids", "0,1,1,0,", "0,16,1,1,7", row)
    columns = {**NAMES, "turn": "n", "hash_ids": "ids"}
    with pytest.raises(TraceFormatError) as caught:
        read(path, columns=columns, block_tokens=16)
    assert caught.value.line == 4
    assert caught.value.why.startswith(why)
    assert len(str(caught.value).splitlines()) == 1
    finding = FaultFinding(path)
    table = CsvTrace(path, columns=columns, block_tokens=16).read(finding)
    assert finding.faults[0].why == caught.value.why
    assert table.prompt_tokens.tolist() == [1, 16]
    assert table.runs is not None and table.runs.ids.tolist() == [7]


def test_every_fault_is_found_and_the_rest_is_read(tmp_path: Path) -> None:
    path = write(
        tmp_path, "t,in,out", "0,0,0", "1,1,1", "x,2", "3,5,", "2,6,1", '4,"7"b,1', "5,8,1"
    )
    finding = FaultFinding(path)
    table = CsvTrace(path, columns=NAMES).read(finding)
    assert [(fault.line, fault.kind) for fault in finding.faults] == [
        (2, "in"),
        (2, "out"),
        (4, "fields"),
        (5, "out"),
        (7, "row"),
    ]
    assert table.prompt_tokens.tolist() == [1, 6, 8]
    path = write(tmp_path, "t,in,out", "0,0,0")
    assert CsvTrace(path, columns=NAMES).read(FaultFinding(path)).num_requests == 0


def test_disorder_is_refused_or_sorted(tmp_path: Path) -> None:
    path = write(tmp_path, "t,in,out", "5,1,1", "bad,9,9", "7,2,1", "6.5,3,1", "5,4,1")
    finding = FaultFinding(path)
    table = CsvTrace(path, columns=NAMES).read(finding)
    assert [(f.line, f.kind) for f in finding.faults] == [(3, "t"), (5, "order"), (6, "order")]
    assert table.prompt_tokens.tolist() == [1, 4, 3, 2]
    path = write(tmp_path, "t,in,out", "5,1,1", "7,2,1", "6.5,3,1")
    with pytest.raises(TraceFormatError, match=r"t.csv:4: arrives 0.5 s before .*trace.sort=true"):
        read(path)
    table = read(path, sort=True)
    assert table.arrival_s.tolist() == [0.0, 1.5, 2.0]
    assert table.prompt_tokens.tolist() == [1, 3, 2]


def test_times_that_are_too_far_or_negative_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "t,in,out", "-5,1,1", "1000000000,2,1")
    with pytest.raises(TraceFormatError, match=r"t.csv:3: arrives at 1000000005 s: must be from 0"):
        read(path)
    with pytest.raises(TraceFormatError, match=r"t.csv:2: arrives at -5 s: must be from 0 to"):
        read(path, time_origin="zero")


@pytest.mark.parametrize(
    "time",
    [
        "2023-02-29 00:00:00",
        "2023-1-1 00:00:00",
        "2023-01-01",
        "2023-01-01 25:00:00",
        "1.5",
        "2200-01-01 00:00",
    ],
)
def test_dates_that_do_not_exist_are_refused(tmp_path: Path, time: str) -> None:
    path = write(tmp_path, "t,in,out", "2023-01-01 00:00:00,1,1", f"{time},1,1")
    with pytest.raises(TraceFormatError, match=r"t.csv:3: t .*: must be a date and time like"):
        read(path, time_unit="iso8601")


def test_a_missing_column_is_named_with_those_there_are(tmp_path: Path) -> None:
    path = write(tmp_path, "t,inn,out,out", "0,1,1,1")
    with pytest.raises(TraceFormatError) as caught:
        read(path)
    assert (caught.value.line, caught.value.why) == (
        1,
        "no column 'in' (trace.columns.prompt_tokens) (did you mean inn?); it has t, inn, out, out",
    )
    with pytest.raises(TraceFormatError, match="column 'out' occurs more than once"):
        read(path, columns={**NAMES, "prompt_tokens": "inn"})


def test_files_without_rows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceFormatError, match=r"t.csv:1: no rows after the header"):
        read(write(tmp_path, "t,in,out"))
    with pytest.raises(TraceFormatError, match=r"t.csv: is empty"):
        read(write(tmp_path, ""))
    with pytest.raises(TraceFormatError, match=r"t.csv:1: header cannot be read: ',' expected"):
        read(write(tmp_path, '"t"x,in,out', "0,1,1"))


BAD_OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "no mapping": ({"columns": ["t"]}, r"trace.columns=\['t'\]: must be a mapping"),
    "unknown field": ({"columns": {**NAMES, "tennant": "x"}}, r"did you mean tenant\?"),
    "required": ({"columns": {**NAMES, "arrival_s": None}}, "trace.columns.arrival_s is missing"),
    "name": ({"columns": {**NAMES, "turn": 3}}, "trace.columns.turn=3: must be a column's name"),
    "unit": ({"time_unit": "min"}, "trace.time_unit='min': must be one of s, ms, us, ns, iso8601"),
    "origin": ({"time_origin": 0}, "trace.time_origin=0: must be one of first, zero"),
    "dates": ({"time_unit": "iso8601", "time_origin": "zero"}, "dates have no zero"),
    "blocks": ({"block_tokens": 16}, "trace.block_tokens=16: must be given with"),
    "no blocks": ({"columns": {**NAMES, "hash_ids": "h"}}, "trace.block_tokens=None: must be"),
    "delimiter": ({"delimiter": ",,"}, "trace.delimiter=',,': must be one character"),
    "quote": ({"delimiter": '"'}, "must be one character"),
    "sort": ({"sort": 1}, "trace.sort=1: must be true or false"),
    "path": ({"path": ""}, "trace.path='': must be the path"),
}


@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_bad_options_are_refused(case: str) -> None:
    options, why = BAD_OPTIONS[case]
    with pytest.raises(ConfigError, match=why):
        CsvTrace(**{"path": "t.csv", "columns": NAMES, **options})


def test_a_row_that_cannot_be_read_is_named_by_the_line_on_which_it_begins(tmp_path: Path) -> None:
    rows = [
        "0,1,1,a",
        '1,1,1,"b',
        "1,1,1,c",
        '1,1,1,"d',
        "2,2,1,e\rf",
        "3,3,1,g",
        '4,1,1,"h',
        "5,1",
    ]
    path = write(tmp_path, "t,in,out,who", *rows)
    finding = FaultFinding(path)
    table = CsvTrace(path, columns={**NAMES, "tenant": "who"}).read(finding)
    assert [(fault.line, fault.why) for fault in finding.faults] == [
        (3, "row up to line 5 cannot be read: ',' expected after '\"'"),
        (6, "row cannot be read: carriage return outside quotes and not at the end of a line"),
        (8, "row up to line 9 cannot be read: quotes that never end"),
    ]
    assert table.prompt_tokens.tolist() == [1, 3]
