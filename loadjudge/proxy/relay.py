"""One request on its way up and its answer on its way down."""

import asyncio
from asyncio import Task
from dataclasses import dataclass
from time import monotonic_ns
from typing import Protocol

from loadjudge.proxy.heads import (
    AnswerHead,
    Field,
    RequestHead,
    answer_head,
    chunk,
    error_body,
    last_chunk,
    own_answer,
    request_head,
)
from loadjudge.proxy.meter import LARGEST, Beside, Meter
from loadjudge.proxy.options import Limits
from loadjudge.proxy.requestbody import RequestBody
from loadjudge.proxy.upstream import ConnectError, ErrorKind, Upstream, UpstreamConnection
from loadjudge.record.values import Arm
from loadjudge.wire.request import Sampling

_RESEND_LIMIT = 1 << 20  # bytes of a request kept for sending it again, where nobody else wants it
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_GATEWAY_TIMEOUTS = frozenset({"connect_timeout", "timeout", "idle_timeout"})


@dataclass(frozen=True, slots=True)
class Choice:
    """Where a request goes. ``body``: what is sent instead of it, None: as it came; ``sampling``:
    how it has tokens drawn, where it says so."""

    arm: Arm
    session: str | None = None
    body: bytes | None = None
    sampling: Sampling | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """A relay that is over, as its meter and its observers get it."""

    head: RequestHead
    body: bytes | None  # of the request; None where it is not whole or was not kept
    meter: Meter
    error: ErrorKind | None
    why: str
    t_ns: int
    session: str | None
    sampling: Sampling | None
    number: int | None  # of the request, where it was mirrored


class Core(Protocol):
    """What all relays share."""

    limits: Limits
    beside: Beside
    held_bytes: int  # of requests' bodies that are kept, over all relays

    def upstream(self, arm: Arm) -> Upstream: ...

    def wants_body(self, head: RequestHead) -> bool:
        """Whether the request's body is asked for when it is over."""

    def waits_for_body(self, head: RequestHead) -> bool:
        """Whether ``choose`` needs the whole body, so that nothing goes up before."""

    def choose(self, head: RequestHead, body: bytes | None) -> Choice: ...

    def candidate_key(self, arm: Arm, fields: tuple[Field, ...]) -> tuple[set[bytes], list[Field]]:
        """Fields to leave out of and to add to a request to this arm."""

    def began(self, relay: "Relay") -> None: ...

    def asked(self, head: RequestHead, body: bytes | None) -> int | None:
        """The request is whole, and on its way up. A number for it, where it is mirrored."""

    def over(self, relay: "Relay", done: Done) -> None: ...


class Client(Protocol):
    """The client's connection, as a relay sees it."""

    def write(self, data: bytes) -> None: ...

    def pause(self, yes: bool) -> None:
        """Stops reading the request while the upstream can't take it."""

    def answered(self, *, close: bool) -> None:
        """The answer is written; ``close``: no other can follow on this connection."""

    def break_off(self, *, reset: bool) -> None:
        """The answer ends in the middle: the client must see that it does."""


