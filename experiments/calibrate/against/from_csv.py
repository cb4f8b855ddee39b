"""Measured runs as a plain CSV file with a header, times in seconds.

Columns `arrival_s`, `prompt_tokens`, `output_tokens` and `ttft_s`, and one that tells how long the
rest took: `itls_s` (gaps separated by blanks or semicolons), else `e2e_s` (start to last token),
else `tpot_s` (mean gap). Further columns are not read. A row without `ttft_s`, or with no output,
is a request that failed.
"""

from experiments.calibrate.against.file_times import FileTimes
from experiments.calibrate.against.measured_run import MeasuredRows, MeasuredRun
from traces.options import shown
from traces.readers.csv_rows import CsvRows
from traces.readers.reading import Reading

COLUMNS = ("arrival_s", "prompt_tokens", "output_tokens", "ttft_s")
RESTS = ("itls_s", "e2e_s", "tpot_s")
"""Columns that tell when the last token came; the first of them that is there counts."""


def read_csv(reading: Reading) -> MeasuredRun:
    """Read the table.

    Raises:
        TraceFormatError: a column is missing, or a row is damaged.
    """
    source = CsvRows(reading)
    rest = next((name for name in RESTS if name in source.header), None)
    if rest is None:
        found = ", ".join(source.header)
        raise reading.refuse(1, f"no column {', '.join(RESTS[:-1])} or {RESTS[-1]}; it has {found}")
    index = [source.index(name) for name in (*COLUMNS, rest)]
    rows = MeasuredRows(reading)
    for lines, columns, faults in source.batches():
        for fault in faults:
            raise reading.refuse(fault.line, fault.why)
        fields = [columns[i] for i in index]
        for line, *texts in zip(lines.tolist(), *fields, strict=True):
            _add(reading, rows, line, [text.strip() for text in texts], rest)
    return rows.run("csv", source.sha256)


def _add(reading: Reading, rows: MeasuredRows, line: int, texts: list[str], rest: str) -> None:
    start, prompt, output, ttft, last = texts
    if not ttft or _number(output) == 0:
        rows.fail()
        return
    lengths = {"prompt_tokens": _number(prompt), "output_tokens": _number(output)}
    times = FileTimes(reading, 1.0)
    ttft_s = times.time_s(line, "", "ttft_s", _number(ttft))
    gaps_s = None
    if rest == "itls_s":
        gaps_s = times.gaps_s(line, "", rest, list(map(_number, last.replace(";", " ").split())))
        decode_s = float(gaps_s.sum())
    elif lengths["output_tokens"] == 1:
        decode_s = 0.0
    else:
        last_s = times.time_s(line, "", rest, _number(last))
        num_tokens = lengths["output_tokens"]
        if not isinstance(num_tokens, int | float):
            raise reading.refuse(line, f"output_tokens {shown(output)}: must be an integer")
        decode_s = last_s - ttft_s if rest == "e2e_s" else (num_tokens - 1) * last_s
    rows.add(line, "", lengths, _number(start), ttft_s, decode_s, gaps_s)


def _number(text: str) -> int | float | str:
    """The number of a field, an integer where it is one; the text if it is none."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
