"""What the proxy passes on, mirrors and records, and how its arms compare."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from loadjudge.metrics import buckets, labels
from loadjudge.metrics.plain import PlainGauge, PlainTotal
from loadjudge.metrics.values import LiveRatio, ProxyRequest, ProxyState


class Forwarding:
    """Instruments of the proxy."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str) -> PlainGauge:
            return PlainGauge(registry, f"loadjudge_proxy_{name}", text)

        def total(name: str, text: str) -> PlainTotal:
            return PlainTotal(registry, f"loadjudge_proxy_{name}", text)

        self._requests = Counter(
            "loadjudge_proxy_requests",
            "Requests that were passed on.",
            ("arm", "path", "status", "streamed"),
            registry=registry,
        )
        self._seconds = Histogram(
            "loadjudge_proxy_request_seconds",
            "To the last token, or the end of the body.",
            ("arm", "path"),
            buckets=buckets.WHOLE,
            registry=registry,
        )
        self._connections = gauge("connections", "Open connections of users.")
        self._in_flight = Gauge(
            "loadjudge_proxy_requests_in_flight", "Requests in flight.", ("arm",), registry=registry
        )
        self._queued = gauge("mirror_queued_requests", "Requests that wait for the mirror.")
        self._failing = gauge("record_failing", "1 while the record can't be written.")
        self._totals = {
            "bytes_down": total("response_bytes", "Bytes of answers."),
            "defects": total("defects", "Failures of the measuring; what passed was whole."),
            "unread": total("unread_answers", "Answers that passed and could not be read."),
            "mirrored": total("mirrored_requests", "Requests that went to the mirror as well."),
            "mirror_dropped": total("mirror_dropped_requests", "And that it was too slow for."),
            "recorded_sessions": total("recorded_sessions", "Sessions in the record."),
            "recorded_turns": total("recorded_turns", "Turns in the record."),
            "recorded_bytes": total("recorded_bytes", "Bytes of the record."),
            "record_dropped": total("record_dropped", "What could not be recorded."),
        }
        self._ratios = [
            Gauge(f"loadjudge_ab{end}_ratio", text, ("figure", "of"), registry=registry)
            for end, text in (
                ("", "Candidate over stock in live traffic."),
                ("_lower", "The lower end of the 95 % interval of loadjudge_ab_ratio."),
                ("_upper", "The upper end of the 95 % interval of loadjudge_ab_ratio."),
            )
        ]

    def request(self, value: ProxyRequest) -> None:
        arm, path = labels.arm(value.arm), labels.path(value.path)
        streamed = str(value.streamed).lower()
        self._requests.labels(arm, path, labels.status(value.status), streamed).inc()
        if value.seconds is not None:
            self._seconds.labels(arm, path).observe(value.seconds)

    def state(self, value: ProxyState) -> None:
        self._connections.set(value.connections)
        for arm, requests in value.in_flight:
            self._in_flight.labels(labels.arm(arm)).set(requests)
        self._queued.set(value.mirror_queued)
        self._failing.set(value.record_failing)
        for name, total in self._totals.items():
            total.rise_to(getattr(value, name))

    def ratio(self, value: LiveRatio) -> None:
        by = labels.figure(value.figure), "median" if value.of == "median" else "mean"
        for gauge, number in zip(self._ratios, (value.ratio, value.low, value.high), strict=True):
            if number is not None:
                gauge.labels(*by).set(number)
