"""What the proxy tells its observers, as values for the exporter.

It knows the proxy's ``Exchange`` and ``Snapshot`` by their fields alone, so that neither package
needs the other.
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from loadjudge.client.lag import LagProbe
from loadjudge.metrics.values import (
    Client,
    LiveRatio,
    ProxyRequest,
    ProxyState,
    Reply,
    Run,
    Takes,
)

_EVERY_S = 1.0
WORKLOAD = "live"
_MODEL_PATHS = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages")


class Exchanged(Protocol):
    """``loadjudge.proxy.exchange.Exchange``."""

    @property
    def arm(self) -> str: ...
    @property
    def mirrored(self) -> bool: ...
    @property
    def path(self) -> str: ...
    @property
    def status(self) -> int | None: ...
    @property
    def error(self) -> str | None: ...
    @property
    def stream(self) -> bool: ...
    @property
    def prompt_tokens(self) -> int | None: ...
    @property
    def output_tokens(self) -> int | None: ...
    @property
    def ttft_s(self) -> float | None: ...
    @property
    def ttfot_s(self) -> float | None: ...
    @property
    def itl_s(self) -> tuple[float, ...]: ...
    @property
    def itl_tokens(self) -> tuple[float, ...]: ...
    @property
    def tpot_s(self) -> float | None: ...
    @property
    def e2el_s(self) -> float | None: ...


class ProxyFeed:
    """An observer of the proxy: called with each exchange, on its event loop; returns at once
    where ``to`` is an ``ExporterProcess``."""

    def __init__(self, to: Takes, engines: tuple[tuple[str, str], ...]) -> None:
        self._to = to
        to.take(Run("live", "proxy", engines))

    def __call__(self, exchange: Exchanged, /) -> None:
        arm = "mirror" if exchange.mirrored else exchange.arm
        self._to.take(
            ProxyRequest(arm, exchange.path, exchange.status, exchange.e2el_s, exchange.stream)
        )
        if exchange.path in _MODEL_PATHS:
            self._to.take(_reply(arm, exchange))

    async def keep_telling(
        self, snapshot: Callable[[], Any], ratios: Callable[[], Iterable[Mapping[str, Any]]]
    ) -> None:
        """Tells the proxy's state and its loop's lag every second, until cancelled."""
        probe = LagProbe(0.05)
        probe.start()
        try:
            while True:
                await asyncio.sleep(_EVERY_S)
                lag = probe.window()
                self._to.take(Client(lag_s=lag.mean_s if lag.n else None, cpu=lag.cpu_share))
                self.state(snapshot(), ratios())
        finally:
            probe.stop()

    def state(self, snapshot: Any, ratios: Iterable[Mapping[str, Any]] = ()) -> None:
        """Tells ``loadjudge.proxy.live.Snapshot`` and the live ratios, as on the admin page."""
        mirror, recording = snapshot.mirror, snapshot.recording
        self._to.take(
            ProxyState(
                connections=snapshot.connections,
                in_flight=tuple(snapshot.in_flight.items()),
                bytes_down=snapshot.bytes_down,
                defects=snapshot.defects,
                unread=_total(snapshot.unread),
                mirrored=mirror and mirror.sent,
                mirror_dropped=mirror and _total(mirror.drops),
                mirror_queued=mirror and mirror.queued,
                recorded_sessions=recording and recording.sessions_written,
                recorded_turns=recording and recording.turns,
                recorded_bytes=recording and recording.bytes_written,
                record_dropped=recording and _total(recording.drops),
                record_failing=recording and recording.trouble is not None,
            )
        )
        for one in ratios:
            if math.isfinite(one["ratio"]):
                names = ("figure", "of", "ratio", "low", "high")
                self._to.take(LiveRatio(*(one[name] for name in names)))


def _reply(arm: str, exchange: Exchanged) -> Reply:
    if exchange.error is not None:
        return Reply(arm, WORKLOAD, error=exchange.error)
    return Reply(
        arm,
        WORKLOAD,
        ttft_s=exchange.ttft_s,
        ttfot_s=exchange.ttfot_s,
        tpot_s=exchange.tpot_s,
        e2el_s=exchange.e2el_s,
        itl=tuple(
            (gap, max(1, round(k)))
            for gap, k in zip(exchange.itl_s, exchange.itl_tokens, strict=True)
        ),
        prompt_tokens=exchange.prompt_tokens,
        output_tokens=exchange.output_tokens,
    )


def _total(counts: Mapping[str, int]) -> int:
    return sum(counts.values())
