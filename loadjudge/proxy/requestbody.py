"""The body of one request on its way up."""

from typing import Protocol

from loadjudge.proxy.heads import Field, chunk, last_chunk

_HELD_LIMIT = 512 << 20  # bytes kept over all requests; beyond it none is kept whole


class Holder(Protocol):
    """What all bodies share."""

    held_bytes: int  # that are kept, over all of them


class RequestBody:
    """Pieces that have come and not gone up, and all of the body while it may be needed again.

    ``chunked``: how it is framed, as it came; ``most``: bytes of it that are kept at most.
    """

    def __init__(self, holder: Holder, *, chunked: bool, most: int) -> None:
        self.bytes = 0  # that have come
        self.ended = False
        self._holder = holder
        self._chunked = chunked
        self._most = most
        self._unsent: list[bytes] = []
        self._kept: list[bytes] | None = []
        self._trailers: tuple[Field, ...] = ()

    @property
    def is_kept(self) -> bool:
        return self._kept is not None

    def kept(self) -> bytes | None:
        """All of it so far; None where it was let go."""
        return None if self._kept is None else b"".join(self._kept)

    def take(self, data: bytes) -> None:
        self._unsent.append(data)
        self.bytes += len(data)
        if self._kept is not None:
            self._kept.append(data)
            self._holder.held_bytes += len(data)
            if self.bytes > self._most or self._holder.held_bytes > _HELD_LIMIT:
                self.let_go()

    def end(self, trailers: tuple[Field, ...]) -> None:
        self.ended = True
        self._trailers = trailers

    def replace(self, body: bytes) -> None:
        """Another body goes up in place of the whole one, and with its length."""
        self.let_go()
        self._chunked = False
        self._unsent, self._kept = [body], [body]
        self._holder.held_bytes += len(body)

    def again(self) -> None:
        """All that is kept is to go up once more."""
        assert self._kept is not None
        self._unsent = list(self._kept)

    def pull(self) -> bytes:
        """What has come and not gone up, as it is framed there."""
        pieces, self._unsent = self._unsent, []
        data = b"".join([chunk(piece) for piece in pieces] if self._chunked else pieces)
        if self._chunked and self.ended:
            data += last_chunk(self._trailers)
        return data

    def let_go(self) -> None:
        if self._kept is not None:
            self._holder.held_bytes -= sum(map(len, self._kept))
            self._kept = None
