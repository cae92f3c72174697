"""Requests that go on with one another, joined to sessions. Pure: exchanges in, turns out.

A request goes on with an earlier one where its messages begin with that one's messages and its
reply. Messages are compared by what they say, as clients write a reply back in their own way:
null or no content, blanks around the text, more keys, arguments of calls spaced otherwise or
repaired, reasoning left out. What goes on with an earlier point of a session (a reply made anew, an
edited message) is a session of its own, and holds the whole conversation.
"""

import contextlib
import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

Message = dict[str, Any]

_UNIQUE = 12  # characters of an id of a call from which on it is taken for unique: not "call_0"


@dataclass(frozen=True, slots=True)
class Said:
    """One exchange: the request's messages and what else matters of it, and the reply."""

    messages: Sequence[Message]
    reply: Message
    tools: Sequence[dict[str, Any]] = ()
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class NewTurn:
    """What an exchange adds to a session: ``messages`` end with the reply."""

    session: str
    first: bool
    messages: tuple[Message, ...]
    tools: tuple[dict[str, Any], ...]  # definitions that the session did not have
    max_tokens: int | None  # of the session from now on


@dataclass(slots=True)
class _Open:
    """A session that may go on. What was said is not kept here."""

    id: str
    tips: tuple[bytes, ...]  # its end in two spellings: see ``_tips``
    length: int  # messages, the last reply included
    last_s: float
    tools: set[bytes] = field(default_factory=set)  # hashes of definitions
    max_tokens: int | None = None
    limited: bool = True  # all requests so far set max_tokens


class Joiner:
    """Holds the ends of ``most`` open sessions: the one that was idle longest gives way."""

    def __init__(self, most: int, prefix: str | None = None) -> None:
        self.joined = 0  # turns that went on with an open session
        self._most = most
        self._prefix = prefix or secrets.token_hex(4)
        self._made = 0
        self._key = secrets.token_bytes(16)  # hashes of what people wrote mean nothing elsewhere
        self._open: OrderedDict[str, _Open] = OrderedDict()  # the longest idle first
        self._by_tip: dict[bytes, list[str]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def take(self, said: Said, now_s: float) -> tuple[NewTurn, list[str]]:
        """The turn that an exchange is, and ids of sessions that gave way to it.

        Raises ValueError where the messages are none.
        """
        chain = [self._key]
        for message in said.messages:
            chain.append(self._hash(chain[-1], canonical(message)))
        length, found = self._longest(chain, said.messages)
        if found is None:
            self._made += 1
            found = _Open(f"{self._prefix}-{self._made:06}", (), 0, now_s)
            length, first = 0, True
        else:
            self.joined += 1
            first = False
        known = found.tools
        tools = []
        for tool in said.tools:
            mark = hashlib.blake2b(_sorted(tool), digest_size=16).digest()
            if mark not in known:
                known.add(mark)
                tools.append(tool)
        found.limited = found.limited and said.max_tokens is not None
        limits = [n for n in (found.max_tokens, said.max_tokens) if n is not None]
        found.max_tokens = max(limits) if limits else None
        found.tips = self._tips(chain[-1], said.reply)
        found.length = len(said.messages) + 1
        found.last_s = now_s
        self._open[found.id] = found
        for tip in found.tips:
            self._by_tip.setdefault(tip, []).append(found.id)
        turn = NewTurn(
            session=found.id,
            first=first,
            messages=(*said.messages[length:], said.reply),
            tools=tuple(tools),
            max_tokens=found.max_tokens if found.limited else None,
        )
        gone = []
        while len(self._open) > self._most:
            gone.append(self._drop(next(iter(self._open))))
        return turn, gone

    def idle(self, before_s: float) -> list[str]:
        """Ends the sessions whose last turn was before that time; their ids."""
        gone = []
        while self._open and (oldest := next(iter(self._open.values()))).last_s < before_s:
            gone.append(self._drop(oldest.id))
        return gone

    def forget(self, session: str) -> None:
        """Ends one session."""
        if session in self._open:
            self._drop(session)

    def _longest(
        self, chain: Sequence[bytes], messages: Sequence[Message]
    ) -> tuple[int, _Open | None]:
        """The open session whose whole conversation the messages begin with, the longest one.

        Something must follow its reply: messages that end with it ask for no other turn.
        """
        for length in range(len(chain) - 2, 0, -1):
            for tip in self._tips(chain[length - 1], messages[length - 1], chain[length]):
                ids = self._by_tip.get(tip)
                if ids:
                    return length, self._taken(ids[-1])
        return 0, None

    def _tips(self, before: bytes, reply: Message, exact: bytes | None = None) -> tuple[bytes, ...]:
        """The end of a conversation by all that its reply says; and, where it makes calls whose ids
        tell them apart, by those alone: clients repair arguments that are no JSON."""
        tips = [exact or self._hash(before, canonical(reply))]
        by_ids = called(reply)
        if by_ids is not None:
            tips.append(self._hash(before, by_ids))
        return tuple(tips)

    def _taken(self, session: str) -> _Open:
        """Takes a session out."""
        taken = self._open.pop(session)
        for tip in taken.tips:
            ids = self._by_tip[tip]
            ids.remove(session)
            if not ids:
                del self._by_tip[tip]
        return taken

    def _drop(self, session: str) -> str:
        return self._taken(session).id

    def _hash(self, before: bytes, text: bytes) -> bytes:
        return hashlib.blake2b(text, key=before, digest_size=32).digest()


def canonical(message: Any) -> bytes:
    """What a message says, in one spelling. Raises ValueError where it is none."""
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise ValueError("a message without a role")
    role = message["role"]
    content = message.get("content")
    parts = content
    if isinstance(content, list) and all(_is_text(part) for part in content):
        parts = "".join(part["text"] for part in content)
    if parts is None:
        parts = ""
    if role == "assistant" and isinstance(parts, str):
        parts = parts.strip()
    said: dict[str, Any] = {"role": role, "content": parts}
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls:
        said["calls"] = [_call(call) for call in calls]
    if message.get("tool_call_id") is not None:
        said["answers"] = message["tool_call_id"]
    if role != "assistant" and message.get("name") is not None:
        said["name"] = message["name"]
    return _sorted(said)


def called(message: Message) -> bytes | None:
    """The calls of an assistant message by their ids and names; None where ids may repeat."""
    calls = message.get("tool_calls") if message["role"] == "assistant" else None
    if not isinstance(calls, list) or not calls:
        return None
    marks = [_call(call)[:2] for call in calls]
    unique = all(isinstance(id, str) and len(id) >= _UNIQUE for id, _ in marks)
    return _sorted({"calls": marks}) if unique else None


def _is_text(part: Any) -> bool:
    return (
        isinstance(part, Mapping)
        and part.get("type") in ("text", "input_text", "output_text")
        and isinstance(part.get("text"), str)
    )


def _call(call: Any) -> list[Any]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        raise ValueError("a tool call without a function")
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        with contextlib.suppress(orjson.JSONDecodeError):  # else compared as the text that it is
            arguments = orjson.loads(arguments or "{}")
    return [call.get("id"), function.get("name"), {} if arguments is None else arguments]


def _sorted(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