class Relay:
    """Joins a client's connection and an upstream's for one exchange. Implements ``Sink``."""

    def __init__(self, core: Core, client: Client, head: RequestHead) -> None:
        self.head_in = head
        self.meter = Meter("stock", head.path)
        self.t_began_ns = monotonic_ns()
        self._core = core
        self._client = client
        self._connection: UpstreamConnection | None = None
        self._connecting: Task[None] | None = None
        # Of the request.
        self._choice: Choice | None = None
        self._waits = core.waits_for_body(head)
        self._wanted = core.wants_body(head)
        most = LARGEST if self._wanted or self._waits else _RESEND_LIMIT
        self._body = RequestBody(core, chunked=head.chunked, most=most)
        self._t_read_ns = self.t_began_ns  # of the last of it
        self._continued = False
        self._number: int | None = None
        # Of the answer.
        self._out: list[bytes] = []
        self._answering = False  # the head of the answer is written, or about to be
        self._chunked = False
        self._by_closing = False
        self._close = not head.keep_alive
        self._client_full = False
        self._t_progress_ns = self.t_began_ns
        self._over = False
        core.began(self)

    # --- the request, as the client's connection reads it

    def take(self, data: bytes) -> None:
        """Some of the request's body."""
        self._body.take(data)
        self.meter.request_bytes = self._body.bytes
        if not self._body.is_kept:
            self._waits = False

    def whole(self, trailers: tuple[Field, ...]) -> None:
        """The request has ended."""
        self._body.end(trailers)
        self._t_read_ns = monotonic_ns()

    def push(self) -> None:
        """Sends up what there is; called when a read of the client's has been taken apart."""
        if self._over:
            return
        if self._choice is None:
            if self._waits and not self._body.ended:
                self._invite()
                return
            self._choose()
        if self._connection is not None:
            self._send(self._body.pull())
        elif self._connecting is None:
            kept = self._upstream.kept()
            if kept is not None:
                self._attach(kept)
            else:
                self._connecting = asyncio.ensure_future(self._connect())

    def client_gone(self) -> None:
        """The client has left: the upstream learns it now."""
        self._finish("client_gone", "the client left before the end")

    def client_writable(self, yes: bool) -> None:
        """Whether the client takes more of the answer now."""
        self._client_full = not yes
        self._t_progress_ns = monotonic_ns()
        if self._connection is not None:
            self._connection.pause(not yes)

    def check(self, now_ns: int) -> None:
        """Applies the limits of time."""
        limits = self._core.limits
        idle_s = (now_ns - self._t_progress_ns) / 1e9
        if self._client_full:
            if idle_s > limits.idle_s:
                self._finish("client_stalled", f"the client read nothing in {limits.idle_s:g} s")
                self._client.break_off(reset=True)
        elif not self._body.ended:
            if idle_s > limits.request_s:
                self._refuse("client_stalled", "the request was not finished in time", 408)
        elif not self._answering:
            if idle_s > limits.answer_s:
                why = f"the upstream answered nothing in {limits.answer_s:g} s"
                self.failed("timeout", why, unanswered=False)
        elif idle_s > limits.idle_s:
            why = f"the answer stood still for {limits.idle_s:g} s"
            self.failed("idle_timeout", why, unanswered=False)

    # --- the answer, as the upstream's connection reads it

    def interim(self, head: AnswerHead) -> None:
        """100 Continue and its like go down as they come."""
        if self.head_in.version == "1.1":
            self._client.write(answer_head(head, chunked=False, close=False))

    def head(self, head: AnswerHead, t_ns: int) -> None:
        self._t_progress_ns = t_ns
        self._answering = True
        modern = self.head_in.version == "1.1"
        bodiless = self.head_in.method == b"HEAD" or head.status in (204, 304)
        self._chunked = head.chunked and modern and not bodiless
        self._by_closing = not bodiless and not self._chunked and head.length is None
        # A request that is still being written can't be followed by another.
        self._close = self._close or self._by_closing or not self._body.ended
        said_chunked = head.chunked and modern
        self._out.append(answer_head(head, chunked=said_chunked, close=self._close))
        self.meter.head(head)

    def body(self, data: bytes, t_ns: int) -> None:
        self._t_progress_ns = t_ns
        self._out.append(chunk(data) if self._chunked else data)
        self._core.beside.feed(self.meter, data, t_ns)

    def end(self, trailers: tuple[Field, ...], t_ns: int) -> None:
        if self._chunked:
            self._out.append(last_chunk(trailers))
        self.flush()
        self._finish(None, "", t_ns)
        self._client.answered(close=self._close or not self._body.ended)

    def flush(self) -> None:
        if not self._out:
            return
        out, self._out = self._out, []
        self._client.write(out[0] if len(out) == 1 else b"".join(out))
        if self.meter.added_ns is None and self.meter.t_sent_ns is not None:
            answered_ns = monotonic_ns() - self._t_progress_ns
            self.meter.added_ns = self.meter.t_sent_ns - self._t_read_ns + answered_ns

    def failed(self, kind: ErrorKind, message: str, *, unanswered: bool) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()
        if self._over:
            return
        if unanswered and self._body.is_kept:
            # The server had closed a kept connection: the same request on a new one.
            self._body.again()
            self._connecting = asyncio.ensure_future(self._connect())
            return
        if not self._answering:
            self._refuse(kind, message, 504 if kind in _GATEWAY_TIMEOUTS else 502)
            return
        self.flush()
        self._finish(kind, message)
        self._client.break_off(reset=self._by_closing)

    def writable(self, yes: bool) -> None:
        self._client.pause(not yes)

    # ---

    @property
    def _upstream(self) -> Upstream:
        return self._core.upstream(self.meter.arm)

    def _choose(self) -> None:
        whole = self._body.kept() if self._waits and self._body.ended else None
        self._choice = self._core.choose(self.head_in, whole)
        self.meter.arm = self._choice.arm
        if self._choice.body is not None:
            self._body.replace(self._choice.body)

    def _invite(self) -> None:
        """A client that waits for a 100 Continue gets it here, as nothing has gone up yet."""
        if not self._continued and self._expects:
            self._client.write(_CONTINUE)
        self._continued = True

    @property
    def _expects(self) -> bool:
        return any(
            key.lower() == b"expect" and b"100-continue" in value.lower()
            for key, value in self.head_in.fields
        )

    async def _connect(self) -> None:
        try:
            connection = await self._upstream.connect()
        except ConnectError as error:
            self._connecting = None
            self.failed(error.kind, error.message, unanswered=False)
            return
        self._connecting = None
        if self._over:
            connection.release()
        else:
            self._attach(connection)

    def _attach(self, connection: UpstreamConnection) -> None:
        assert self._choice is not None
        self._connection = connection
        where = self._upstream.endpoint
        without, extra = self._core.candidate_key(self._choice.arm, self.head_in.fields)
        if self._continued:
            without = {*without, b"expect"}
        head = request_head(
            self.head_in,
            prefix=where.prefix,
            authority=where.authority,
            without=without,
            extra=extra,
            length=None if self._choice.body is None else len(self._choice.body),
        )
        if self._client_full:
            connection.pause(True)
        self._send(self._body.pull(), head)

    def _send(self, data: bytes, head: bytes | None = None) -> None:
        """Writes to the upstream, the head first where it is a new one."""
        connection = self._connection
        assert connection is not None
        if head is not None:
            connection.begin(self, head + data, to_head=self.head_in.method == b"HEAD")
        elif data:
            connection.write(data)
        self._t_progress_ns = monotonic_ns()
        if self._body.ended and (head is not None or data or self.meter.t_sent_ns is None):
            first = self.meter.t_sent_ns is None
            self.meter.t_sent_ns = self._t_progress_ns
            if first:
                body = self._body.kept() if self._wanted else None
                self._number = self._core.asked(self.head_in, body)

    def _refuse(self, kind: ErrorKind, message: str, status: int) -> None:
        """The proxy's own answer where the upstream has none."""
        close = not self._body.ended or not self.head_in.keep_alive
        to_head = self.head_in.method == b"HEAD"
        self._out.clear()
        self._finish(kind, message)
        self._client.write(
            own_answer(status, error_body(status, message), close=close, body_sent=not to_head)
        )
        self._client.answered(close=close)

    def _finish(self, error: ErrorKind | None, why: str, t_ns: int | None = None) -> None:
        """Ends it once: lets the upstream go, and tells."""
        if self._over:
            return
        self._over = True
        if self._connecting is not None:
            self._connecting.cancel()
        connection, self._connection = self._connection, None
        if connection is not None:
            if error is None and self._body.ended:
                connection.release()
            else:
                connection.abort()
        done = Done(
            head=self.head_in,
            body=self._body.kept() if self._body.ended and self._wanted else None,
            meter=self.meter,
            error=error,
            why=why,
            t_ns=monotonic_ns() if t_ns is None else t_ns,
            session=self._choice.session if self._choice else None,
            sampling=self._choice.sampling if self._choice else None,
            number=self._number,
        )
        self._body.let_go()
        self._core.over(self, done)
