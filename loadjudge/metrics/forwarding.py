"""What the proxy passes on, splits, mirrors and records."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from loadjudge.metrics import buckets, labels
from loadjudge.metrics.values import ProxyRequest, ProxyState


class Forwarding:
    """Instruments of the proxy."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, by: tuple[str, ...] = ()) -> Counter:
            return Counter(f"loadjudge_proxy_{name}", text, by, registry=registry)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"loadjudge_proxy_{name}", text, registry=registry)

        def histogram(name: str, text: str, bounds: tuple[float, ...]) -> Histogram:
            name = f"loadjudge_proxy_{name}_seconds"
            return Histogram(name, text, ("arm",), buckets=bounds, registry=registry)

        self._requests = counter(
            "requests", "Requests that were passed on.", ("arm", "path", "status", "streamed")
        )
        self._seconds = histogram("request", "From request to last byte.", buckets.WHOLE)
        self._added = histogram("added", "What the proxy added to the first byte.", buckets.ADDED)
        self._sent = counter("request_bytes", "Bytes of requests.", ("arm",))
        self._received = counter("response_bytes", "Bytes of answers.", ("arm",))
        self._left = counter("disconnects", "Users who left before the end.", ("arm",))
        self._active = gauge("requests_active", "Requests in flight.")
        self._sessions = counter("sessions", "Sessions by where they went.", ("arm",))
        self._mirrored = counter("mirrored_requests", "Requests that went to the mirror as well.")
        self._dropped = counter("mirror_dropped_requests", "And that it could not keep up with.")
        self._recorded = counter("recorded_sessions", "Sessions written to the record.")
        self._bytes = counter("recorded_bytes", "Bytes written to the record.")
        self._failing = gauge("record_failing", "1 while the record can't be written.")
        self._seen: dict[object, int] = {}

    def request(self, value: ProxyRequest) -> None:
        arm = labels.arm(value.arm)
        path, status = labels.path(value.path), labels.status(value.status)
        self._requests.labels(arm, path, status, str(value.streamed).lower()).inc()
        self._seconds.labels(arm).observe(value.seconds)
        if value.added_s is not None:
            self._added.labels(arm).observe(value.added_s)
        self._sent.labels(arm).inc(value.request_bytes)
        self._received.labels(arm).inc(value.response_bytes)
        self._left.labels(arm).inc(value.disconnected)

    def state(self, value: ProxyState) -> None:
        self._active.set(value.active)
        for arm, sessions in value.split_sessions:
            self._up_to(self._sessions.labels(labels.arm(arm)), sessions)
        for counter, total in (
            (self._mirrored, value.mirrored),
            (self._dropped, value.mirror_dropped),
            (self._recorded, value.recorded_sessions),
            (self._bytes, value.recorded_bytes),
        ):
            if total is not None:
                self._up_to(counter, total)
        if value.record_failing is not None:
            self._failing.set(value.record_failing)

    def _up_to(self, counter: Counter, total: int) -> None:
        counter.inc(max(0, total - self._seen.get(counter, 0)))
        self._seen[counter] = max(total, self._seen.get(counter, 0))
