"""What one streamed chat completion came to: values only, times as given by the caller."""

from dataclasses import dataclass
from typing import Literal

Channel = Literal["content", "reasoning", "tool"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of the model's own. ``arguments`` is the text as streamed, JSON or not."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts as the endpoint reports them; ``None`` where it doesn't say."""

    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Arrival:
    """One read that brought generated tokens: all its token-bearing chunks share one stamp.

    ``tokens`` counts the token ids it brought, ``None`` where the endpoint sends none;
    ``chars`` counts the characters of text, reasoning and calls in it.
    """

    t_ns: int
    channel: Channel  # of the first token-bearing chunk of the read
    tokens: int | None
    chars: int


@dataclass(frozen=True, slots=True)
class Reply:
    """A finished reply."""

    content: str
    reasoning: str
    reasoning_field: str | None  # "reasoning", "reasoning_content", "reasoning_details" or None
    tool_calls: tuple[ToolCall, ...]
    finish_reason: str | None
    token_ids: tuple[int, ...] | None  # None where the endpoint sends none
    prompt_token_ids: tuple[int, ...] | None
    usage: Usage | None
    arrivals: tuple[Arrival, ...]  # empty where nothing was generated
    t_first_content_ns: int | None  # first token of the content channel
    done: bool  # the stream ended with [DONE]
    model: str | None = None
    reply_id: str | None = None
