"""Conversations without times, such as those of ShareGPT, or plain pairs of lengths.

A file is a JSON list of objects, or objects one after the other (JSON lines), or a CSV file. An
object holds messages under `conversations`, `messages` or `conversation` (each with `from` and
`value`, or `role` and `content`), or a prompt's and an output's token count under one of the pairs
of names in `PAIRS`; a CSV file has the counts in columns of these names.

The token counts of texts are estimates: characters / `chars_per_token`, rounded up, per message.
A follow-up's prompt is all that was said before, and it finds the prompt and the answer of the turn
before it in a cache; conversations that begin with the same texts share them.

Source: the layout of ShareGPT_V3_unfiltered_cleaned_split.json and of OpenAI's chat messages.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from traces.options import require_bool, require_int, require_number, require_path, shown
from traces.readers.chat_turns import MESSAGES
from traces.readers.chats import Chats
from traces.readers.csv_rows import CsvRows, LineFault
from traces.readers.json_elements import JsonElements
from traces.readers.reading import Reading
from traces.readers.session_times import SessionTimes, in_order
from traces.readers.source_file import provenance_of_file, why_not_tokens
from traces.readers.text_fields import text_field
from traces.readers.text_file import TextFile
from traces.schema import TraceTable

PAIRS = (
    ("prompt_tokens", "output_tokens"),
    ("input_tokens", "output_tokens"),
    ("prompt_len", "output_len"),
    ("input_length", "output_length"),
)
"""Names of a prompt's and an output's token count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGptTrace:
    """Conversations that start as an arrival process (`traces.readers.session_times`).

    Attributes:
        path: the JSON or CSV file.
        rate_per_s: mean requests per second.
        arrivals: process of the conversations' starts (`traces.synthetic.arrivals`).
        max_turns: only so many turns of each conversation; null for all.
        chars_per_token: characters taken for a token.
        skip_empty: leave out conversations without an answer to a question, and turns in which one
            of the two is empty, instead of refusing them.
        think_time_s: mean of the exponential think time before a follow-up, seconds.
        service_s_per_token: estimated service time per output token, seconds.
        closed_loop: whether a follow-up waits for the end of the turn before it.
    """

    path: str | Path
    rate_per_s: float | None
    arrivals: str | Mapping[str, Any] = "poisson"
    max_turns: int | None = None
    chars_per_token: float = 4.0
    skip_empty: bool = False
    think_time_s: float = 10.0
    service_s_per_token: float = 0.02
    closed_loop: bool = False

    def __post_init__(self) -> None:
        require_path("trace.path", self.path)
        if self.max_turns is not None:
            require_int("trace.max_turns", self.max_turns, 1)
        require_number("trace.chars_per_token", self.chars_per_token, low=0.1, high=1000)
        require_bool("trace.skip_empty", self.skip_empty)
        self._times()

    def load(self, seed: int) -> TraceTable:
        """Read the file; conversations start at times drawn with `seed`."""
        return self.read(Reading(self.path), seed)

    def read(self, reading: Reading, seed: int = 0) -> TraceTable:
        """Read the file in one pass; conversations start at times drawn with `seed`.

        Raises:
            TraceFormatError: the file breaks its format, in a strict pass at the first bad row.
        """
        chats = Chats(reading, self.chars_per_token, self.max_turns, self.skip_empty)
        sha256 = _read_json(reading, chats) if _is_json(reading) else _read_csv(reading, chats)
        if chats.num_empty and not len(chats.prompts):
            raise reading.refuse(0, "has no conversation with an answer to a question")
        num_turns = np.array(chats.num_turns, dtype=np.int64)
        output_tokens = np.array(chats.outputs, dtype=np.int64)
        runs, output_run = chats.runs.columns()
        n = len(output_tokens)
        turn = np.arange(n) - np.repeat(np.cumsum(num_turns) - num_turns, num_turns)
        table = TraceTable(
            prompt_tokens=np.array(chats.prompts, dtype=np.int64),
            output_tokens=output_tokens,
            runs=runs,
            output_run=output_run,
            session_id=np.repeat(np.arange(len(num_turns)), num_turns),
            turn=turn,
            parent_id=np.where(turn == 0, -1, np.arange(n) - 1),
            provenance=self._provenance(reading, sha256, n, seed),
            **self._times().columns(seed, num_turns, output_tokens),
        )
        return in_order(table)

    def _times(self) -> SessionTimes:
        return SessionTimes(
            self.rate_per_s,
            self.arrivals,
            self.think_time_s,
            self.service_s_per_token,
            self.closed_loop,
        )

    def _provenance(
        self, reading: Reading, sha256: str, num_rows: int, seed: int
    ) -> dict[str, Any]:
        options = {name: value for name, value in asdict(self).items() if name != "path"}
        found = {**provenance_of_file("sharegpt", sha256, num_rows, options), "seed": seed}
        return {**found, "skipped": dict(reading.skipped)} if self.skip_empty else found


def _is_json(reading: Reading) -> bool:
    if Path(reading.path).is_fifo():
        raise reading.refuse(0, "is a pipe, must be a file: its beginning is read twice")
    for _, piece in TextFile(Reading(reading.path)).pieces():
        if piece.strip():
            return piece.lstrip()[:1] in (b"[", b"{")
    raise AssertionError("a blank file was let through")


def _read_json(reading: Reading, chats: Chats) -> str:
    """Take in all objects; the digest."""
    source = JsonElements(reading)
    for line, row in source.objects():
        key = next((key for key in MESSAGES if key in row), None)
        pair = next((pair for pair in PAIRS if pair[0] in row and pair[1] in row), None)
        if key is not None:
            chats.add(line, row[key])
        elif pair is not None:
            bad = [(name, why) for name in pair if (why := why_not_tokens(name, row[name]))]
            for name, why in bad:
                reading.fault(line, name, why)
            if not bad:
                chats.add_counts(row[pair[0]], row[pair[1]])
        else:
            reading.fault(line, "object", f"object has {_wanted()}")
    if not source.num_objects:
        raise reading.refuse(0, "is empty, must have at least one object")
    return source.sha256


def _read_csv(reading: Reading, chats: Chats) -> str:
    """Take in all rows; the digest."""
    source = CsvRows(reading)
    pair = next((pair for pair in PAIRS if set(pair) <= set(source.header)), None)
    if pair is None:
        raise reading.refuse(1, f"header has {_wanted()}")
    indices = [source.index(name) for name in pair]
    for lines, columns, faults in source.batches():
        found = list(faults)
        counts = [
            text_field(field, columns[i], "s", None)
            for field, i in zip(("prompt_tokens", "output_tokens"), indices, strict=True)
        ]
        is_bad = counts[0].is_bad | counts[1].is_bad
        for row in np.flatnonzero(is_bad).tolist():
            for name, values in zip(pair, counts, strict=True):
                if values.is_bad[row]:
                    why = f"{name} {shown(values.raw(row))}: must be {values.rule}"
                    found.append(LineFault(int(lines[row]), name, why))
        for fault in sorted(found, key=lambda fault: fault[0]):
            reading.fault(*fault)
        good = np.flatnonzero(~is_bad)
        pairs = (values.values[good].tolist() for values in counts)
        for prompt_tokens, output_tokens in zip(*pairs, strict=True):
            chats.add_counts(prompt_tokens, output_tokens)
    return source.sha256


def _wanted() -> str:
    pairs = "; ".join(f"{prompt} and {output}" for prompt, output in PAIRS)
    return f"no messages ({', '.join(MESSAGES)}) and no pair of token counts ({pairs})"
