"""One HTTP/1.1 connection to an endpoint: stamps each read, and parses it in the same turn."""

import asyncio
import socket
import sys
from asyncio import Future
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic_ns
from typing import Protocol, cast

import httptools

from loadjudge.client.failures import FailureKind
from loadjudge.client.reads import Reads
from loadjudge.wire.stream import ReplyDecoder

RECEIVE_BUFFER = 1 << 20  # bytes, of the socket
ERROR_BODY = 64 << 10  # bytes kept of a body that should be a stream and is none
WHOLE_BODY = 1 << 30  # bytes of a body that is wanted whole, at most
# A server that has sent [DONE] but not the end of the body has this long to send it.
_END_GRACE_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Timeouts:
    """In seconds. ``first_byte_s`` runs from the request to the first byte of the body (headers
    may come long before it), ``idle_s`` between bytes of the body; comments count as bytes."""

    connect_s: float = 10.0
    first_byte_s: float = 600.0
    idle_s: float = 60.0


class Exchange:
    """One request and what came back. Times are of ``time.monotonic_ns``."""

    __slots__ = (
        "body",
        "bytes_in",
        "decoder",
        "failure",
        "finished",
        "headers",
        "status",
        "streaming",
        "t_body_ns",
        "t_done_ns",
        "t_headers_ns",
        "t_sent_ns",
        "whole",
    )

    def __init__(self, finished: "Future[None]", *, whole: bool = False) -> None:
        self.decoder = ReplyDecoder()
        self.finished = finished  # never holds an exception: failure says what went wrong
        self.failure: tuple[FailureKind, str] | None = None
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.whole = whole  # what is wanted is no stream but one body
        self.streaming = False  # the body is an event stream under status 200
        self.body = bytearray()  # of any other answer: whole, or ERROR_BODY bytes at most
        self.bytes_in = 0  # as read: headers and chunk frames included
        self.t_sent_ns = 0
        self.t_headers_ns: int | None = None
        self.t_body_ns: int | None = None
        self.t_done_ns: int | None = None

    @property
    def unanswered(self) -> bool:
        """The connection ended before any byte of an answer."""
        return self.failure is not None and self.failure[0] == "reset" and self.bytes_in == 0


class Owner(Protocol):
    """Whoever keeps the connections."""

    def lost(self, connection: "Connection") -> None:
        """The connection is closed."""


