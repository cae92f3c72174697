"""The mirroring helper: ``python -m loadjudge.proxy.mirroring``. Plays requests on a candidate.

A process of its own, so that reading the candidate's replies takes no time of the users' loop. It
holds a bounded queue and a bounded number in flight; what is more is dropped, and counted.
"""

import asyncio
import os
from collections import Counter, deque
from dataclasses import asdict
from time import monotonic_ns
from typing import Any, cast

from loadjudge.client.loop import run
from loadjudge.proxy.frames import FrameDecoder, encoded
from loadjudge.proxy.heads import AnswerHead, Field, RequestHead, keyless, request_head
from loadjudge.proxy.helper import parents_end
from loadjudge.proxy.meter import Meter
from loadjudge.proxy.splitting import asked_of
from loadjudge.proxy.upstream import ConnectError, ErrorKind, Upstream, UpstreamConnection

KEY = "LOADJUDGE_CANDIDATE_KEY"
_TELL_S = 0.25


class Play:
    """One request on the candidate. Implements ``Sink``."""

    def __init__(self, mirror: "Mirror", number: int, head: RequestHead, body: bytes) -> None:
        self.number = number
        self.request = head
        self.request_body = body
        self.meter = Meter("candidate", head.path, mirrored=True)
        self.meter.request_bytes = len(body)
        self.t_progress_ns = monotonic_ns()
        self._mirror = mirror
        self._connection: UpstreamConnection | None = None
        self._over = False

    def begin(self, connection: UpstreamConnection, data: bytes) -> None:
        """Sends it."""
        self._connection = connection
        self.meter.t_sent_ns = self.t_progress_ns = monotonic_ns()
        connection.begin(self, data, to_head=self.request.method == b"HEAD")

    def give_up(self, kind: ErrorKind, message: str) -> None:
        """Ends it where the candidate does not."""
        if self._connection is not None:
            self._connection.abort()
        self._end(kind, message, monotonic_ns())

    def interim(self, head: AnswerHead) -> None: ...

    def head(self, head: AnswerHead, t_ns: int) -> None:
        self.t_progress_ns = t_ns
        self.meter.head(head)

    def body(self, data: bytes, t_ns: int) -> None:
        self.t_progress_ns = t_ns
        self.meter.feed(data, t_ns)

    def end(self, trailers: tuple[Field, ...], t_ns: int) -> None:
        if self._connection is not None:
            self._connection.release()
        self._end(None, "", t_ns)

    def flush(self) -> None: ...

    def failed(self, kind: ErrorKind, message: str, *, unanswered: bool) -> None:
        if unanswered:  # the candidate had closed a kept connection
            self._mirror.play(self, anew=True)
        else:
            self._end(kind, message, monotonic_ns())

    def writable(self, yes: bool) -> None: ...

    def _end(self, kind: ErrorKind | None, message: str, t_ns: int) -> None:
        if not self._over:
            self._over = True
            self._mirror.over(self, kind, message, t_ns)


class Mirror(asyncio.Protocol):
    """Requests in, measured exchanges out."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self._frames = FrameDecoder()
        self._transport: asyncio.Transport | None = None
        self._upstream: Upstream | None = None
        self._queue: deque[Play] = deque()
        self._playing: set[Play] = set()
        self._most = self._most_queued = 0
        self._answer_s = 600.0
        self._share_key = False
        self._key = os.environ.get(KEY)
        self._sent = 0
        self._drops: Counter[str] = Counter()
        self._told: dict[str, Any] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._tell()

    def data_received(self, data: bytes) -> None:
        for head, body in self._frames.feed(data):
            if self._upstream is None:
                self._set_up(head)
            elif head.get("end"):
                self.gone.set()
            else:
                self._take(head, body)

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone.set()

    def play(self, play: Play, *, anew: bool = False) -> None:
        """Sends a request on a kept connection or a new one."""
        assert self._upstream is not None
        kept = None if anew else self._upstream.kept()
        if kept is not None:
            play.begin(kept, self._encoded(play))
            return
        task = asyncio.ensure_future(self._connect(play))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def over(self, play: Play, kind: ErrorKind | None, message: str, t_ns: int) -> None:
        """A request has ended; the next one's turn."""
        self._playing.discard(play)
        asked = asked_of(play.request_body)
        measured = play.meter.finish(kind, message, t_ns, asked.session if asked else None)
        if self._transport is not None:
            told = {"done": asdict(measured.exchange), "number": play.number, "why": measured.why}
            self._transport.write(encoded(told))
        if self._queue:
            self._start(self._queue.popleft())

    def _set_up(self, first: dict[str, Any]) -> None:
        self._most, self._most_queued = first["in_flight"], first["queue"]
        self._answer_s, self._share_key = first["answer_s"], first["share_key"]
        self._upstream = Upstream(first["url"], insecure=first["insecure"])

    def _take(self, head: dict[str, Any], body: bytes) -> None:
        fields = tuple((k.encode("latin-1"), v.encode("latin-1")) for k, v in head["fields"])
        request = RequestHead(
            head["method"].encode(), head["target"].encode("latin-1"), "1.1", fields, True
        )
        play = Play(self, head["number"], request, body)
        if len(self._playing) < self._most:
            self._start(play)
        elif len(self._queue) < self._most_queued:
            self._queue.append(play)
        else:
            self._drops["the queue is full"] += 1

    def _start(self, play: Play) -> None:
        self._playing.add(play)
        self._sent += 1
        self.play(play)

    async def _connect(self, play: Play) -> None:
        assert self._upstream is not None
        try:
            connection = await self._upstream.connect()
        except ConnectError as error:
            play.give_up(error.kind, error.message)
            return
        play.begin(connection, self._encoded(play))

    def _encoded(self, play: Play) -> bytes:
        assert self._upstream is not None
        where, fields = self._upstream.endpoint, play.request.fields
        without = {b"expect"} if self._share_key else {b"expect", *keyless(fields)}
        extra = []
        if self._key and not self._share_key:
            extra.append((b"Authorization", f"Bearer {self._key}".encode()))
        head = request_head(
            play.request,
            prefix=where.prefix,
            authority=where.authority,
            without=without,
            extra=extra,
            length=len(play.request_body),
        )
        return head + play.request_body

    def _tell(self) -> None:
        """Says how it stands, and gives up what has hung for too long."""
        now_ns = monotonic_ns()
        for play in tuple(self._playing):
            if (now_ns - play.t_progress_ns) / 1e9 > self._answer_s:
                play.give_up("timeout", f"nothing came in {self._answer_s:g} s")
        state = {
            "queued": len(self._queue),
            "in_flight": len(self._playing),
            "sent": self._sent,
            "drops": dict(self._drops),
        }
        if state != self._told and self._transport is not None:
            self._told = state
            self._transport.write(encoded({"state": state}))
        asyncio.get_running_loop().call_later(_TELL_S, self._tell)


async def main() -> None:
    """Lives as long as the proxy's end of the pair; what is in flight then is given up."""
    mirror = Mirror()
    peer = parents_end()
    peer.setblocking(False)
    await asyncio.get_running_loop().create_connection(lambda: mirror, sock=peer)
    await mirror.gone.wait()


if __name__ == "__main__":
    run(main())
