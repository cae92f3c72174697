"""Frames between the proxy and its helpers: a JSON head and a body of bytes. Pure."""

import struct
from collections.abc import Iterator
from typing import Any

import orjson

_SIZES = struct.Struct(">IQ")
LARGEST = 1 << 30

Frame = tuple[dict[str, Any], bytes]


def encoded(head: dict[str, Any], body: bytes = b"") -> bytes:
    """One frame."""
    text = orjson.dumps(head)
    return _SIZES.pack(len(text), len(body)) + text + body


class FrameDecoder:
    """Cuts frames out of bytes that come in any pieces."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that these bytes complete. Raises ValueError where they are none."""
        self._held += data
        while len(self._held) >= _SIZES.size:
            head, body = _SIZES.unpack_from(self._held)
            if head + body > LARGEST:
                raise ValueError("no frame")
            end = _SIZES.size + head + body
            if len(self._held) < end:
                return
            start = _SIZES.size + head
            value = orjson.loads(memoryview(self._held)[_SIZES.size : start])
            content = bytes(memoryview(self._held)[start:end])
            del self._held[:end]
            yield value, content
