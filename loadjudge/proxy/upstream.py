"""Connections to an upstream, and what comes on them, told to whoever waits for it."""

import asyncio
import socket
from ssl import SSLContext
from time import monotonic_ns
from typing import Literal, Protocol, cast

import httptools

from loadjudge.client.client import dial_reason
from loadjudge.client.endpoint import Endpoint, parse_endpoint, ssl_context
from loadjudge.proxy.heads import AnswerHead, Field

ErrorKind = Literal[
    "connect",  # no connection to the upstream
    "connect_timeout",
    "timeout",  # no byte of an answer
    "idle_timeout",  # the answer stopped coming
    "reset",  # the connection failed or closed before any answer
    "cut",  # the answer ended in the middle
    "malformed",  # no HTTP, no event stream, no chat chunk
    "http",  # a status of 400 or more
    "stream_error",  # the server reported an error inside the stream
    "client_gone",  # the client left before the end
    "client_stalled",  # the client stopped reading
]

HEAD_LIMIT = 256 << 10  # bytes of one head
_KEPT_IDLE = 256  # connections
_NO_BODY = frozenset({204, 304})


class Sink(Protocol):
    """Whoever waits for one answer. Calls come in this order; ``failed`` may come at any time.
    ``flush`` ends each read, so that what came together can be passed on together."""

    def interim(self, head: AnswerHead) -> None:
        """A 1xx answer."""

    def head(self, head: AnswerHead, t_ns: int) -> None:
        """The head of the answer."""

    def body(self, data: bytes, t_ns: int) -> None:
        """Some of the body, its framing taken off."""

    def end(self, trailers: tuple[Field, ...], t_ns: int) -> None:
        """The answer is whole."""

    def flush(self) -> None:
        """No more comes of this read."""

    def failed(self, kind: ErrorKind, message: str, *, unanswered: bool) -> None:
        """The answer will not be whole. ``unanswered``: not a byte of it came, on a kept
        connection: the server had closed it, and the request can be sent again."""

    def writable(self, yes: bool) -> None:
        """Whether the upstream takes more of the request's body now."""


class ConnectError(Exception):
    """No connection."""

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind: ErrorKind = kind
        self.message = message


