"""The load client: as many calls at once as it is asked for, each with its times."""

import asyncio
import os
from asyncio import TimerHandle
from collections.abc import Mapping
from dataclasses import dataclass
from socket import gaierror
from ssl import SSLContext, SSLError
from time import monotonic_ns

from loadjudge.client.connection import Connection, Exchange, Timeouts
from loadjudge.client.endpoint import Endpoint, parse_endpoint, request_headers, ssl_context
from loadjudge.client.failures import CallError, FailureKind
from loadjudge.client.reads import Reads
from loadjudge.client.retryafter import retry_after_s
from loadjudge.errors import JudgeError
from loadjudge.wire.errortext import error_sentence
from loadjudge.wire.reply import Reply
from loadjudge.wire.stream import StreamError

# Opened at once ahead of a run: below the accept queue of common servers (128).
_OPEN_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Call:
    """A whole reply and its times, of ``time.monotonic_ns``.

    From ``t_scheduled_ns`` to ``t_sent_ns`` it waited on this side: for its turn, a connection,
    or a Retry-After. ``t_done_ns`` is the end of the body, not of the tokens.
    """

    reply: Reply
    status: int
    t_scheduled_ns: int
    t_sent_ns: int  # of the request that was answered
    t_headers_ns: int
    t_done_ns: int
    retries: int  # sent again because the server had closed a kept connection
    waits: int  # times it was told to come back later (429, 503 with Retry-After)
    connected: bool  # a connection was made for it
    bytes_in: int  # as read from the connection


@dataclass(frozen=True, slots=True)
class _Answered:
    """An exchange that is over, and what it took; see Call."""

    exchange: Exchange
    t_scheduled_ns: int
    retries: int
    waits: int
    connected: bool


class LoadClient:
    """Plays chat calls on one endpoint, over a kept connection each, with no cap on them.

    ``api_key`` goes into Authorization as a bearer token; ``insecure`` leaves certificates
    unchecked. A Retry-After is honoured ``max_waits`` times a call and for ``max_wait_s``
    seconds at most.
    """

    def __init__(
        self,
        endpoint: Endpoint | str,
        *,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
        ssl: SSLContext | None = None,
        insecure: bool = False,
        max_waits: int = 3,
        max_wait_s: float = 30.0,
    ) -> None:
        self.endpoint = parse_endpoint(endpoint) if isinstance(endpoint, str) else endpoint
        self._timeouts = timeouts or Timeouts()
        self._ssl = (ssl or ssl_context(insecure)) if self.endpoint.tls else None
        self._max_waits = max_waits
        self._max_wait_s = max_wait_s
        self._headers = request_headers(api_key, headers or {})
        self._head = _head(self.endpoint, self._headers, "/chat/completions", "text/event-stream")
        self._idle: list[Connection] = []  # the last one used is the next: warm, least stale
        self._busy: set[Connection] = set()
        self._reads = Reads()
        self._watchdog: TimerHandle | None = None
        self._closed = False

    async def open(self, connections: int) -> None:
        """Sees to it that so many connections are idle. Raises JudgeError where it can't."""
        while (missing := connections - len(self._idle)) > 0:
            try:
                made = await asyncio.gather(
                    *(self._connect() for _ in range(min(missing, _OPEN_AT_ONCE)))
                )
            except CallError as error:
                raise JudgeError(f"{self.endpoint.url}: {error.message}") from error
            self._idle += made

    async def chat(self, body: bytes, *, t_scheduled_ns: int | None = None) -> Call:
        """Sends one chat request and reads its reply to the end. Raises CallError.

        ``t_scheduled_ns`` is when it was due, now by default. Cancelling closes the connection
        at once.
        """
        scheduled = monotonic_ns() if t_scheduled_ns is None else t_scheduled_ns
        payload = b"%b%d\r\n\r\n%b" % (self._head, len(body), body)
        return _call(await self._answer(payload, scheduled))

    async def post(self, path: str, body: bytes) -> tuple[int, bytearray]:
        """Status and body of a call that is not streamed. Raises CallError where there is none.

        ``path`` follows /v1. For answers of tens of MB, such as log-probabilities: a general
        client's reads are so small that the server waits for them (bench/scoring.py).
        """
        head = _head(self.endpoint, self._headers, path, "application/json")
        payload = b"%b%d\r\n\r\n%b" % (head, len(body), body)
        answered = await self._answer(payload, monotonic_ns(), whole=True)
        exchange = answered.exchange
        if exchange.failure is not None or exchange.status is None:
            raise _failed(answered, *(exchange.failure or ("malformed", "there was no answer")))
        return exchange.status, exchange.body

    async def _answer(self, payload: bytes, scheduled: int, *, whole: bool = False) -> _Answered:
        """Sends a request until it is answered. Raises CallError where there is no connection."""
        retries = waits = 0
        connected = stale = False
        while True:
            if self._idle and not stale:
                connection, new = self._idle.pop(), False
            else:
                try:
                    connection, new = await self._connect(), True
                except CallError as error:
                    error.t_scheduled_ns, error.retries, error.waits = scheduled, retries, waits
                    raise
            connected = connected or new
            exchange = await self._play(connection, payload, whole)
            stale = exchange.unanswered and not new and not self._closed
            if stale:
                retries += 1
                continue
            pause_s = _pause_s(exchange)
            if pause_s is not None and waits < self._max_waits:
                waits += 1
                await asyncio.sleep(min(pause_s, self._max_wait_s))
                continue
            return _Answered(exchange, scheduled, retries, waits, connected)

    async def close(self) -> None:
        """Closes all connections; calls in flight fail as cancelled."""
        self._closed = True
        if self._watchdog is not None:
            self._watchdog.cancel()
        self._reads.parse()
        for connection in (*self._busy, *self._idle):
            connection.fail("cancelled", "the client was closed")
        # One turn of the loop, in which the transports close their sockets.
        await asyncio.sleep(0)

    async def __aenter__(self) -> "LoadClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def idle(self) -> int:
        """Connections that wait for a call."""
        return len(self._idle)

    @property
    def in_flight(self) -> int:
        """Calls that have been sent and not ended."""
        return len(self._busy)

    def lost(self, connection: Connection) -> None:
        """A connection tells that it is closed."""
        if connection in self._idle:
            self._idle.remove(connection)

    async def _play(self, connection: Connection, payload: bytes, whole: bool) -> Exchange:
        self._busy.add(connection)
        if self._watchdog is None:
            self._watch()
        try:
            exchange = connection.send(payload, whole=whole)
            await exchange.finished
        except BaseException:  # cancelled
            connection.abort()
            raise
        finally:
            self._busy.discard(connection)
        if connection.reusable and not self._closed:
            self._idle.append(connection)
        return exchange

    async def _connect(self) -> Connection:
        started = monotonic_ns()
        try:
            async with asyncio.timeout(self._timeouts.connect_s):
                connection = await self._dial()
        except TimeoutError as error:
            why = f"no connection within {self._timeouts.connect_s:g} s"
            raise _unsent("connect_timeout", why, started) from error
        except OSError as error:
            raise _unsent("connect", f"no connection: {dial_reason(error)}", started) from error
        if self._closed:
            connection.abort()
            raise _unsent("cancelled", "the client was closed", started)
        return connection

    async def _dial(self) -> Connection:
        loop = asyncio.get_running_loop()
        where = self.endpoint
        if where.socket is not None:
            _, connection = await loop.create_unix_connection(
                lambda: Connection(self, self._reads), where.socket
            )
        else:
            _, connection = await loop.create_connection(
                lambda: Connection(self, self._reads), where.host, where.port, ssl=self._ssl
            )
        return connection

    def _watch(self) -> None:
        """One coarse timer for all calls: a timer for each chunk would cost more than it times."""
        self._reads.parse()
        now_ns = monotonic_ns()
        for connection in tuple(self._busy):
            connection.check(now_ns, self._timeouts)
        shortest_s = min(self._timeouts.first_byte_s, self._timeouts.idle_s)
        every_s = min(1.0, max(0.005, shortest_s / 4))
        self._watchdog = (
            asyncio.get_running_loop().call_later(every_s, self._watch) if self._busy else None
        )


