"""A streamed chat completion: body bytes and their arrival times in, one Reply out."""

from typing import Any, Literal

import orjson

from loadjudge.wire.errortext import error_sentence
from loadjudge.wire.reply import Arrival, Channel, Reply, Usage
from loadjudge.wire.sse import EventDecoder
from loadjudge.wire.toolcalls import CallPieces, as_text

StreamErrorKind = Literal["stream_error", "malformed", "cut"]

# Three spellings in the field; an endpoint that sends two of them repeats the same text.
_REASONING = ("reasoning", "reasoning_content", "reasoning_details")

# vLLM's and SGLang's ways to say in a finish reason that the reply was given up.
_GIVEN_UP = frozenset({"error", "abort"})


class StreamError(Exception):
    """The stream is no whole reply: the server said so, it can't be read, or it stops short."""

    def __init__(self, kind: StreamErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


class ReplyDecoder:
    """Takes one reply's body as it arrives. No clocks: a time is what the caller passed.

    Pieces fed with the same ``t_ns`` came in one read and make one Arrival. ``feed`` never
    raises: what goes wrong is kept in ``error`` (the rest of the stream is then ignored), and
    ``finish`` raises it.
    """

    def __init__(self) -> None:
        self.error: StreamError | None = None
        self.done = False  # [DONE] was seen
        self._events = EventDecoder()
        self._seen = 0  # events, for messages
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._reasoning_field: str | None = None
        self._calls = CallPieces()
        self._finish_reason: str | None = None
        self._ids: list[int] = []
        self._ids_known = True  # every chunk with text so far came with its ids
        self._prompt_ids: tuple[int, ...] | None = None
        self._usage: Usage | None = None
        self._model: str | None = None
        self._reply_id: str | None = None
        self._arrivals: list[Arrival] = []
        self._t_first_content_ns: int | None = None
        # The read in work, not yet an Arrival: its channel is None until it brings a token.
        self._t_ns = 0
        self._channel: Channel | None = None
        self._tokens: int | None = 0
        self._chars = 0
        self._last_channel: Channel = "content"

    def feed(self, data: bytes, t_ns: int) -> None:
        """Takes body bytes that were read at ``t_ns`` (nanoseconds, any monotonic clock)."""
        if t_ns != self._t_ns:
            if self._channel is not None:
                self._arrive()
            self._t_ns = t_ns
        lone = self._events.lone(data)
        if lone is not None:
            self._take("message", lone)
            return
        for name, event in self._events.feed(data):
            self._take(name, event)

    def finish(self) -> Reply:
        """The reply, once the body has ended. Raises StreamError where it isn't a whole one."""
        if self.error is not None:
            raise self.error
        if self._finish_reason in _GIVEN_UP:
            raise StreamError(
                "stream_error",
                f"the server gave the reply up (finish_reason {self._finish_reason})",
            )
        if not self.done and self._finish_reason is None:
            raise StreamError(
                "cut", f"the stream ended after {self._seen} events, before the reply did"
            )
        return self.so_far()

    def so_far(self) -> Reply:
        """What has arrived, whole or not."""
        if self._channel is not None:
            self._arrive()
        return Reply(
            content="".join(self._content),
            reasoning="".join(self._reasoning),
            reasoning_field=self._reasoning_field,
            tool_calls=self._calls.calls(),
            finish_reason=self._finish_reason,
            token_ids=tuple(self._ids) if self._ids and self._ids_known else None,
            prompt_token_ids=self._prompt_ids,
            usage=self._usage,
            arrivals=tuple(self._arrivals),
            t_first_content_ns=self._t_first_content_ns,
            done=self.done,
            model=self._model,
            reply_id=self._reply_id,
        )

    def _arrive(self) -> None:
        assert self._channel is not None
        self._arrivals.append(Arrival(self._t_ns, self._channel, self._tokens, self._chars))
        self._last_channel = self._channel
        self._channel, self._tokens, self._chars = None, 0, 0

    def _take(self, name: str, data: bytes) -> None:
        """Takes one event; keeps the error if it is one."""
        if self.done or self.error is not None:
            return
        self._seen += 1
        try:
            chunk: dict[str, Any] = orjson.loads(data)
            if name == "error" or chunk.get("error") or chunk.get("object") == "error":
                self.error = StreamError("stream_error", error_sentence(data))
                return
            if self._reply_id is None:
                self._introduce(chunk)
            usage = chunk.get("usage")
            if usage is not None:
                self._usage = _usage(usage)  # with continuous usage the last one counts
            choices = chunk.get("choices")
            if choices:
                self._take_choice(choices[0])
        except orjson.JSONDecodeError as error:
            if name == "error":
                self.error = StreamError("stream_error", error_sentence(data))
            elif data.strip() == b"[DONE]":
                self.done = True
            else:
                self.error = self._malformed(f"not JSON ({error})", data)
        except (AttributeError, TypeError, LookupError) as error:
            self.error = self._malformed(f"no chat chunk ({error})", data)

    def _malformed(self, what: str, data: bytes) -> StreamError:
        head = data[:200].decode("utf-8", "replace")
        return StreamError("malformed", f"event {self._seen} is {what}: {head}")

    def _introduce(self, chunk: dict[str, Any]) -> None:
        self._reply_id = chunk.get("id")
        self._model = self._model or chunk.get("model")
        ids = chunk.get("prompt_token_ids")
        if ids is not None:
            self._prompt_ids = tuple(ids)

    def _take_choice(self, choice: dict[str, Any]) -> None:
        reason = choice.get("finish_reason")
        if reason is not None:
            self._finish_reason = reason
        channel: Channel | None = None  # of this chunk
        chars = 0
        delta = choice.get("delta")
        if delta:
            content = delta.get("content")
            # The usual delta holds content and nothing else: no other channel is looked for.
            alone = bool(content) and len(delta) == 1
            if not alone and (chars := self._take_reasoning(delta)):
                channel = "reasoning"
            if content:
                self._content.append(as_text(content))
                chars += len(content)
                channel = channel or "content"
                if self._t_first_content_ns is None:
                    self._t_first_content_ns = self._t_ns
            if not alone and (called := self._calls.take(delta.get("tool_calls") or ())):
                chars += called
                channel = channel or "tool"
        ids = choice.get("token_ids")
        if ids is None:
            if channel is None:
                return  # a role, an empty delta, a finish reason: nothing was generated
            self._ids_known = False
            self._tokens = None
        elif ids:
            # Tokens without text are tokens: a marker that a parser swallowed, the end token,
            # half a character.
            self._ids += ids
            if self._tokens is not None:
                self._tokens += len(ids)
            channel = channel or self._channel or self._last_channel
        elif channel is None:
            return
        self._chars += chars
        self._channel = self._channel or channel

    def _take_reasoning(self, delta: dict[str, Any]) -> int:
        """Its characters."""
        for field in _REASONING:
            value = delta.get(field)
            if not value:
                continue
            if field == "reasoning_details":
                value = "".join(part.get("text") or part.get("summary") or "" for part in value)
            self._reasoning.append(as_text(value))
            self._reasoning_field = self._reasoning_field or field
            return len(value)
        return 0


def _usage(usage: dict[str, Any]) -> Usage:
    details = usage.get("prompt_tokens_details") or {}
    return Usage(
        usage.get("prompt_tokens"), usage.get("completion_tokens"), details.get("cached_tokens")
    )
