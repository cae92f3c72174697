"""The exporter: takes values, gives one page of Prometheus metrics.

Names follow Prometheus' rules: base units, ``_total`` for what only rises, ``_ratio``, ``_info``,
``_seconds``. A figure that is not known has no series.
"""

from functools import cached_property
from threading import Lock

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from loadjudge import __version__
from loadjudge.metrics.forwarding import Forwarding
from loadjudge.metrics.standing import Standing
from loadjudge.metrics.traffic import Traffic
from loadjudge.metrics.values import (
    Client,
    EngineLoad,
    GateState,
    Lanes,
    LiveRatio,
    Memory,
    ProxyRequest,
    ProxyState,
    Rates,
    Reply,
    Run,
    RunProgress,
    SloState,
    Speculation,
    Speedup,
    Value,
    Verdict,
)


class Exporter:
    """A registry of its own and what fills it. Instruments come into being with their first
    value, so that a judge's page has nothing of a proxy. Safe to use from several threads."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._lock = Lock()
        build = Gauge(
            "loadjudge_build_info", "loadjudge itself.", ("version",), registry=self.registry
        )
        build.labels(__version__).set(1)

    def take(self, value: Value) -> None:
        with self._lock:
            self._take(value)

    def _take(self, value: Value) -> None:
        match value:
            case Reply():
                self._traffic.reply(value)
            case Lanes():
                self._traffic.lanes(value)
            case Speculation():
                self._traffic.speculation(value)
            case EngineLoad():
                self._traffic.engine(value)
            case Memory():
                self._traffic.memory(value)
            case Rates():
                self._traffic.rates(value)
            case Run():
                self._standing.run(value)
            case RunProgress():
                self._standing.progress(value)
            case Speedup():
                self._standing.speedup(value)
            case GateState():
                self._standing.gate(value)
            case SloState():
                self._standing.slo(value)
            case Verdict():
                self._standing.verdict(value)
            case Client():
                self._standing.client(value)
            case LiveRatio():
                self._forwarding.ratio(value)
            case ProxyRequest():
                self._forwarding.request(value)
            case ProxyState():
                self._forwarding.state(value)

    def page(self) -> bytes:
        """The metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    @cached_property
    def _traffic(self) -> Traffic:
        return Traffic(self.registry)

    @cached_property
    def _standing(self) -> Standing:
        return Standing(self.registry)

    @cached_property
    def _forwarding(self) -> Forwarding:
        return Forwarding(self.registry)
