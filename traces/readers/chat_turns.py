"""Conversations of text: their messages, and the requests that a server would have got.

Every answer is a request; its prompt is all that was said before. Answers in a row count as one; an
answer before the first question is part of the first prompt.
"""

import hashlib
from array import array
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim.workload import IntArray
from traces.options import shown
from traces.schema import PromptRuns

MESSAGES = ("conversations", "messages", "conversation")
"""Keys under which files keep the messages."""

ANSWERS = frozenset(("gpt", "assistant", "chatgpt", "model", "bot", "bard", "bing"))

OTHERS = frozenset(("human", "user", "system", "tool", "function", "observation"))


@dataclass(frozen=True, slots=True)
class Message:
    """A message.

    Attributes:
        is_answer: whether the model said it.
        text: what was said.
    """

    is_answer: bool
    text: str


def messages_of(found: Any) -> list[Message]:
    """The messages of a conversation.

    Raises:
        ValueError: they are bad; says what is wrong.
    """
    if not isinstance(found, list):
        raise ValueError(f"messages {shown(found)}: must be a list")
    return [_message(item) for item in found]


def _message(item: Any) -> Message:
    if not isinstance(item, dict):
        raise ValueError(f"message {shown(item)}: must be an object")
    role = item.get("from", item.get("role"))
    text = item.get("value", item.get("content"))
    if not isinstance(role, str) or role not in ANSWERS | OTHERS:
        allowed = ", ".join(sorted(ANSWERS | OTHERS))
        raise ValueError(f"role {shown(role)}: must be one of {allowed}")
    if not isinstance(text, str):
        raise ValueError(f"text of {role} {shown(text)}: must be a text")
    return Message(role in ANSWERS, text)


@dataclass(frozen=True, slots=True)
class Turn:
    """A request of a conversation.

    Attributes:
        num_runs: messages of the prompt that are not empty, answers in a row as one.
        prompt_tokens: tokens before the answer.
        output_tokens: tokens of the answer.
    """

    num_runs: int
    prompt_tokens: int
    output_tokens: int


class ChatRuns:
    """What the prompts of all conversations share.

    What precedes the first answer of a conversation is the same run in every conversation that has
    the same text there; all that follows is a conversation's own.

    Args:
        chars_per_token: characters that are taken for a token.
    """

    def __init__(self, chars_per_token: float) -> None:
        self._chars_per_token = chars_per_token
        self._next_id = 0
        self._known: dict[bytes, int] = {}
        self._ids, self._tokens, self._counts = array("q"), array("q"), array("q")
        self._output_run = array("q")

    @property
    def num_runs(self) -> int:
        """Runs over all prompts so far."""
        return len(self._ids)

    def turns(self, messages: list[Message]) -> tuple[list[Turn], list[tuple[int, int]]]:
        """Requests of a conversation, and id and tokens of its runs."""
        runs: list[tuple[int, int]] = []
        turns: list[Turn] = []
        total, was_asked, was_answered = 0, False, False
        for is_answer, texts in _in_a_row(messages):
            tokens = sum(map(self.tokens_of, texts))
            if is_answer and was_asked:
                turns.append(Turn(len(runs), total, tokens))
                was_answered = True
            was_asked = was_asked or not is_answer
            if tokens:
                runs.append((self._run_id(texts, is_own=was_answered), tokens))
                total += tokens
        return turns, runs

    def tokens_of(self, text: str) -> int:
        """Tokens that a text is taken for: characters / `chars_per_token`, rounded up."""
        return int(-(-len(text) // self._chars_per_token))

    def add(self, turn: Turn, runs: list[tuple[int, int]], is_last: bool) -> None:
        """Append the prompt of a turn, from which a later one goes on unless it is the last."""
        self._ids.extend(run_id for run_id, _ in runs[: turn.num_runs])
        self._tokens.extend(tokens for _, tokens in runs[: turn.num_runs])
        self._counts.append(turn.num_runs)
        self._output_run.append(-1 if is_last else runs[turn.num_runs][0])

    def add_unknown(self) -> None:
        """Append a prompt that shares nothing."""
        self._counts.append(0)
        self._output_run.append(-1)

    def columns(self) -> tuple[PromptRuns | None, IntArray | None]:
        """Runs and output runs of all prompts; None if no prompt has any."""
        if not self._ids:
            return None, None
        runs = PromptRuns(
            ids=np.array(self._ids, dtype=np.int64),
            offsets=np.append(0, np.cumsum(np.array(self._counts, dtype=np.int64))),
            tokens=np.array(self._tokens, dtype=np.int64),
        )
        return runs, np.array(self._output_run, dtype=np.int64)

    def _run_id(self, texts: list[str], is_own: bool) -> int:
        if not is_own:
            content = "\0".join(texts).encode(errors="surrogatepass")
            digest = hashlib.blake2b(content, digest_size=16).digest()
            if digest in self._known:
                return self._known[digest]
            self._known[digest] = self._next_id
        self._next_id += 1
        return self._next_id - 1


def _in_a_row(messages: list[Message]) -> list[tuple[bool, list[str]]]:
    """Texts of each message, those of answers in a row together, with whether it is an answer."""
    joined: list[tuple[bool, list[str]]] = []
    for message in messages:
        if joined and joined[-1][0] and message.is_answer:
            joined[-1][1].append(message.text)
        else:
            joined.append((message.is_answer, [message.text]))
    return joined