# A plain Protocol, not a BufferedProtocol with a buffer of its own: uvloop reads up to 256 KiB at
# once into one shared buffer, and copying out what came (a chunk, mostly) costs no more than the
# second Python call a read that a BufferedProtocol takes (measured: bench/client.md).
class Connection(asyncio.Protocol):
    """One request at a time. ``send`` starts it, the exchange's ``finished`` ends it."""

    def __init__(self, owner: Owner, reads: Reads) -> None:
        self.reusable = True
        self._owner = owner
        self._reads = reads
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._exchange: Exchange | None = None
        self._feed: Callable[[bytes, int], None] | None = None  # takes the body, once it began
        self._t_ns = 0  # of the last read that was parsed
        self._bytes_in = 0  # of the exchange in work
        self._complete = False  # the message has ended within the read in work

    def send(self, payload: bytes, *, whole: bool = False) -> Exchange:
        """Sends a whole request in one write. ``whole``: the answer is wanted as one body."""
        assert self._exchange is None
        assert self._transport is not None
        finished = asyncio.get_running_loop().create_future()
        exchange = self._exchange = Exchange(finished, whole=whole)
        self._feed = None
        self._bytes_in = 0
        exchange.t_sent_ns = monotonic_ns()
        self._transport.write(payload)  # uvloop, too, writes at once to an empty queue
        return exchange

    def abort(self) -> None:
        """Closes at once: the server sees the disconnect now, not when a buffer is empty."""
        self.reusable = False
        if self._transport is not None:
            self._transport.abort()

    def fail(self, kind: FailureKind, message: str) -> None:
        """Ends the exchange in work, if there is one, and the connection."""
        exchange = self._exchange
        if exchange is None:
            self.abort()
        else:
            exchange.failure = (kind, message)
            self._finish(monotonic_ns(), reusable=False)

    def check(self, now_ns: int, timeouts: Timeouts) -> None:
        """Applies the timeouts to the exchange in work."""
        exchange = self._exchange
        if exchange is None:
            return
        if exchange.t_body_ns is None:
            if now_ns - exchange.t_sent_ns > timeouts.first_byte_s * 1e9:
                self.fail("first_byte_timeout", f"nothing came in {timeouts.first_byte_s:g} s")
            return
        idle_ns = now_ns - self._t_ns
        if exchange.decoder.error or (exchange.decoder.done and idle_ns > _END_GRACE_NS):
            self._finish(self._t_ns, reusable=False)
        elif idle_ns > timeouts.idle_s * 1e9:
            self.fail("idle_timeout", f"the stream stood still for {timeouts.idle_s:g} s")

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("socket")
        if peer is not None and peer.family in (socket.AF_INET, socket.AF_INET6):
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if _may_set_buffer():
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)

    def data_received(self, data: bytes) -> None:
        # The stamp first: whatever follows is not the server's time.
        self._reads.add(self, monotonic_ns(), data)

    def eof_received(self) -> bool:
        self._reads.parse()
        self.reusable = False
        self._owner.lost(self)
        self._end(None)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._reads.parse()
        self._end(exc)
        self.reusable = False
        self._transport = None
        self._parser = None  # the parser and this refer to each other
        self._owner.lost(self)

    def parse(self, t_ns: int, data: bytes) -> None:
        """Takes bytes that were read at ``t_ns``; ``reads`` calls it at the end of the turn."""
        self._t_ns = t_ns
        self._bytes_in += len(data)
        if self._exchange is None or self._parser is None:
            self.abort()  # an answer to nothing: a server's timeout notice, or a broken one
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self.fail("malformed", f"the answer is no HTTP: {error.__context__ or error}")
            return
        if self._complete:
            self._finish(t_ns, reusable=self.reusable)

    # What the parser calls.

    def on_message_begin(self) -> None:
        if self._complete:
            self.reusable = False  # a second answer in the same read

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._exchange is not None and not self._complete:
            self._exchange.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        exchange = self._exchange
        if exchange is None or self._parser is None or self._complete:
            return
        exchange.status = self._parser.get_status_code()
        exchange.t_headers_ns = self._t_ns
        kind = exchange.headers.get("content-type", "text/event-stream")
        stream = "json" not in kind and "html" not in kind
        exchange.streaming = stream and exchange.status == 200 and not exchange.whole

    def on_body(self, body: bytes) -> None:
        if self._feed is not None:
            self._feed(body, self._t_ns)
        elif self._exchange is not None and not self._complete:
            self._exchange.t_body_ns = self._t_ns
            self._feed = self._exchange.decoder.feed if self._exchange.streaming else self._keep
            self._feed(body, self._t_ns)

    def _keep(self, body: bytes, _: int) -> None:
        """Takes the body of an answer that is no stream."""
        exchange = self._exchange
        if exchange is not None and exchange.whole:
            exchange.body += body
            if len(exchange.body) > WHOLE_BODY:
                self.fail("malformed", f"the answer is larger than {WHOLE_BODY >> 20} MiB")
        elif exchange is not None:
            exchange.body += body[: ERROR_BODY - len(exchange.body)]
            self._complete = self._complete or len(exchange.body) == ERROR_BODY
            self.reusable = self.reusable and not self._complete

    def on_message_complete(self) -> None:
        exchange = self._exchange
        if exchange is None or self._parser is None or self._complete:
            return
        if exchange.status is not None and exchange.status < 200:  # 100 Continue, 103 Early Hints
            exchange.status = exchange.t_headers_ns = None
            exchange.headers.clear()
            return
        self._complete = True
        self._feed = None
        # Asked here: once this returns, the parser has forgotten the message's headers.
        self.reusable = self.reusable and self._parser.should_keep_alive()

    # How an exchange ends.

    def _end(self, error: Exception | None) -> None:
        """The connection has ended, by the server or by an error."""
        exchange = self._exchange
        if exchange is None:
            return
        if self._bytes_in == 0:
            why = f" ({error})" if error else ""
            self.fail("reset", f"the connection was closed before any answer{why}")
        elif exchange.decoder.done or exchange.status not in (None, 200):
            self._finish(self._t_ns, reusable=False)
        elif error is not None:
            self.fail("reset", f"the connection failed in the middle of the answer: {error}")
        elif exchange.status == 200 and _ends_by_closing(exchange.headers):
            self._finish(self._t_ns, reusable=False)
        else:
            self.fail("cut", "the server closed the connection in the middle of the answer")

    def _finish(self, t_ns: int, *, reusable: bool) -> None:
        exchange, self._exchange = self._exchange, None
        self._complete = False
        self._feed = None
        assert exchange is not None
        exchange.t_done_ns = t_ns
        exchange.bytes_in = self._bytes_in
        if not reusable:
            self.abort()
        if not exchange.finished.done():  # done where its task was cancelled
            exchange.finished.set_result(None)


def _ends_by_closing(headers: dict[str, str]) -> bool:
    return (
        "content-length" not in headers
        and "chunked" not in headers.get("transfer-encoding", "").lower()
    )


def _may_set_buffer() -> bool:
    """Whether a receive buffer of RECEIVE_BUFFER would be granted.

    Linux cuts a larger wish down to rmem_max, and then stops tuning the buffer by itself: where
    rmem_max is small, its own tuning (6 MiB by default) is the better of the two.
    """
    if not sys.platform.startswith("linux"):
        return True
    return _RMEM_MAX >= RECEIVE_BUFFER


def _rmem_max() -> int:
    try:
        return int(Path("/proc/sys/net/core/rmem_max").read_text())
    except (OSError, ValueError):
        return 0


_RMEM_MAX = _rmem_max()