class UpstreamConnection(asyncio.Protocol):
    """One HTTP/1.1 connection; one request at a time."""

    def __init__(self, upstream: "Upstream") -> None:
        self.used = False  # has answered before
        self._upstream = upstream
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._sink: Sink | None = None
        self._to_head = False  # the request is HEAD: its answer has no body
        self._reusable = True
        self._answered = False  # a byte of the answer came
        self._headed = False  # the head of the answer was given
        self._complete = False
        self._by_closing = False  # the body ends where the connection does
        self._head_bytes = 0
        self._t_ns = 0
        self._reason = b""
        self._fields: list[Field] = []

    def begin(self, sink: Sink, data: bytes, *, to_head: bool) -> None:
        """Sends the beginning of a request, as much as there is of it."""
        assert self._sink is None
        self._sink = sink
        self._to_head = to_head
        self._parser = httptools.HttpResponseParser(self)
        self._answered = self._headed = self._complete = self._by_closing = False
        self._head_bytes = 0
        self.write(data)

    def write(self, data: bytes) -> None:
        """Sends some more of it, framed as it is to be."""
        if self._transport is not None:
            self._transport.write(data)

    def abort(self) -> None:
        """Closes at once, whatever is in flight: the server sees the disconnect now."""
        self._sink = None
        self._reusable = False
        if self._transport is not None:
            self._transport.abort()

    def pause(self, yes: bool) -> None:
        """Stops reading while whoever gets the answer can't take it."""
        if self._transport is None or self._transport.is_closing():
            return
        if yes:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def release(self) -> None:
        """The request is whole and answered: the connection may serve another."""
        if self._reusable and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()  # stopped for a client that was slow to the end
            self._upstream.keep(self)
        else:
            self.abort()

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("socket")
        if peer is not None and peer.family in (socket.AF_INET, socket.AF_INET6):
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        # The stamp first: whatever follows is not the server's time.
        self._t_ns = monotonic_ns()
        sink = self._sink
        if sink is None or self._parser is None:
            self.abort()  # an answer to nothing
            return
        self._answered = True
        if not self._headed:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            # What was right before the fault goes out first. A parser that is asked again after
            # the last message's end (a body in answer to HEAD) is no fault of this answer.
            if not self._complete:
                sink.flush()
                self._fail("malformed", f"the answer is no HTTP: {error.__context__ or error}")
                return
            self._reusable = False
        if not self._headed and self._head_bytes > HEAD_LIMIT:
            self._fail("malformed", f"the head of the answer is over {HEAD_LIMIT} bytes")
            return
        if self._complete:
            self._sink = None
            self.used = True
            sink.end(tuple(self._fields), self._t_ns)
        sink.flush()

    def eof_received(self) -> bool:
        self._reusable = False
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._reusable = False
        self._upstream.lost(self)
        self._transport = None
        self._parser = None  # the parser and this refer to each other
        sink = self._sink
        if sink is None:
            return
        if self._by_closing and exc is None:
            self._sink = None
            sink.end((), monotonic_ns())
            sink.flush()
        elif not self._answered:
            why = f" ({exc})" if exc else ""
            self._fail("reset", f"the connection was closed before any answer{why}")
        else:
            self._fail("cut", "the upstream closed the connection in the middle of the answer")

    def pause_writing(self) -> None:
        if self._sink is not None:
            self._sink.writable(False)

    def resume_writing(self) -> None:
        if self._sink is not None:
            self._sink.writable(True)

    def _fail(self, kind: ErrorKind, message: str) -> None:
        sink, self._sink = self._sink, None
        unanswered = kind == "reset" and not self._answered and self.used
        self.abort()
        if sink is not None:
            sink.failed(kind, message, unanswered=unanswered)

    # What the parser calls.

    def on_message_begin(self) -> None:
        if self._complete:
            self._reusable = False  # a second answer in the same read
            return
        self._reason = b""
        self._fields = []

    def on_status(self, reason: bytes) -> None:
        if not self._complete:
            self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._complete:
            self._fields.append((name, value))  # after the head: trailers

    def on_headers_complete(self) -> None:
        if self._complete or self._parser is None or self._sink is None:
            return
        head = AnswerHead(self._parser.get_status_code(), self._reason, tuple(self._fields))
        self._fields = []
        if head.status < 200:
            self._sink.interim(head)
            return
        self._headed = True
        self._reusable = self._reusable and self._parser.should_keep_alive()
        bodiless = self._to_head or head.status in _NO_BODY
        self._by_closing = not (bodiless or head.chunked or head.length is not None)
        self._sink.head(head, self._t_ns)
        if self._to_head:
            # The parser would wait for a body that never comes; the next request gets a new one.
            self._complete = True

    def on_body(self, data: bytes) -> None:
        if not self._complete and self._sink is not None:
            self._sink.body(data, self._t_ns)

    def on_message_complete(self) -> None:
        # Of a 1xx answer, the real one is still to come.
        self._complete = self._complete or self._headed


class Upstream:
    """An endpoint and the connections to it that are kept."""

    def __init__(
        self,
        endpoint: Endpoint | str,
        *,
        connect_s: float = 10.0,
        insecure: bool = False,
        ssl: SSLContext | None = None,
    ) -> None:
        self.endpoint = parse_endpoint(endpoint) if isinstance(endpoint, str) else endpoint
        self._connect_s = connect_s
        self._ssl = (ssl or ssl_context(insecure)) if self.endpoint.tls else None
        self._idle: dict[UpstreamConnection, None] = {}  # the last one used is the next: warm

    def kept(self) -> UpstreamConnection | None:
        """A connection that is there, or None."""
        return self._idle.popitem()[0] if self._idle else None

    async def connect(self) -> UpstreamConnection:
        """A new one. Raises ConnectError."""
        loop = asyncio.get_running_loop()
        where = self.endpoint
        try:
            async with asyncio.timeout(self._connect_s):
                if where.socket is not None:
                    return (
                        await loop.create_unix_connection(
                            lambda: UpstreamConnection(self), where.socket
                        )
                    )[1]
                return (
                    await loop.create_connection(
                        lambda: UpstreamConnection(self), where.host, where.port, ssl=self._ssl
                    )
                )[1]
        except TimeoutError as error:
            why = f"no connection to {where.url} within {self._connect_s:g} s"
            raise ConnectError("connect_timeout", why) from error
        except OSError as error:
            why = f"no connection to {where.url}: {dial_reason(error)}"
            raise ConnectError("connect", why) from error

    def keep(self, connection: UpstreamConnection) -> None:
        """Takes a connection back."""
        if len(self._idle) >= _KEPT_IDLE:
            connection.abort()
        else:
            self._idle[connection] = None

    def lost(self, connection: UpstreamConnection) -> None:
        """A connection tells that it is closed."""
        self._idle.pop(connection, None)

    def close(self) -> None:
        """Closes the connections that are kept."""
        for connection in tuple(self._idle):
            connection.abort()
        self._idle.clear()
