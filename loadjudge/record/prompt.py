"""The token ids of a prompt as the log keeps them: what is new since the turn before."""

from collections.abc import Iterator, Sequence
from typing import overload


class PromptIds(Sequence[int]):
    """A prompt's ids, put together when they are asked for and not kept.

    A session's turns repeat its history: as tuples of their own, the ids of a session of n turns
    would take n²/2 turns' worth of memory and of time to read.
    """

    __slots__ = ("_before", "_reply", "_rest", "_shared")

    def __init__(
        self,
        before: Sequence[int],  # the prompt of the turn before
        reply: Sequence[int],  # and its reply's ids
        shared: int,  # how many ids of the two together this prompt begins with
        rest: Sequence[int],
    ) -> None:
        self._before = before
        self._reply = reply
        self._shared = shared
        self._rest = rest

    def whole(self) -> tuple[int, ...]:
        chain: list[PromptIds] = []
        first: Sequence[int] = self
        while isinstance(first, PromptIds):
            chain.append(first)
            first = first._before
        ids = list(first)
        for prompt in reversed(chain):
            ids += prompt._reply
            del ids[prompt._shared :]
            ids += prompt._rest
        return tuple(ids)

    def __len__(self) -> int:
        return self._shared + len(self._rest)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[int, ...]: ...
    def __getitem__(self, index: int | slice) -> int | tuple[int, ...]:
        return self.whole()[index]

    def __iter__(self) -> Iterator[int]:
        return iter(self.whole())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PromptIds | tuple):
            return NotImplemented
        return len(self) == len(other) and self.whole() == tuple(other)

    def __hash__(self) -> int:
        return hash(self.whole())

    def __repr__(self) -> str:
        return f"PromptIds({len(self)} ids)"
