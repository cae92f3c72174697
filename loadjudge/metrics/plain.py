"""Instruments without labels. They come into being with their first value: Prometheus' own start
at 0, and a 0 that nobody has measured would be a claim."""

from prometheus_client import CollectorRegistry, Counter, Gauge


class PlainGauge:
    def __init__(self, registry: CollectorRegistry, name: str, text: str) -> None:
        self._made_of = name, text, registry
        self._gauge: Gauge | None = None

    def set(self, value: float | None) -> None:
        """``None``: not known, which changes nothing."""
        if value is None:
            return
        if self._gauge is None:
            name, text, registry = self._made_of
            self._gauge = Gauge(name, text, registry=registry)
        self._gauge.set(value)


class PlainTotal:
    """A counter that is told totals."""

    def __init__(self, registry: CollectorRegistry, name: str, text: str) -> None:
        self._made_of = name, text, registry
        self._counter: Counter | None = None
        self._total = 0

    def rise_to(self, total: int | None) -> None:
        """``None``: not known, which changes nothing; neither does a total that fell."""
        if total is None:
            return
        if self._counter is None:
            name, text, registry = self._made_of
            self._counter = Counter(name, text, registry=registry)
        self._counter.inc(max(0, total - self._total))
        self._total = max(total, self._total)
