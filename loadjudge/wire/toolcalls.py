"""Tool calls as they are streamed: pieces by index, put together."""

from collections.abc import Iterable
from typing import Any

from loadjudge.wire.reply import ToolCall


def as_text(value: object) -> str:
    """The value, which must be a string: anything else is not left out in silence."""
    if isinstance(value, str):
        return value
    raise TypeError(f"text expected, not {type(value).__name__}")


class _Pieces:
    """One call in work."""

    __slots__ = ("arguments", "id", "name")

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []


class CallPieces:
    """All calls of one reply."""

    def __init__(self) -> None:
        self._by_index: dict[int, _Pieces] = {}
        self._last: _Pieces | None = None

    def take(self, deltas: Iterable[dict[str, Any]]) -> int:
        """Takes the ``tool_calls`` of one delta; returns how many characters were generated.

        The index alone says which call a piece belongs to where there is one (some servers
        make up a new id for every piece); without one, its id does, or else it goes on with
        the last call.
        """
        chars = 0
        for delta in deltas:
            call = self._last = self._find(delta)
            call.id = call.id or delta.get("id") or ""
            function = delta.get("function") or {}
            name = function.get("name")
            if name and not call.name:  # servers that repeat it send it whole
                call.name = name
                chars += len(name)
            arguments = function.get("arguments")
            if arguments:
                call.arguments.append(as_text(arguments))
                chars += len(arguments)
        return chars

    def calls(self) -> tuple[ToolCall, ...]:
        """In the order of their index."""
        return tuple(
            ToolCall(call.id, call.name, "".join(call.arguments))
            for _, call in sorted(self._by_index.items())
        )

    def _find(self, delta: dict[str, Any]) -> _Pieces:
        index = delta.get("index")
        if index is None:
            call_id = delta.get("id")
            if call_id:
                known = [call for call in self._by_index.values() if call.id == call_id]
                if known:
                    return known[0]
            elif self._last is not None:
                return self._last
            index = max(self._by_index, default=-1) + 1
        return self._by_index.setdefault(index, _Pieces())
