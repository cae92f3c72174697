"""Server-sent events: byte strings in, events out.

Source: WHATWG HTML, 9.2 "Server-sent events" (parsing and interpreting an event stream).
Data stays bytes, so that a UTF-8 character cut by a read boundary is whole again before anyone
decodes it, and nothing but CR, LF and CRLF ever ends a line (U+2028 doesn't).
"""

from typing import NamedTuple

_BOM = b"\xef\xbb\xbf"
_BLANK = b"\n\n"


class Event(NamedTuple):
    """One dispatched event. A named tuple: one is made for every chunk of every lane."""

    name: str  # "message" where the stream names none
    data: bytes


class EventDecoder:
    """Cuts an event stream that arrives in arbitrary pieces.

    An event that is cut off by the end of the stream is never given, as the standard says.
    """

    def __init__(self) -> None:
        self._head: bytes | None = b""  # the first bytes, while they may still be a BOM
        self._clean = False  # the last byte ended an event: nothing is held back
        self._line: list[bytes] = []  # pieces of a line without its end: joined once, at its end
        self._skip_lf = False  # the last byte was a CR: an LF now belongs to it
        self._name = b""
        self._data: list[bytes] = []

    def lone(self, data: bytes) -> bytes | None:
        """The data of the event, where these bytes are just one plain ``data: …`` event.

        ``None`` where they are anything else: give them to ``feed``. Most pieces of most streams
        are of this kind, and this costs a fraction of ``feed``.
        """
        if (
            self._clean
            and data.startswith(b"data: ")
            and data.endswith(_BLANK)
            and data.find(b"\n") == len(data) - 2
            and b"\r" not in data
        ):
            return data[6:-2]
        return None

    def feed(self, data: bytes) -> list[Event]:
        """The events that these bytes complete."""
        events: list[Event] = []
        if self._head is not None:
            data = self._without_bom(data)
        if not self._clean:
            # Back to the fast path as soon as the event in work ends: a client that has fallen
            # behind reads large pieces, and must not be slow on just those.
            end = data.find(_BLANK) + 2
            if end < 2:
                self._by_lines(data, events)
                return events
            self._by_lines(data[:end], events)
            self._clean = True
            data = data[end:]
        if not data:
            return events
        if b"\r" in data:
            self._by_lines(data, events)
            return events
        end = data.rfind(_BLANK)
        if end >= 0:
            for block in data[:end].split(_BLANK):
                if block.startswith(b"data: ") and b"\n" not in block:
                    events.append(Event("message", block[6:]))
                else:
                    for line in block.split(b"\n"):
                        self._take(line, events)
                    self._take(b"", events)
            data = data[end + 2 :]
        self._by_lines(data, events)
        return events

    def _without_bom(self, data: bytes) -> bytes:
        data = (self._head or b"") + data
        if len(data) < 3 and _BOM.startswith(data):
            self._head = data
            return b""
        self._head = None
        self._clean = True
        return data.removeprefix(_BOM)

    def _by_lines(self, data: bytes, events: list[Event]) -> None:
        """The general path: any line end, lines and events cut anywhere."""
        if self._skip_lf and data:
            data = data.removeprefix(b"\n")
            self._skip_lf = False
        if not data:
            return
        self._clean = False
        if b"\n" not in data and b"\r" not in data:
            self._line.append(data)
            return
        if self._line:
            data = b"".join((*self._line, data))
            self._line.clear()
        lines = data.splitlines()  # of bytes: at CR, LF and CRLF only
        self._skip_lf = data.endswith(b"\r")
        if not data.endswith((b"\n", b"\r")):
            self._line.append(lines.pop())
        for line in lines:
            self._take(line, events)
        self._clean = not (self._line or self._data or self._name or self._skip_lf)

    def _take(self, line: bytes, events: list[Event]) -> None:
        """Interprets one whole line."""
        if not line:
            if self._data:
                name = self._name.decode("utf-8", "replace") or "message"
                events.append(Event(name, b"\n".join(self._data)))
                self._data = []
            self._name = b""
            return
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value
        # A comment has an empty field name; id and retry are for reconnecting, which replies can't.
