"""A session and its turns: what is sent, and where the model speaks.

The native format is one line of OpenAI-messages JSONL (ARCHITECTURE.md, "Formats").
"""

from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["chat", "agent"]
Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """One place where the model speaks.

    ``messages`` are sent before it speaks (system, user and tool messages, in order);
    ``recorded`` is the assistant message of the file, ``None`` where the file has none;
    ``wait_s`` is a wait that the session scripts before the turn is sent, in seconds.
    """

    messages: tuple[Message, ...]
    recorded: Message | None = None
    wait_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Session:
    """A conversation to be played. ``tools`` are OpenAI tool definitions."""

    id: str
    kind: Kind
    turns: tuple[Turn, ...]
    tools: tuple[dict[str, Any], ...] = ()
    max_tokens: int | None = None
    notes: tuple[str, ...] = field(default=())  # what the importer changed, in plain words
