"""The chat template, both ways: messages to token ids, and generated ids to content and calls.

A conversation reads, without line breaks::

    <|tools|>name<|args|>{"key": "type"}<|endcall|>description   (one a tool)
    <|system|>text  <|user|>text  <|tool|>text
    <|assistant|>text<|end|>                       (no tools in the request)
    <|agent|>text<|call|>name<|args|>{"key": "value"}<|endcall|><|end|>

A tool is written like a call of it, so that the model's copy component finds names and keys there.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loadjudge.reference.tokenizer import (
    AGENT,
    ARGS,
    ASSISTANT,
    CALL,
    END,
    ENDCALL,
    SYSTEM,
    TOOL,
    TOOLS,
    USER,
    StreamDecoder,
    Tokenizer,
)

Message = Mapping[str, Any]

_HEADERS = {"system": SYSTEM, "developer": SYSTEM, "user": USER, "tool": TOOL, "function": TOOL}


def render(
    tokenizer: Tokenizer,
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]] = (),
    *,
    generate: bool = True,
) -> list[int]:
    """Token ids of a conversation; with ``generate``, ending in the header of the next reply.

    Raises ``ValueError`` for a message that the template has no place for.
    """
    header = AGENT if tools else ASSISTANT
    ids: list[int] = []
    for tool in tools:
        ids += _render_tool(tokenizer, tool)
    for message in messages:
        role = message.get("role")
        if role == "assistant":
            ids += [header, *reply_ids(tokenizer, message), END]
        elif role in _HEADERS:
            ids += [_HEADERS[role], *tokenizer.encode(text_of(message.get("content")))]
        else:
            raise ValueError(f"unexpected message role {role!r}")
    if generate:
        ids.append(header)
    return ids


def reply_ids(tokenizer: Tokenizer, message: Message) -> list[int]:
    """An assistant message as the model would have written it, without header and end."""
    ids = tokenizer.encode(text_of(message.get("content")))
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        arguments = function.get("arguments") or "{}"
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        name = tokenizer.encode(str(function.get("name", "")))
        ids += [CALL, *name, ARGS, *tokenizer.encode(arguments), ENDCALL]
    return ids


def text_of(content: Any) -> str:
    """Text of a message's content: a string, a list of text parts, or nothing."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = []
        for part in content:
            if isinstance(part, str):
                parts.append(part)
            elif isinstance(part, dict) and isinstance(part.get("text"), str):
                parts.append(part["text"])
            else:
                raise ValueError("only text parts are supported in a message's content")
        return "".join(parts)
    raise ValueError("a message's content must be a string or a list of parts")


def _render_tool(tokenizer: Tokenizer, tool: Mapping[str, Any]) -> list[int]:
    function = tool.get("function") or tool
    parameters = function.get("parameters") or {}
    keys = {
        key: str(value.get("type", "string")) if isinstance(value, dict) else "string"
        for key, value in (parameters.get("properties") or {}).items()
    }
    name = tokenizer.encode(str(function.get("name", "")))
    arguments = tokenizer.encode(json.dumps(keys, ensure_ascii=False))
    description = tokenizer.encode(str(function.get("description") or ""))
    return [TOOLS, *name, ARGS, *arguments, ENDCALL, *description]


@dataclass(frozen=True, slots=True)
class CallDelta:
    """A piece of call ``index``: its name, in one piece, or some more of its arguments."""

    index: int
    name: str | None
    arguments: str


@dataclass(frozen=True, slots=True)
class Delta:
    """What one verify step adds to a reply."""

    content: str
    calls: tuple[CallDelta, ...]


@dataclass
class ReplyParser:
    """Generated ids, as they come, to content and calls."""

    tokenizer: Tokenizer
    content: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)  # (name, arguments) so far
    _last_special: int = ASSISTANT
    _name: str = ""
    _decoder: StreamDecoder = field(init=False)

    def __post_init__(self) -> None:
        self._decoder = StreamDecoder(self.tokenizer)

    def feed(self, ids: Sequence[int], *, last: bool = False) -> Delta:
        """What ``ids`` add; with ``last``, also whatever was still held back."""
        content = ""
        calls: list[CallDelta] = []
        for token in ids:
            if token not in (END, CALL, ARGS, ENDCALL):
                text = self._decoder.feed(token)
            else:
                text = self._decoder.flush()
            content += self._place(text, calls)
            if token in (END, CALL, ARGS, ENDCALL):
                if token == ARGS:
                    self.calls.append((self._name, ""))
                    calls.append(CallDelta(len(self.calls) - 1, self._name, ""))
                self._name = ""
                self._last_special = token
        if last:
            content += self._place(self._decoder.flush(), calls)
        self.content += content
        return Delta(content, tuple(calls))

    def _place(self, text: str, calls: list[CallDelta]) -> str:
        """Gives ``text`` to the call that is open, or returns it as content."""
        if not text:
            return ""
        if self._last_special == CALL:
            self._name += text
            return ""
        if self._last_special == ARGS:
            index = len(self.calls) - 1
            name, arguments = self.calls[index]
            self.calls[index] = (name, arguments + text)
            if calls and calls[-1].index == index:
                calls[-1] = CallDelta(index, calls[-1].name, calls[-1].arguments + text)
            else:
                calls.append(CallDelta(index, None, text))
            return ""
        return text


class StopStrings:
    """Cuts content at the first stop string; holds back what may be the start of one."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._held = ""

    def feed(self, text: str, *, last: bool = False) -> tuple[str, bool]:
        """Content to send, and whether a stop string has ended the reply."""
        if not self._stops:
            return text, False
        text = self._held + text
        cuts = [at for at in (text.find(stop) for stop in self._stops) if at >= 0]
        if cuts:
            self._held = ""
            return text[: min(cuts)], True
        longest = max(map(len, self._stops)) - 1
        keep = (
            0
            if last
            else max(
                n
                for n in range(min(longest, len(text)) + 1)
                if n == 0 or any(s.startswith(text[-n:]) for s in self._stops)
            )
        )
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep], False
