"""Bodies as they were before they were compressed, for whoever reads beside. Bounded."""

import zlib
from typing import Protocol


class Unreadable(Exception):
    """A coding that can't be undone here, or data that isn't in it."""


class Decoder(Protocol):
    """Undoes a Content-Encoding piece by piece."""

    def __call__(self, data: bytes, /) -> bytes: ...


def decoder_of(coding: str) -> Decoder:
    """What undoes a Content-Encoding. Raises Unreadable where nothing here does.

    gzip and deflate come with Python. Brotli and zstd don't: such bodies pass through like any
    other, and what would be read in them is unknown.
    """
    name = coding.strip().lower()
    if name in ("", "identity"):
        return bytes
    if name in ("gzip", "x-gzip"):
        return _Inflate(16 + zlib.MAX_WBITS)
    if name == "deflate":
        return _Inflate(zlib.MAX_WBITS)
    raise Unreadable(f"content-encoding {name[:40]}")


def decoded(data: bytes, coding: str, limit: int) -> bytes:
    """A whole body. Raises Unreadable where it is over ``limit`` bytes or not in that coding."""
    name = coding.strip().lower()
    if name in ("", "identity"):
        return data
    inflate = decoder_of(name)
    assert isinstance(inflate, _Inflate)
    return inflate(data, limit)


_LIMIT = 16 << 20  # of what one piece may become: a bomb is not unpacked


class _Inflate:
    def __init__(self, bits: int) -> None:
        self._inflate = zlib.decompressobj(bits)

    def __call__(self, data: bytes, limit: int = _LIMIT) -> bytes:
        try:
            out = self._inflate.decompress(data, limit)
        except zlib.error as error:
            raise Unreadable(f"compressed data that is none ({error})") from None
        if self._inflate.unconsumed_tail:
            raise Unreadable(f"compressed data of more than {limit} bytes")
        return out
