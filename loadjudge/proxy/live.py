"""What the proxy knows of itself while it runs: counts, latencies of late, what went wrong."""

import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from loadjudge.proxy.exchange import Exchange
from loadjudge.record.values import ARMS, Arm

_LATE = 1024  # exchanges that quantiles are taken of
_SECONDS = 60  # of the rates
_INCIDENTS = 30  # kinds that are kept
_TIMES = ("ttft_s", "ttfot_s", "tpot_s", "e2el_s", "added_s")


@dataclass(frozen=True, slots=True)
class Mirror:
    """State of ``--mirror``. Drops are counted by reason."""

    queued: int
    in_flight: int
    sent: int
    drops: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Recording:
    """State of ``--record``."""

    file: str
    sessions_open: int
    sessions_written: int
    turns: int
    joined: int  # turns that went on with an open session
    bytes_written: int
    redacted: int  # places that --redact took out
    drops: Mapping[str, int]
    trouble: str | None  # why nothing is being written now


@dataclass(frozen=True, slots=True)
class Scoring:
    """State of ``--score``."""

    replies: Mapping[Arm, int]
    waiting: int
    drops: Mapping[str, int]
    verdict: str | None  # the likelihood gate in words


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The proxy's state at one moment, for the page and the exporter."""

    uptime_s: float
    connections: int
    in_flight: Mapping[Arm, int]
    requests: int
    bytes_down: int
    defects: int  # of the measuring itself; nothing that passed was touched
    unread: Mapping[str, int]  # answers that passed unread, by reason
    split_sessions: Mapping[Arm, int] | None  # sessions that went to each arm, None without --split
    mirror: Mirror | None
    recording: Recording | None
    scoring: Scoring | None


@dataclass(slots=True)
class _Of:
    """One arm's figures, mirrored ones apart."""

    requests: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    paths: Counter[str] = field(default_factory=Counter)
    models: Counter[str] = field(default_factory=Counter)
    prompt_tokens: int = 0
    output_tokens: int = 0
    late: dict[str, deque[float]] = field(
        default_factory=lambda: {name: deque(maxlen=_LATE) for name in _TIMES}
    )
    seconds: deque[tuple[int, int, int]] = field(  # (second, requests, tokens)
        default_factory=lambda: deque(maxlen=_SECONDS)
    )


@dataclass(slots=True)
class Incident:
    """Something that went wrong, and how often."""

    what: str
    count: int
    last: float  # time.time
    said: float = 0.0


class Incidents:
    """What went wrong, by kind; each kind is said at most once in ``every_s`` seconds."""

    def __init__(self, say: Callable[[str], None] | None = None, every_s: float = 5.0) -> None:
        self._say = say or _to_stderr
        self._every_s = every_s
        self._by_kind: dict[str, Incident] = {}

    def tell(self, kind: str, what: str) -> None:
        """``what`` is one sentence; it holds nothing of what users wrote."""
        now = time.time()
        one = self._by_kind.setdefault(kind, Incident(what, 0, now))
        one.what, one.last = what, now
        one.count += 1
        if now - one.said >= self._every_s:
            one.said = now
            again = f" ({one.count} times so far)" if one.count > 1 else ""
            self._say(f"{kind}: {what}{again}")
        if len(self._by_kind) > _INCIDENTS:
            oldest = min(self._by_kind, key=lambda k: self._by_kind[k].last)
            del self._by_kind[oldest]

    def listed(self) -> list[dict[str, Any]]:
        """The last first."""
        items = sorted(self._by_kind.items(), key=lambda item: -item[1].last)
        return [
            {"kind": kind, "what": one.what, "count": one.count, "at": one.last}
            for kind, one in items
        ]


class Figures:
    """Counts what exchanges come to. An observer like any other."""

    def __init__(self) -> None:
        self._of = {(arm, mirrored): _Of() for arm in ARMS for mirrored in (False, True)}

    def __call__(self, exchange: Exchange) -> None:
        of = self._of[exchange.arm, exchange.mirrored]
        of.requests += 1
        of.paths[exchange.path] += 1
        of.statuses["none" if exchange.status is None else f"{exchange.status // 100}xx"] += 1
        if exchange.error is not None:
            of.errors[exchange.error] += 1
        if exchange.model is not None and (exchange.model in of.models or len(of.models) < 20):
            of.models[exchange.model] += 1
        of.prompt_tokens += exchange.prompt_tokens or 0
        of.output_tokens += exchange.output_tokens or 0
        second = int(time.monotonic())
        if of.seconds and of.seconds[-1][0] == second:
            _, requests, tokens = of.seconds.pop()
        else:
            requests = tokens = 0
        of.seconds.append((second, requests + 1, tokens + (exchange.output_tokens or 0)))
        if exchange.error is None:
            for name in _TIMES:
                value = getattr(exchange, name)
                if value is not None:
                    of.late[name].append(value)

    def described(self) -> list[dict[str, Any]]:
        """For the page: one row an arm that has had a request."""
        return [
            {"arm": arm, "mirrored": mirrored, **_described(of)}
            for (arm, mirrored), of in self._of.items()
            if of.requests
        ]


def _described(of: _Of) -> dict[str, Any]:
    now = int(time.monotonic())
    # The second in work is left out: it is not over.
    recent = [s for s in of.seconds if now - 10 <= s[0] < now]
    return {
        "requests": of.requests,
        "errors": dict(of.errors),
        "statuses": dict(of.statuses),
        "paths": dict(of.paths),
        "models": dict(of.models),
        "prompt_tokens": of.prompt_tokens,
        "output_tokens": of.output_tokens,
        "requests_per_s": sum(s[1] for s in recent) / 10,
        "output_tokens_per_s": sum(s[2] for s in recent) / 10,
        "by_second": [
            [now - second, requests, tokens] for second, requests, tokens in of.seconds
            if now - second <= _SECONDS
        ],
        "latencies": {name: _quantiles(of.late[name]) for name in _TIMES if of.late[name]},
    }  # fmt: skip


def _quantiles(values: deque[float]) -> dict[str, float]:
    p50, p90, p99 = np.quantile(np.asarray(values), (0.5, 0.9, 0.99))
    return {"n": len(values), "p50": float(p50), "p90": float(p90), "p99": float(p99)}


def _to_stderr(text: str) -> None:
    print(f"loadjudge proxy: {text}", file=sys.stderr, flush=True)
