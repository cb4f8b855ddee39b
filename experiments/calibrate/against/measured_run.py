"""A run that was measured: what each request asked for, when, and how fast it was answered."""

from array import array
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.workload import FloatArray, IntArray, Workload
from traces.options import MAX_TIME_S, shown
from traces.readers.reading import Reading
from traces.readers.source_file import provenance_of_file, why_not_tokens

BoolArray = npt.NDArray[np.bool_]

NANOSECONDS = 1_000_000_000
"""Ticks of a second where times are in nanoseconds."""

_LARGEST_CLOCK = 1e19
"""No clock, of nanoseconds since 1970 either, shows more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """Columns over the n requests that were answered, in the order of their starts.

    Attributes:
        format: kind of file.
        sha256: digest of its content.
        arrival_s: start of each request, seconds from the first one on. Shape (n,).
        prompt_tokens: length of its prompt. Shape (n,).
        output_tokens: tokens that it got. Shape (n,).
        ttft_s: time to its first token. Shape (n,).
        decode_s: from the first token to the last one; 0 with one token. Shape (n,).
        gaps_s: all gaps between tokens, request by request; None if the file has none.
        num_gaps: how many of them are of each request. Shape (n,).
        num_failed: requests of the file that failed; they are in no column.
    """

    format: str
    sha256: str
    arrival_s: FloatArray
    prompt_tokens: IntArray
    output_tokens: IntArray
    ttft_s: FloatArray
    decode_s: FloatArray
    gaps_s: FloatArray | None
    num_gaps: IntArray
    num_failed: int

    @property
    def num_requests(self) -> int:
        """Requests that were answered."""
        return len(self.arrival_s)

    @property
    def tpot_s(self) -> FloatArray:
        """Time per output token after the first; NaN where there is none to measure. Shape (n,)."""
        is_known = (self.output_tokens > 1) & (self.decode_s > 0)
        tpot_s: FloatArray = np.full(self.num_requests, np.nan)
        tpot_s[is_known] = self.decode_s[is_known] / (self.output_tokens[is_known] - 1)
        return tpot_s

    @property
    def e2e_s(self) -> FloatArray:
        """From the start to the last token. Shape (n,)."""
        return self.ttft_s + self.decode_s

    @property
    def has_a_gap_per_token(self) -> bool:
        """Whether every token but the first came by itself, up to 1 % of them.

        Where a server sends several tokens at a time, gaps are those between messages.
        """
        expected = int((self.output_tokens - 1).sum())
        return self.gaps_s is not None and abs(len(self.gaps_s) - expected) <= 0.01 * expected

    def gaps_of(self, is_counted: BoolArray) -> FloatArray:
        """The gaps of some requests, seconds; the run must have gaps."""
        assert self.gaps_s is not None
        return self.gaps_s[np.repeat(is_counted, self.num_gaps)]

    def workload(self) -> Workload:
        """The same requests at the same times; no prompt shares anything with another one."""
        return Workload.without_sharing(
            self.arrival_s,
            self.prompt_tokens,
            self.output_tokens,
            provenance=provenance_of_file(self.format, self.sha256, self.num_requests, {}),
        )


class MeasuredRows:
    """Growing columns of requests.

    Args:
        reading: told of what is wrong with a request.
        num_ticks: ticks of the recorded starts in a second.

    Attributes:
        num_failed: requests that failed so far.
    """

    def __init__(self, reading: Reading, num_ticks: int = 1) -> None:
        self._reading = reading
        self._num_ticks = num_ticks
        self.num_failed = 0
        self._starts: list[int | float] = []
        self._prompts, self._outputs = array("q"), array("q")
        self._ttft_s, self._decode_s = array("d"), array("d")
        self._gaps: list[FloatArray] = []
        self._have_gaps = True

    def fail(self) -> None:
        """Count a request that failed."""
        self.num_failed += 1

    def add(
        self,
        line: int,
        where: str,
        lengths: dict[str, Any],
        start: Any,
        ttft_s: float,
        decode_s: float,
        gaps_s: FloatArray | None,
    ) -> None:
        """Append a request.

        Args:
            line: where it is in the file.
            where: which request of that line it is, for messages.
            lengths: its two token counts under the names that the file has for them, prompt first.
            start: when it was sent, in ticks of any clock.
            ttft_s: time to first token.
            decode_s: from the first token to the last one.
            gaps_s: gaps between its tokens; None if the file has none.

        Raises:
            TraceFormatError: a value is out of range.
        """
        counts = [_whole(value) for value in lengths.values()]
        for name, value in zip(lengths, counts, strict=True):
            why = why_not_tokens(name, value)
            if why:
                raise self._reading.refuse(line, where + why)
        if not is_number(start) or abs(start) >= _LARGEST_CLOCK:
            raise self._reading.refuse(line, f"{where}start time {shown(start)}: must be a number")
        if not 0 < ttft_s <= MAX_TIME_S:
            why = f"time to first token {ttft_s:g} s: must be above 0"
            raise self._reading.refuse(line, where + why)
        if not 0 <= decode_s <= MAX_TIME_S:
            why = f"time from first to last token {decode_s:g} s: must not be negative"
            raise self._reading.refuse(line, where + why)
        self._starts.append(start)
        self._prompts.append(counts[0])
        self._outputs.append(counts[1])
        self._ttft_s.append(ttft_s)
        self._decode_s.append(decode_s)
        self._have_gaps &= gaps_s is not None
        self._gaps.append(np.empty(0) if gaps_s is None else gaps_s)

    def run(self, name: str, sha256: str) -> MeasuredRun:
        """The run, in order of the starts; equal ones as in the file.

        Args:
            name: the format's.
            sha256: of the file.

        Raises:
            TraceFormatError: no request is left, or starts are too far apart.
        """
        if not self._starts:
            why = "has no requests, must have at least one"
            if self.num_failed:
                why = f"all {self.num_failed:,} requests failed, none is left"
            raise self._reading.refuse(0, why)
        first = min(self._starts)
        # Before the division: nanoseconds since 1970 are no doubles.
        start_s = np.array([(start - first) / self._num_ticks for start in self._starts])
        if start_s.max() > MAX_TIME_S:
            why = f"start times span {start_s.max():.6g} s, allowed: {MAX_TIME_S:,.0f} s"
            raise self._reading.refuse(0, why)
        order = np.argsort(start_s, kind="stable")
        gaps = [self._gaps[row] for row in order.tolist()]
        return MeasuredRun(
            format=name,
            sha256=sha256,
            arrival_s=start_s[order],
            prompt_tokens=np.array(self._prompts, dtype=np.int64)[order],
            output_tokens=np.array(self._outputs, dtype=np.int64)[order],
            ttft_s=np.array(self._ttft_s)[order],
            decode_s=np.array(self._decode_s)[order],
            gaps_s=np.concatenate(gaps) if self._have_gaps else None,
            num_gaps=np.array(list(map(len, gaps)), dtype=np.int64),
            num_failed=self.num_failed,
        )


def is_number(value: Any) -> bool:
    """Whether a value of a file is a finite number."""
    return type(value) in (int, float) and isfinite(value)


def _whole(value: Any) -> Any:
    """An integer for a float that is one."""
    return int(value) if type(value) is float and value.is_integer() else value
