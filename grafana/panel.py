"""A panel, and the panels that several dashboards have. ``$of`` stands for the labels that choose
the exporter."""

from dataclasses import dataclass, field
from typing import Any

RATE = "[$__rate_interval]"


@dataclass(frozen=True)
class Panel:
    """One panel; ``queries`` holds (PromQL, legend). Grid units."""

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    height: int = 7
    text: str = ""
    rows: str = ""  # of a table: the label that its rows go by
    least: float | None = None
    most: float | None = None
    decimals: int | None = None
    options: dict[str, Any] = field(default_factory=dict)


def quantiles(metric: str, by: str = "arm") -> tuple[tuple[str, str], ...]:
    """p50 and p99 of a histogram."""
    return tuple(
        (
            f"histogram_quantile({q}, sum by (le, {by}) (rate({metric}_bucket{{$of}}{RATE})))",
            f"{{{{{by}}}}} p{round(q * 100)}",
        )
        for q in (0.5, 0.99)
    )


def rate(metric: str, by: str) -> str:
    return f"sum by ({by}) (rate({metric}{{$of}}{RATE}))"


def last(series: str) -> str:
    """The last value, also of a run that is over."""
    return f"last_over_time({series}[$__range])"


def state(title: str, metric: str, label: str, width: int = 4) -> Panel:
    """The one state that is 1, by name."""
    query = (f"{last(metric + '{$of}')} == 1", f"{{{{{label}}}}}")
    return Panel(title, (query,), kind="stat", width=width, height=4, options={"textMode": "name"})


_ERRORS = (
    "sum by (arm, kind) (loadjudge_errors_total{$of}) > 0 "
    "or sum by (arm) (loadjudge_errors_total{$of}) == 0"
)
LATENCY = (
    Panel("TTFT", quantiles("loadjudge_time_to_first_token_seconds"), "s", least=0),
    Panel("ITL", quantiles("loadjudge_inter_token_latency_seconds"), "s", least=0),
    Panel("E2EL", quantiles("loadjudge_e2e_latency_seconds"), "s", least=0),
)
TOKENS = Panel(
    "Output tokens",
    ((rate("loadjudge_output_tokens_total", "arm"), "{{arm}}"),),
    "tokens/s",
    least=0,
)
LAG = Panel(
    "Client: event-loop lag",
    (("loadjudge_event_loop_lag_seconds{$of}", "mean of the last second"),),
    "s",
    least=0,
    text="How late the client's own event loop comes to a read.",
)
CPU = Panel(
    "Client: share of a core, lag over the time between reads",
    (
        ("loadjudge_client_cpu_ratio{$of}", "share of a core"),
        ("loadjudge_event_loop_lag_ratio{$of}", "lag over time between reads, worst pass"),
    ),
    "percentunit",
    least=0,
    text="Limits: 95 % of a core, 5 % of the time between reads.",
)
STEPS = Panel(
    "Tokens per verify step",
    (("loadjudge_tokens_per_verify_step{$of}", "{{workload}} {{arm}}"),),
    decimals=2,
    text="1 + accepted draft tokens over drafts, over all passes so far: the record's own.",
)
LANES = Panel(
    "Lanes",
    (
        ("sum by (arm) (loadjudge_lanes_in_flight{$of})", "{{arm}} in flight"),
        ("sum by (arm) (loadjudge_lanes_wanted{$of})", "{{arm}} wanted"),
        ("loadjudge_engine_requests_in_flight{$of}", "{{arm}} as the engine says"),
    ),
    least=0,
)
KV = Panel(
    "KV cache in use",
    (("loadjudge_engine_kv_usage_ratio{$of}", "{{arm}}"),),
    "percentunit",
    least=0,
)
ERRORS = Panel("Errors so far", ((_ERRORS, "{{arm}} {{kind}}"),), least=0, decimals=0)