def _unsent(kind: FailureKind, why: str, scheduled: int) -> CallError:
    return CallError(kind, why, t_scheduled_ns=scheduled, t_failed_ns=monotonic_ns())


def dial_reason(error: OSError) -> str:
    """The system's words: asyncio's own say only which call failed, and to where."""
    if error.errno is None or isinstance(error, SSLError | gaierror):
        return error.strerror or str(error)
    return os.strerror(error.errno)


def _head(endpoint: Endpoint, headers: Mapping[str, str], path: str, accept: str) -> bytes:
    """The request up to the value of Content-Length."""
    lines = {
        "Host": endpoint.authority,
        "Content-Type": "application/json",
        "Accept": accept,
        "Accept-Encoding": "identity",  # compression would hold chunks back
        **headers,
    }
    text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"POST {endpoint.api_path}{path} HTTP/1.1\r\n{text}Content-Length: ".encode()


def _pause_s(exchange: Exchange) -> float | None:
    if exchange.failure is not None or exchange.status not in (429, 503):
        return None
    return retry_after_s(exchange.headers.get("retry-after"))


def _call(answered: _Answered) -> Call:
    """What a finished exchange came to. Raises CallError where that is no whole reply."""
    exchange = answered.exchange
    if exchange.failure is not None:
        kind, message = exchange.failure
    elif exchange.streaming:
        done = exchange.t_done_ns or monotonic_ns()
        try:
            return Call(
                exchange.decoder.finish(),
                200,
                answered.t_scheduled_ns,
                exchange.t_sent_ns,
                exchange.t_headers_ns or done,
                done,
                answered.retries,
                answered.waits,
                answered.connected,
                exchange.bytes_in,
            )
        except StreamError as error:
            kind, message = error.kind, error.message
    elif exchange.status == 200:
        kind, message = (
            "malformed",
            f"the answer is no event stream: {error_sentence(bytes(exchange.body))}",
        )
    else:
        kind, message = "http", f"status {exchange.status}: {error_sentence(bytes(exchange.body))}"
    raise _failed(answered, kind, message)


def _failed(answered: _Answered, kind: FailureKind, message: str) -> CallError:
    exchange = answered.exchange
    return CallError(
        kind,
        message,
        t_scheduled_ns=answered.t_scheduled_ns,
        t_sent_ns=exchange.t_sent_ns,
        t_failed_ns=exchange.t_done_ns or monotonic_ns(),
        status=exchange.status,
        reply_so_far=exchange.decoder.so_far() if exchange.streaming else None,
        retries=answered.retries,
        waits=answered.waits,
    )
