"""A client's connection: takes requests apart, and has each relayed or answered."""

import asyncio
import contextlib
import socket
import struct
from collections import deque
from collections.abc import Callable
from time import monotonic_ns
from typing import Protocol, cast

import httptools

from loadjudge.proxy.heads import Field, RequestHead, error_body, own_answer, values_of
from loadjudge.proxy.relay import Core, Relay
from loadjudge.proxy.upstream import HEAD_LIMIT

_LINGER_S = 2.0
_LINGER_0 = struct.pack("ii", 1, 0)  # closing sends a reset

# What the proxy answers by itself: status, body, its type.
Own = tuple[int, bytes, str]


class Front(Core, Protocol):
    """What all client connections share. ``stopping``: no connection is kept any more."""

    stopping: bool

    def route(self, head: RequestHead) -> Own | None:
        """The proxy's own answer to a request, None: it is relayed."""

    def defect(self, error: BaseException) -> None:
        """Something of the proxy's own went wrong."""

    def opened(self, connection: "ClientConnection") -> None: ...

    def closed(self, connection: "ClientConnection") -> None: ...


class _OwnAnswer:
    """A request that the proxy answers by itself, once it is whole."""

    def __init__(self, connection: "ClientConnection", head: RequestHead, own: Own) -> None:
        status, body, kind = own
        self._connection = connection
        # A refused request's body isn't waited for: nothing says how long it is.
        self._close = not head.keep_alive or (status >= 400 and head.has_body)
        self._data = own_answer(
            status, body, kind=kind, close=self._close, body_sent=head.method != b"HEAD"
        )
        self._whole = False
        self._told = False

    def take(self, data: bytes) -> None:
        """The body of such a request is of no use."""

    def whole(self, trailers: tuple[Field, ...]) -> None:
        self._whole = True

    def push(self) -> None:
        if (self._whole or self._close) and not self._told:
            self._told = True
            self._connection.write(self._data)
            self._connection.answered(close=self._close)

    def client_gone(self) -> None: ...

    def client_writable(self, yes: bool) -> None: ...

    def check(self, now_ns: int) -> None: ...


Job = Relay | _OwnAnswer


