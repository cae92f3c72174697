"""A sequence's history, and the little of it that its next token depends on.

``History`` grows and shrinks by one token at a time (drafts are pushed, looked at and popped), and
answers ``query()`` in a few microseconds whatever its length: the last tokens for the n-grams,
the copy component's candidates, and the place in the template's grammar.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from loadjudge.reference.tokenizer import (
    AGENT,
    ARGS,
    ASSISTANT,
    CALL,
    END,
    ENDCALL,
    FIRST_PIECE,
    FIRST_SPECIAL,
    TOOLS,
    is_special,
)

CONTEXT = 4  # tokens that the longest n-gram looks back
MATCH_MAX = 8  # longer matches count as this long
CANDIDATES = 8  # most recent matches looked at
_HOPS = 16  # occurrences walked over to find them


class Place(IntEnum):
    """Where in the template's grammar the next token stands."""

    TEXT = 0  # in a user, system or tool message, or in plain text
    REPLY = 1  # in an assistant's content, no tools
    AGENT = 2  # in an assistant's content, with tools
    NAME = 3  # in a called tool's name
    ARGS = 4  # in a call's arguments
    CALLED = 5  # right after a call


_PLACE_AFTER = {
    ASSISTANT: Place.REPLY,
    AGENT: Place.AGENT,
    CALL: Place.NAME,
    ARGS: Place.ARGS,
    ENDCALL: Place.CALLED,
}


@dataclass(frozen=True, slots=True)
class Query:
    """What p_t depends on.

    ``context``: the last ``CONTEXT`` tokens or fewer, oldest first. ``copies``: (token, weight)
    with weights summing to 1, empty without a match. ``match``: length of the longest match.
    ``length``: tokens since the place began; ``reply``: since the reply did.
    ``allowed``: the tokens possible in a tool's name and after a call, empty elsewhere.
    """

    context: tuple[int, ...]
    copies: tuple[tuple[int, float], ...]
    match: int
    place: Place
    length: int
    reply: int
    allowed: tuple[int, ...] = ()


