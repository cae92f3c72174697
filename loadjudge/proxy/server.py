"""The proxy's life: it listens, relays, tells, and ends."""

import asyncio
import gc
import os
import signal
import socket
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import asdict
from time import monotonic_ns
from typing import Any

import orjson

from loadjudge.errors import JudgeError
from loadjudge.proxy.admin import page
from loadjudge.proxy.downstream import ClientConnection, Own
from loadjudge.proxy.exchange import Exchange, Observer
from loadjudge.proxy.extras import Extras
from loadjudge.proxy.heads import Field, RequestHead, error_body, is_passed, keyless
from loadjudge.proxy.live import Figures, Incidents, Snapshot
from loadjudge.proxy.meter import Beside
from loadjudge.proxy.options import Options
from loadjudge.proxy.relay import Choice, Done, Relay
from loadjudge.proxy.upstream import Upstream
from loadjudge.record.values import ARMS, Arm

ADMIN = "/loadjudge"
KEY = "LOADJUDGE_CANDIDATE_KEY"
_WATCH_S = 0.25
_DRAIN_S = 10.0  # answers in flight have as long to end at shutdown
_BACKLOG = 2048
_QUIET = frozenset({"http", "client_gone"})  # counted, not told: the upstream's and client's own


class Proxy:
    """Implements ``Front``: what client connections and relays share."""

    def __init__(
        self,
        options: Options,
        observers: Sequence[Observer] = (),
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.options = options
        self.limits = options.limits
        self.incidents = Incidents(say)
        self.beside = Beside(self.defect)
        self.figures = Figures()
        self._observers: list[Observer] = [self.figures, *observers]
        self._upstreams: dict[Arm, Upstream] = {
            "stock": Upstream(options.upstream, insecure=options.insecure)
        }
        if options.split is not None:
            self._upstreams["candidate"] = Upstream(options.split.url, insecure=options.insecure)
        self._extras = Extras(options, self.incidents, self._observe)
        self._connections: set[ClientConnection] = set()
        self._relays: set[Relay] = set()
        self._requests = 0
        self._bytes_down = 0
        self.defects = 0
        self._unread: dict[str, int] = {}
        self._started = time.monotonic()
        self.stopping = False
        self.held_bytes = 0
        self._server: asyncio.Server | None = None
        self._watching: asyncio.TimerHandle | None = None
        self._empty = asyncio.Event()
        self._candidate_key = os.environ.get(KEY)

    async def start(self) -> str:
        """Listens; the address in words. Raises JudgeError where it can't."""
        await self._extras.start()
        loop = asyncio.get_running_loop()
        where = self.options
        try:
            if where.uds is not None:
                self._server = await loop.create_unix_server(
                    lambda: ClientConnection(self), str(where.uds), backlog=_BACKLOG
                )
                address = f"unix:{where.uds}"
            else:
                self._server = await loop.create_server(
                    lambda: ClientConnection(self), where.host, where.port, backlog=_BACKLOG
                )
                address = _address(self._server.sockets)
        except OSError as error:
            await self._extras.stop()
            place = where.uds or f"{where.host}:{where.port}"
            raise JudgeError(
                f"can't listen on {place}: {(error.strerror or str(error)).lower()}"
            ) from None
        self._watch()
        return address

    async def stop(self) -> None:
        """Takes no more, lets answers in flight end, then ends them, and has all written."""
        self.stopping = True
        if self._server is not None:
            self._server.close()
        for connection in tuple(self._connections):
            if not connection.busy:
                connection.close()
        if any(c.busy for c in self._connections):
            self._empty.clear()
            try:
                await asyncio.wait_for(self._empty.wait(), _DRAIN_S)
            except TimeoutError:
                self.incidents.tell("shutdown", f"answers were cut after {_DRAIN_S:g} s")
        for connection in tuple(self._connections):
            connection.abort()
        if self._watching is not None:
            self._watching.cancel()
        await asyncio.sleep(0)  # the transports close, and their relays end
        self.beside.work()
        for upstream in self._upstreams.values():
            upstream.close()
        await self._extras.stop()

    def snapshot(self) -> Snapshot:
        """The state now, for the page and the exporter."""
        self.beside.work()  # all that has passed counts
        return Snapshot(
            uptime_s=time.monotonic() - self._started,
            connections=len(self._connections),
            in_flight={arm: sum(r.meter.arm == arm for r in self._relays) for arm in ARMS},
            requests=self._requests,
            bytes_down=self._bytes_down,
            defects=self.defects,
            unread=dict(self._unread),
            split_sessions=self._extras.split_sessions(),
            mirror=self._extras.mirror_state(),
            recording=self._extras.recording_state(),
            scoring=self._extras.scoring_state(),
        )

    def live_ab(self) -> list[dict[str, Any]]:
        """The arms' ratios from live traffic, as on the page."""
        return self._extras.live_ab()

    def told_of(self, task: "asyncio.Task[None]") -> None:
        """Says why what ran beside it has ended, if that was no one's wish."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self.incidents.tell("beside", f"{type(error).__name__}: {error}")

    # --- what client connections ask

    def route(self, head: RequestHead) -> Own | None:
        path = head.path
        if path in (ADMIN, f"{ADMIN}/", f"{ADMIN}.json"):
            if head.method not in (b"GET", b"HEAD"):
                return 405, error_body(405, f"{path} takes GET"), "application/json"
            if path.endswith(".json"):
                return 200, orjson.dumps(self.described()), "application/json"
            return 200, page(), "text/html; charset=utf-8"
        if is_passed(head.target, self.options.paths):
            return None
        shown = ", ".join(self.options.paths)
        why = f"only paths under {shown} pass through this proxy (see --path), not {path[:200]}"
        return 404, error_body(404, why), "application/json"

    def opened(self, connection: ClientConnection) -> None:
        self._connections.add(connection)

    def closed(self, connection: ClientConnection) -> None:
        self._connections.discard(connection)
        if not any(c.busy for c in self._connections):
            self._empty.set()

    # --- what relays ask

    def upstream(self, arm: Arm) -> Upstream:
        return self._upstreams[arm]

    def wants_body(self, head: RequestHead) -> bool:
        return self._extras.wants_body(head)

    def waits_for_body(self, head: RequestHead) -> bool:
        return self._extras.waits_for_body(head)

    def choose(self, head: RequestHead, body: bytes | None) -> Choice:
        return self._extras.choose(head, body)

    def candidate_key(self, arm: Arm, fields: tuple[Field, ...]) -> tuple[set[bytes], list[Field]]:
        """Users' keys go to the upstream alone, unless they may be shared."""
        if arm == "stock" or self.options.share_key:
            return set(), []
        key = self._candidate_key
        return keyless(fields), [(b"Authorization", f"Bearer {key}".encode())] if key else []

    def began(self, relay: Relay) -> None:
        self._requests += 1
        self._relays.add(relay)

    def asked(self, head: RequestHead, body: bytes | None) -> int | None:
        return self._extras.asked(head, body)

    def over(self, relay: Relay, done: Done) -> None:
        self._relays.discard(relay)
        self.beside.later(lambda: self._account(done))

    # ---

    def _account(self, done: Done) -> None:
        measured = done.meter.finish(done.error, done.why, done.t_ns, done.session)
        exchange = measured.exchange
        self._bytes_down += done.meter.bytes_read
        if done.meter.unread is not None:
            self._unread[done.meter.unread] = self._unread.get(done.meter.unread, 0) + 1
        if exchange.error is not None and exchange.error not in _QUIET:
            self.incidents.tell(exchange.error, f"{done.head.path[:80]}: {measured.why[:300]}")
        self._observe(exchange)
        self._extras.over(done, measured)

    def _observe(self, exchange: Exchange) -> None:
        for observer in self._observers:
            observer(exchange)

    def defect(self, error: BaseException) -> None:
        self.defects += 1
        self.incidents.tell("defect", f"the proxy's own ({type(error).__name__}: {error})")

    def _watch(self) -> None:
        """One coarse timer for all connections."""
        now_ns = monotonic_ns()
        for connection in tuple(self._connections):
            connection.check(now_ns, self.options.keep_alive_s)
        self._watching = asyncio.get_running_loop().call_later(_WATCH_S, self._watch)

    def described(self) -> dict[str, Any]:
        """What the admin page shows, as JSON."""
        return {
            **asdict(self.snapshot()),
            "upstream": self._upstreams["stock"].endpoint.url,
            "candidate": self._extras.candidate,
            "arms": self.figures.described(),
            "live_ab": self._extras.live_ab(),
            "incidents": self.incidents.listed(),
        }


async def serve(
    options: Options,
    *,
    observers: Sequence[Observer] = (),
    ready: Callable[[str, Proxy], None],
    beside: Callable[[Proxy], Coroutine[Any, Any, None]] | None = None,
) -> None:
    """Runs a proxy until SIGINT or SIGTERM; a second one ends it at once.

    ``observers`` are told of each exchange, on the loop, and must return at once. ``beside`` is run
    with the proxy, and cancelled at its end.
    """
    gc.freeze()  # what is there now stays; full collections go on, a proxy lives long
    gc.set_threshold(20_000, 20, 20)
    proxy = Proxy(options, observers)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stopped() -> None:
        stop.set()
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(name)  # the next one has its usual effect

    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stopped)
    address = await proxy.start()
    ready(address, proxy)
    task = asyncio.create_task(beside(proxy)) if beside is not None else None
    if task is not None:
        task.add_done_callback(proxy.told_of)
    try:
        await stop.wait()
    finally:
        if task is not None:
            task.cancel()
        await proxy.stop()


def _address(sockets: Sequence[socket.socket]) -> str:
    host, port = sockets[0].getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