class ClientConnection(asyncio.Protocol):
    """One connection; requests on it are answered one after the other."""

    def __init__(self, front: Front) -> None:
        self.t_idle_ns = monotonic_ns()  # since when it has had nothing to do
        self._front = front
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self._job: Job | None = None  # whose answer is next
        self._reading: Job | None = None  # whose request is being read
        # Pipelined requests wait as what is to be done with them: (make, body, trailers, whole).
        self._pipelined: deque[_Waiting] = deque()
        self._reading_late: _Waiting | None = None
        self._closing = False
        self._paused = False
        self._head_bytes = 0
        self._in_head = True
        self._upgrade: RequestHead | None = None  # of a request that wishes for one
        self._target = b""
        self._fields: list[Field] = []

    @property
    def busy(self) -> bool:
        return self._job is not None

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def pause(self, yes: bool) -> None:
        if self._transport is None or self._transport.is_closing() or yes == self._paused:
            return
        self._paused = yes
        if yes:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def answered(self, *, close: bool) -> None:
        self._job = None
        self.t_idle_ns = monotonic_ns()
        if close or self._closing or self._front.stopping:
            self.close(linger=self._reading is not None)
        elif self._pipelined:
            asyncio.get_running_loop().call_soon(self._next)
        else:
            self.pause(False)

    def break_off(self, *, reset: bool) -> None:
        """``reset``: where the client would take a plain end for the end of the body."""
        self._job = None
        self._closing = True
        if self._transport is None:
            return
        if not reset:
            self._transport.close()  # what was written goes out; the framing shows the rest lacks
            return
        peer = self._transport.get_extra_info("socket")
        if peer is not None and peer.family in (socket.AF_INET, socket.AF_INET6):
            with contextlib.suppress(OSError):
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_0)
        self._transport.abort()

    def close(self, *, linger: bool = False) -> None:
        """Closes when all that was written has gone out. ``linger``: the client may still be
        sending; a plain close would answer that with a reset, and the answer might be lost."""
        self._closing = True
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if not linger:
            transport.close()
            return
        self.pause(False)
        transport.write_eof()
        asyncio.get_running_loop().call_later(_LINGER_S, self.abort)

    def abort(self) -> None:
        """Closes at once."""
        self._closing = True
        if self._transport is not None:
            self._transport.abort()

    def check(self, now_ns: int, idle_s: float) -> None:
        """Applies the limits of time; idle connections end after ``idle_s``."""
        if self._job is not None:
            self._job.check(now_ns)
        elif (now_ns - self.t_idle_ns) / 1e9 > idle_s:
            self.abort()

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("socket")
        if peer is not None and peer.family in (socket.AF_INET, socket.AF_INET6):
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._front.opened(self)

    def data_received(self, data: bytes) -> None:
        if self._closing or self._parser is None:
            return
        if self._in_head:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._pass_over(upgrade.args[0], data)
            return
        except httptools.HttpParserCallbackError as error:
            self._front.defect(error.__context__ or error)
            self._reject(500, "the proxy failed on this request")
            return
        except httptools.HttpParserError as error:
            self._reject(400, f"the request is no HTTP: {error.__context__ or error}")
            return
        if self._in_head and self._head_bytes > HEAD_LIMIT:
            self._reject(431, f"the head of the request is over {HEAD_LIMIT} bytes")
            return
        if self._job is not None:
            self._job.push()
        if self._pipelined:
            self.pause(True)  # nothing more until its turn comes

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._transport = None
        self._parser = None  # the parser and this refer to each other
        self._pipelined.clear()
        job, self._job, self._reading = self._job, None, None
        if job is not None:
            job.client_gone()
        self._front.closed(self)

    def pause_writing(self) -> None:
        if self._job is not None:
            self._job.client_writable(False)

    def resume_writing(self) -> None:
        if self._job is not None:
            self._job.client_writable(True)

    # What the parser calls.

    def on_message_begin(self) -> None:
        self._target = b""
        self._fields = []

    def on_url(self, data: bytes) -> None:
        self._target += data

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields.append((name, value))  # after the head: trailers

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        head = RequestHead(
            method=self._parser.get_method(),
            target=self._target,
            version=self._parser.get_http_version(),
            fields=tuple(self._fields),
            keep_alive=self._parser.should_keep_alive(),
        )
        self._fields = []
        if self._parser.should_upgrade():
            self._upgrade = head  # the parser stops behind the head
            return
        self._in_head = False
        self._head_bytes = 0
        if self._job is None and not self._pipelined:
            self._job = self._reading = self._made(head)
            self._reading_late = None
        else:
            self._reading = None
            self._reading_late = _Waiting(lambda: self._made(head))
            self._pipelined.append(self._reading_late)

    def on_body(self, data: bytes) -> None:
        if self._reading is not None:
            self._reading.take(data)
        elif self._reading_late is not None:
            self._reading_late.pieces.append(data)

    def on_message_complete(self) -> None:
        if self._upgrade is not None:
            return
        self._in_head = True
        trailers, self._fields = tuple(self._fields), []
        if self._reading is not None:
            self._reading.whole(trailers)
        elif self._reading_late is not None:
            self._reading_late.trailers = trailers
        self._reading = self._reading_late = None

    # ---

    def _pass_over(self, offset: int, data: bytes) -> None:
        """Reads a request that wishes to go on in another protocol (curl's h2c) as one that
        doesn't, as a server may. The parser took its body for that protocol's."""
        head, self._upgrade = self._upgrade, None
        if head is None or head.method == b"CONNECT":
            self._reject(405, "CONNECT does not pass through this proxy")
            return
        if b"websocket" in values_of(head.fields, b"upgrade").lower():
            self._reject(501, "WebSockets don't pass through this proxy")
            return
        fields = [f for f in head.fields if f[0].lower() not in (b"connection", b"upgrade")]
        if not head.keep_alive:
            fields.append((b"Connection", b"close"))
        lines = [
            b"%b %b HTTP/1.1" % (head.method, head.target),
            *(k + b": " + v for k, v in fields),
        ]
        self._parser = httptools.HttpRequestParser(self)
        self.data_received(b"\r\n".join(lines) + b"\r\n\r\n" + data[offset:])

    def _made(self, head: RequestHead) -> Job:
        own = self._front.route(head)
        framing = values_of(head.fields, b"transfer-encoding").lower()
        if own is None and framing not in (b"", b"chunked"):
            own = 501, error_body(501, "the request's transfer-encoding is not known"), _JSON
        return Relay(self._front, self, head) if own is None else _OwnAnswer(self, head, own)

    def _next(self) -> None:
        """The next pipelined request's turn."""
        if self._closing or self._job is not None or not self._pipelined:
            return
        waiting = self._pipelined.popleft()
        self._job = waiting.make()
        for piece in waiting.pieces:
            self._job.take(piece)
        if waiting.trailers is not None:
            self._job.whole(waiting.trailers)
        else:
            self._reading, self._reading_late = self._job, None
        if not self._pipelined:
            self.pause(False)
        self._job.push()

    def _reject(self, status: int, message: str) -> None:
        """What can't be understood is answered, where no answer is on its way, and closed."""
        self._parser = None
        job, self._job = self._job, None
        if job is not None:
            job.client_gone()
        else:
            self.write(own_answer(status, error_body(status, message), close=True))
        self.close(linger=True)


class _Waiting:
    """A pipelined request that waits for its turn."""

    def __init__(self, make: Callable[[], Job]) -> None:
        self.make = make
        self.pieces: list[bytes] = []
        self.trailers: tuple[Field, ...] | None = None  # None: not whole yet


_JSON = "application/json"
