"""Replies, lanes, speculation and engines, by arm and workload."""

import contextlib

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from loadjudge.metrics import buckets, labels
from loadjudge.metrics.values import EngineLoad, Lanes, Memory, Rates, Reply, Speculation

_BY = ("arm", "workload")
_LATENCIES = {
    "ttft_s": ("time_to_first_token", "to the first token of any channel", buckets.TO_FIRST),
    "ttfot_s": (
        "time_to_first_output_token",
        "to the first token of the content",
        buckets.TO_FIRST,
    ),
    "tpot_s": ("time_per_output_token", "a token, after a reply's first read", buckets.BETWEEN),
    "e2el_s": ("e2e_latency", "to the last token", buckets.WHOLE),
}


class Traffic:
    """Instruments of what is played or passed on."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, by: tuple[str, ...] = _BY) -> Counter:
            return Counter(f"loadjudge_{name}", text, by, registry=registry)

        def gauge(name: str, text: str, by: tuple[str, ...] = _BY) -> Gauge:
            return Gauge(f"loadjudge_{name}", text, by, registry=registry)

        def histogram(name: str, text: str, bounds: tuple[float, ...]) -> Histogram:
            name = f"loadjudge_{name}_seconds"
            return Histogram(name, f"Seconds {text}.", _BY, buckets=bounds, registry=registry)

        self._workload = labels.Names(labels.WORKLOADS)
        self._known: set[tuple[str, str]] = set()
        self._replies = counter("replies", "Replies that ended well.")
        self._good = counter("good_replies", "Replies that kept all limits of --goodput.")
        self._errors = counter("errors", "Calls that brought no whole reply.", (*_BY, "kind"))
        self._prompt = counter("prompt_tokens", "Tokens of prompts, as the engine reports them.")
        self._cached = counter("cached_prompt_tokens", "Of them, from the engine's prefix cache.")
        self._output = counter("output_tokens", "Tokens of replies, as the engine sends them.")
        self._latencies = {
            field: histogram(name, text, bounds)
            for field, (name, text, bounds) in _LATENCIES.items()
        }
        self._itl = histogram("inter_token_latency", "between tokens", buckets.BETWEEN)
        self._in_flight = gauge("lanes_in_flight", "Requests in flight.")
        self._wanted = gauge("lanes_wanted", "Sessions that are to play at once.")
        self._rate_wanted = gauge(
            "sessions_wanted_per_second", "Sessions that are to come a second, in an open loop."
        )
        self._drafts = counter("drafts", "Verify steps that had a draft.")
        self._drafted = counter("drafted_tokens", "Draft tokens.")
        self._accepted = counter("accepted_tokens", "Draft tokens that were accepted.")
        self._accepted_at = counter(
            "accepted_tokens_by_position",
            "Draft tokens that were accepted, by their place in the draft.",
            (*_BY, "position"),
        )
        self._per_step = gauge("tokens_per_verify_step", "1 + accepted tokens over drafts, so far.")
        self._engine = gauge("engine_requests_in_flight", "As the engine says.", ("arm",))
        self._waiting = gauge("engine_requests_waiting", "As the engine says.", ("arm",))
        self._kv = gauge("engine_kv_usage_ratio", "Share of the KV cache in use.", ("arm",))
        self._memory = gauge("memory_peak_bytes", "Peak memory of an arm.", ("arm", "kind"))
        self._rate = gauge("tokens_per_second", "Of all lanes, in windows that have closed.")
        self._lane_rate = gauge("lane_tokens_per_second", "A lane, in windows that have closed.")
        self._goodput = gauge("goodput_requests_per_second", "Requests that met their SLO.")

    def reply(self, value: Reply) -> None:
        by = self._by(value.arm, value.workload)
        if value.good is not None:
            self._good.labels(*by).inc(value.good)
        if value.error is not None:
            self._errors.labels(*by, labels.error(value.error)).inc()
            return
        self._replies.labels(*by).inc()
        for counter, amount in (
            (self._prompt, value.prompt_tokens),
            (self._cached, value.cached_tokens),
            (self._output, value.output_tokens),
        ):
            if amount is not None:
                counter.labels(*by).inc(amount)
        for field, histogram in self._latencies.items():
            seconds = getattr(value, field)
            if seconds is not None:
                histogram.labels(*by).observe(seconds)
        between = self._itl.labels(*by)
        for seconds, tokens in value.itl:
            for _ in range(tokens):
                between.observe(seconds)

    def lanes(self, value: Lanes) -> None:
        by = self._by(value.arm, value.workload)
        self._in_flight.labels(*by).set(value.in_flight)
        for gauge, wanted in ((self._wanted, value.wanted), (self._rate_wanted, value.rate)):
            if wanted is not None:
                gauge.labels(*by).set(wanted)
        if value.wanted == 0 or value.rate == 0:  # nobody looks at its engine meanwhile
            for gauge in (self._engine, self._waiting, self._kv):
                with contextlib.suppress(KeyError):  # older clients raise it where none is
                    gauge.remove(by[0])

    def speculation(self, value: Speculation) -> None:
        by = self._by(value.arm, value.workload)
        for counter, gained in (
            (self._drafts, value.drafts),
            (self._drafted, value.drafted),
            (self._accepted, value.accepted),
        ):
            if gained is not None:
                counter.labels(*by).inc(gained)
        for index, gained in enumerate(value.accepted_at):
            self._accepted_at.labels(*by, labels.position(index)).inc(gained)
        if value.tokens_per_step is not None:
            self._per_step.labels(*by).set(value.tokens_per_step)

    def engine(self, value: EngineLoad) -> None:
        arm = labels.arm(value.arm)
        for gauge, now in (
            (self._engine, value.in_flight),
            (self._waiting, value.waiting),
            (self._kv, value.kv_usage),
        ):
            if now is not None:
                gauge.labels(arm).set(now)

    def memory(self, value: Memory) -> None:
        self._memory.labels(labels.arm(value.arm), value.kind).set(value.peak_bytes)

    def rates(self, value: Rates) -> None:
        by = self._by(value.arm, value.workload)
        for gauge, now in (
            (self._rate, value.tokens_per_s),
            (self._lane_rate, value.tokens_per_s_per_lane),
            (self._goodput, value.goodput_per_s),
        ):
            if now is not None:
                gauge.labels(*by).set(now)

    def _by(self, arm: str, workload: str) -> tuple[str, str]:
        """The labels. What can be counted of them starts at 0: only then is a first error a
        rise that ``rate`` sees."""
        by = labels.arm(arm), self._workload(workload)
        if by not in self._known:
            self._known.add(by)
            self._replies.labels(*by)
            for kind in (*sorted(labels.ERRORS), labels.OTHER):
                self._errors.labels(*by, kind)
        return by
