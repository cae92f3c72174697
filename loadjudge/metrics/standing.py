"""Where a run stands: progress, speedups, gates, verdict, and the client that measures it."""

import time

from prometheus_client import CollectorRegistry, Gauge

from loadjudge.metrics import labels
from loadjudge.metrics.plain import PlainGauge
from loadjudge.metrics.values import (
    RUN_STATES,
    RUN_VERDICTS,
    SLO_VERDICTS,
    VERDICTS,
    Client,
    GateState,
    Run,
    RunProgress,
    SloState,
    Speedup,
    Verdict,
)


class _Interval:
    """A ratio by workload, with the ends of its interval."""

    def __init__(self, registry: CollectorRegistry, name: str, text: str) -> None:
        self._gauges = [
            Gauge(f"loadjudge_{name}{end}_ratio", words, ("workload",), registry=registry)
            for end, words in (
                ("", text),
                ("_lower", f"The lower end of the 95 % interval of loadjudge_{name}_ratio."),
                ("_upper", f"The upper end of the 95 % interval of loadjudge_{name}_ratio."),
            )
        ]

        self._workload = labels.Names(labels.WORKLOADS)

    def set(self, value: Speedup) -> None:
        workload = self._workload(value.workload)
        for gauge, number in zip(self._gauges, (value.ratio, value.low, value.high), strict=True):
            if number is not None:
                gauge.labels(workload).set(number)


class Standing:
    """Instruments of a run as a whole."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str, by: tuple[str, ...]) -> Gauge:
            return Gauge(f"loadjudge_{name}", text, by, registry=registry)

        def plain(name: str, text: str) -> PlainGauge:
            return PlainGauge(registry, f"loadjudge_{name}", text)

        self._run = gauge("run_info", "What is measured.", ("run", "kind"))
        self._engine = gauge("engine_info", "The engine of an arm.", ("arm", "engine"))
        self._state = gauge("run_state", "1 for what the run does now.", ("state",))
        self._verdict = gauge("run_verdict", "1 for the verdict as it stands.", ("verdict",))
        self._done = plain("passes_done", "Passes that are over.")
        self._planned = plain("passes_planned", "And that are planned.")
        self._moved = plain("progress_timestamp_seconds", "When something was last played.")
        self._speedup = _Interval(registry, "speedup", "Tokens a lane second over stock's.")
        self._control = _Interval(registry, "control", "The same of stock over stock, the A/A.")
        self._figure = gauge("gate_figure", "A gate's figure.", ("gate",))
        self._low = gauge("gate_figure_lower", "The lower end of its interval.", ("gate",))
        self._high = gauge("gate_figure_upper", "The upper end of its interval.", ("gate",))
        self._bound_low = gauge("gate_limit_lower", "It passes from here.", ("gate",))
        self._bound_high = gauge("gate_limit_upper", "It passes up to here.", ("gate",))
        self._gate = gauge("gate_verdict", "1 for a gate's verdict.", ("gate", "verdict"))
        at = ("arm", "workload", "slo")
        self._slo_figure = gauge("slo_seconds", "An objective's statistic at a point.", at)
        self._slo_limit = gauge("slo_limit_seconds", "It keeps the objective up to here.", ("slo",))
        self._slo = gauge("slo_verdict", "1 for an objective's verdict.", (*at, "verdict"))
        self._point, self._slo_name = labels.Names(labels.WORKLOADS), labels.Names(labels.SLOS)
        self._lag = plain("event_loop_lag_seconds", "Mean lateness of the client, last second.")
        self._lag_share = plain(
            "event_loop_lag_ratio", "Its own lag over the median time between reads, last pass."
        )
        self._cpu = plain("client_cpu_ratio", "The client's share of one core.")

    def run(self, value: Run) -> None:
        self._run.labels(value.name, value.kind).set(1)
        for arm, engine in value.engines:
            self._engine.labels(labels.arm(arm), engine).set(1)

    def progress(self, value: RunProgress) -> None:
        for state in RUN_STATES:
            self._state.labels(state).set(state == value.state)
        self._done.set(value.done)
        self._planned.set(value.planned)
        if value.moved:
            self._moved.set(time.time())

    def speedup(self, value: Speedup) -> None:
        (self._control if value.control else self._speedup).set(value)

    def gate(self, value: GateState) -> None:
        name = labels.gate(value.gate)
        for verdict in VERDICTS:
            self._gate.labels(name, verdict).set(verdict == value.verdict)
        for gauge, number in (
            (self._figure, value.figure),
            (self._low, value.low),
            (self._high, value.high),
            (self._bound_low, value.bound_low),
            (self._bound_high, value.bound_high),
        ):
            if number is not None:
                gauge.labels(name).set(number)

    def slo(self, value: SloState) -> None:
        name = self._slo_name(value.slo)
        at = labels.arm(value.arm), self._point(value.workload), name
        self._slo_limit.labels(name).set(value.limit_s)
        if value.figure_s is not None:
            self._slo_figure.labels(*at).set(value.figure_s)
        for verdict in SLO_VERDICTS:
            self._slo.labels(*at, verdict).set(verdict == value.verdict)

    def verdict(self, value: Verdict) -> None:
        for verdict in RUN_VERDICTS:
            self._verdict.labels(verdict).set(verdict == value.verdict)

    def client(self, value: Client) -> None:
        self._lag.set(value.lag_s)
        self._lag_share.set(value.lag_share)
        self._cpu.set(value.cpu)
