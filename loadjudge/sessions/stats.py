"""What a list of sessions amounts to: counts and lengths."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from loadjudge.sessions.messages import calls_of, text_of
from loadjudge.sessions.model import Message, Session

CHARS_PER_TOKEN = 4  # the usual rule of thumb for English; token counts made with it are estimates


@dataclass(frozen=True, slots=True)
class Spread:
    """Order statistics of a count; quantiles by nearest rank."""

    min: int
    median: int
    p90: int
    max: int


@dataclass(frozen=True, slots=True)
class TextSize:
    """How much text; ``tokens_estimate`` is characters over four, no tokenizer is asked."""

    messages: int
    characters: int
    tokens_estimate: int


@dataclass(frozen=True, slots=True)
class SessionStats:
    """Statistics of a session file. ``longest`` is by characters, recorded replies included."""

    sessions: int
    turns: int
    turns_per_session: Spread
    kinds: dict[str, int]
    sessions_with_tools: int
    tools: dict[str, int]  # recorded calls by function, most called first
    scripted_wait_s: float
    system: TextSize
    user: TextSize
    tool: TextSize
    recorded: TextSize  # assistant text, reasoning and call arguments of the file
    characters_per_session: Spread
    longest_id: str


def session_stats(sessions: Sequence[Session]) -> SessionStats:
    """The statistics of ``sessions``, which must not be empty."""
    if not sessions:
        raise ValueError("statistics need at least one session")
    turns = [turn for session in sessions for turn in session.turns]
    sent = [message for turn in turns for message in turn.messages]
    recorded = [turn.recorded for turn in turns if turn.recorded is not None]
    calls = Counter(call["function"]["name"] for m in recorded for call in calls_of(m))
    lengths = [_session_chars(session) for session in sessions]
    return SessionStats(
        sessions=len(sessions),
        turns=len(turns),
        turns_per_session=spread([len(session.turns) for session in sessions]),
        kinds=dict(Counter(session.kind for session in sessions)),
        sessions_with_tools=sum(bool(session.tools) for session in sessions),
        tools=dict(calls.most_common()),
        scripted_wait_s=math.fsum(turn.wait_s for turn in turns),
        system=_size(m for m in sent if m["role"] == "system"),
        user=_size(m for m in sent if m["role"] == "user"),
        tool=_size(m for m in sent if m["role"] == "tool"),
        recorded=_size(recorded),
        characters_per_session=spread(lengths),
        longest_id=sessions[lengths.index(max(lengths))].id,
    )


def spread(values: Sequence[int]) -> Spread:
    """Order statistics of ``values``, each one of the values (nearest rank)."""
    ordered = sorted(values)

    def rank(share: float) -> int:
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)]

    return Spread(ordered[0], rank(0.5), rank(0.9), ordered[-1])


def _size(messages: Iterable[Message]) -> TextSize:
    lengths = [_message_chars(message) for message in messages]
    characters = sum(lengths)
    return TextSize(len(lengths), characters, math.ceil(characters / CHARS_PER_TOKEN))


def _message_chars(message: Message) -> int:
    reasoning = message.get("reasoning_content")
    written = [text_of(message), reasoning if isinstance(reasoning, str) else ""]
    written += [call["function"]["arguments"] for call in calls_of(message)]
    return sum(map(len, written))


def _session_chars(session: Session) -> int:
    return sum(
        _message_chars(message)
        for turn in session.turns
        for message in (*turn.messages, *((turn.recorded,) if turn.recorded else ()))
    )