class History:
    """Tokens of one sequence; ``tokens`` is theirs to read, only push and pop change it."""

    def __init__(self, tokens: Sequence[int] = ()) -> None:
        self.tokens: list[int] = []
        # Occurrences of single tokens, and of pairs, from the latest back.
        self._singles = _Chain()
        self._pairs = _Chain()
        self._specials: list[int] = []  # positions
        self._names: list[tuple[int, ...]] = []  # of the request's tools
        self._extend(tokens)

    def push(self, token: int) -> None:
        """Appends a token."""
        at = len(self.tokens)
        self._singles.push(token, at)
        self._pairs.push(self.tokens[-1] << 16 | token if at else -1, at)
        self.tokens.append(token)
        if is_special(token):
            self._mark(token, at)

    def _extend(self, tokens: Sequence[int]) -> None:
        """Many pushes on an empty history; a prompt may be long."""
        self.tokens = list(tokens)
        ids = np.array(self.tokens, np.int64)
        self._singles.extend(ids)
        self._pairs.extend(np.concatenate(([-1], ids[:-1] << 16 | ids[1:]))[: len(ids)])
        for at in np.flatnonzero((ids >= FIRST_SPECIAL) & (ids < FIRST_PIECE)).tolist():
            self._mark(self.tokens[at], at)

    def _mark(self, token: int, at: int) -> None:
        if token == ARGS and self._specials and self.tokens[self._specials[-1]] == TOOLS:
            self._names.append(tuple(self.tokens[self._specials[-1] + 1 : at]))
        self._specials.append(at)

    def pop(self) -> None:
        """Takes the last token back. Tools' names, which only prompts hold, stay."""
        token = self.tokens.pop()
        at = len(self.tokens)
        self._singles.pop(token)
        self._pairs.pop(self.tokens[-1] << 16 | token if at else -1)
        if self._specials and self._specials[-1] == at:
            self._specials.pop()

    def matches(self, longest: int, limit: int, shortest: int = 2) -> list[tuple[int, int]]:
        """Earlier places where the last tokens stood, the most recent first.

        Each is (position of what followed, length of the match up to ``longest``), where what
        followed lies before ``limit``. Places where at least two tokens match; if there are none
        and ``shortest`` is 1, those where one does.
        """
        tokens = self.tokens
        end = len(tokens) - 1
        found: list[tuple[int, int]] = []
        for at in self._pairs.before(end):
            if at + 1 < limit:
                length = 2
                while (
                    length < longest
                    and length <= at
                    and tokens[at - length] == tokens[end - length]
                ):
                    length += 1
                found.append((at + 1, length))
        if not found and shortest == 1:
            found = [(at + 1, 1) for at in self._singles.before(end) if at + 1 < limit]
        return found

    def query(self) -> Query:
        """What the next token depends on. Copies come from before the current message or call, so
        that replies don't loop."""
        tokens = self.tokens
        last_special = self._specials[-1] if self._specials else -1
        place = Place.TEXT
        allowed: tuple[int, ...] = ()
        if last_special >= 0:
            place = _PLACE_AFTER.get(tokens[last_special], Place.TEXT)
            if place is Place.NAME:
                allowed = self._continuations(tuple(tokens[last_special + 1 :]))
            elif place is Place.CALLED:
                allowed = (END, CALL)
        limit = last_special if last_special >= 0 else len(tokens)
        match, copies = _copies(tokens, self.matches(MATCH_MAX, limit, 1)[:CANDIDATES])
        return Query(
            context=tuple(tokens[-CONTEXT:]),
            copies=copies,
            match=match,
            place=place,
            length=len(tokens) - last_special - 1,
            reply=len(tokens) - self._reply_start(),
            allowed=allowed,
        )

    def _reply_start(self) -> int:
        """Position after the last header, if it is a reply's."""
        for at in reversed(self._specials):
            if self.tokens[at] in (ASSISTANT, AGENT):
                return at + 1
            if self.tokens[at] not in (CALL, ARGS, ENDCALL):
                break
        return len(self.tokens)

    def _continuations(self, start: tuple[int, ...]) -> tuple[int, ...]:
        """Tokens that go on with the name of one of the request's tools, or end it."""
        n = len(start)
        possible = {name[n] if len(name) > n else ARGS for name in self._names if name[:n] == start}
        return tuple(sorted(possible)) or (ARGS,)


class _Chain:
    """Where each key occurred, from the latest occurrence back."""

    __slots__ = ("_latest", "_previous")

    def __init__(self) -> None:
        self._previous: list[int] = []  # by position: where its key occurred before, or -1
        self._latest: dict[int, int] = {}

    def push(self, key: int, at: int) -> None:
        self._previous.append(self._latest.get(key, -1))
        self._latest[key] = at

    def extend(self, keys: NDArray[np.int64]) -> None:
        """Many pushes on an empty chain: equal keys become neighbours by a stable sort."""
        order = np.argsort(keys, kind="stable")
        again = keys[order[1:]] == keys[order[:-1]]
        previous = np.full(len(keys), -1)
        previous[order[1:][again]] = order[:-1][again]
        self._previous = previous.tolist()
        self._latest = dict(zip(keys.tolist(), range(len(keys)), strict=True))

    def pop(self, key: int) -> None:
        previous = self._previous.pop()
        if previous < 0:
            del self._latest[key]
        else:
            self._latest[key] = previous

    def before(self, at: int) -> list[int]:
        """Up to ``_HOPS`` earlier occurrences of the key at ``at``, the latest first."""
        found: list[int] = []
        previous = self._previous
        while at >= 0 and len(found) < _HOPS:
            at = previous[at]
            if at < 0:
                break
            found.append(at)
        return found


def _copies(
    tokens: Sequence[int], matches: Sequence[tuple[int, int]]
) -> tuple[int, tuple[tuple[int, float], ...]]:
    """Longest match, and the copied tokens' weights; one token more of match weighs double."""
    if not matches:
        return 0, ()
    weights: dict[int, float] = {}
    for at, length in matches:
        weights[tokens[at]] = weights.get(tokens[at], 0.0) + float(1 << length)
    total = sum(weights.values())
    longest = max(length for _, length in matches)
    return longest, tuple((token, weight / total) for token, weight in weights.items())
