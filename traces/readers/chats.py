"""All turns of a file of conversations, as columns that grow."""

from array import array
from typing import Any

from traces.options import MAX_TOKENS
from traces.readers.chat_turns import ChatRuns, Turn, messages_of
from traces.readers.reading import Reading

MAX_RUNS = 100_000_000
"""Most runs over all prompts, which is what the memory grows with."""

EMPTY = "empty"
"""Why turns are left out, in `Reading.skipped` and in the provenance."""


class Chats:
    """Growing columns of turns, conversations one after the other.

    Args:
        reading: told of every bad conversation.
        chars_per_token: characters taken for a token.
        max_turns: only so many turns of each conversation; None for all.
        skip_empty: whether empty turns are left out rather than refused.

    Attributes:
        num_turns: turns of each conversation.
        prompts: prompt length of each turn.
        outputs: output length of each turn.
        runs: what the prompts share.
        num_empty: empty turns, and conversations without a turn, so far.
    """

    def __init__(
        self, reading: Reading, chars_per_token: float, max_turns: int | None, skip_empty: bool
    ) -> None:
        self._reading = reading
        self._max_turns, self._skip_empty = max_turns, skip_empty
        self.num_empty = 0
        self.runs = ChatRuns(chars_per_token)
        self.num_turns, self.prompts, self.outputs = array("q"), array("q"), array("q")

    def add_counts(self, prompt_tokens: int, output_tokens: int) -> None:
        """Append a conversation of one turn whose tokens are counted."""
        self.num_turns.append(1)
        self.prompts.append(prompt_tokens)
        self.outputs.append(output_tokens)
        self.runs.add_unknown()

    def add(self, line: int, found: Any) -> None:
        """Append a conversation of messages, or report what is wrong with it."""
        try:
            turns, runs = self.runs.turns(messages_of(found))
        except ValueError as error:
            self._reading.fault(line, "messages", str(error))
            return
        if not turns:
            self._empty(line, "no answer to a question")
        kept = [turn for turn in turns[: self._max_turns] if self._is_good(line, turn)]
        for i, turn in enumerate(kept, 1):
            self.runs.add(turn, runs, is_last=i == len(kept))
            self.prompts.append(turn.prompt_tokens)
            self.outputs.append(turn.output_tokens)
        if kept:
            self.num_turns.append(len(kept))
        if self.runs.num_runs > MAX_RUNS:
            why = f"prompts repeat more than {MAX_RUNS:,} messages, give trace.max_turns"
            raise self._reading.refuse(line, why)

    def _is_good(self, line: int, turn: Turn) -> bool:
        if not turn.prompt_tokens or not turn.output_tokens:
            self._empty(line, "an empty question or answer")
            return False
        for name, tokens in (("prompt", turn.prompt_tokens), ("answer", turn.output_tokens)):
            if tokens > MAX_TOKENS:
                why = f"{name} of {tokens:,} tokens: must be at most {MAX_TOKENS:,}"
                self._reading.fault(line, name, why)
                return False
        return True

    def _empty(self, line: int, what: str) -> None:
        self.num_empty += 1
        if self._skip_empty:
            self._reading.skip(EMPTY)
        else:
            why = f"has {what} (trace.skip_empty=true leaves such turns out)"
            self._reading.fault(line, EMPTY, why)
