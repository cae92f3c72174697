"""The panels of the dashboard *Sweep*: points of load, while they are played and afterwards."""

from grafana.panel import (
    CPU,
    ERRORS,
    KV,
    LAG,
    LANES,
    LATENCY,
    STEPS,
    TOKENS,
    Panel,
    last,
    state,
)

_OF_ALL = "(instance, arm, workload)"


def _at(arm: str, metric: str) -> str:
    return last(f'{metric}{{$of,arm="{arm}"}}')


def _columns(arm: str) -> tuple[tuple[str, str], ...]:
    return (
        (_at(arm, "loadjudge_tokens_per_second"), f"{{{{workload}}}} {arm} tokens/s"),
        (_at(arm, "loadjudge_lane_tokens_per_second"), f"{{{{workload}}}} {arm} a lane"),
        (_at(arm, "loadjudge_goodput_requests_per_second"), f"{{{{workload}}}} {arm} goodput/s"),
    )


_POINTS = Panel(
    "Points: tokens a second of all and of a lane, requests a second that keep --goodput's limits",
    (
        *_columns("stock"),
        *_columns("candidate"),
        (last("loadjudge_speedup_ratio{$of}"), "{{workload}} speedup"),
        (last("loadjudge_speedup_lower_ratio{$of}"), "{{workload}} low"),
        (last("loadjudge_speedup_upper_ratio{$of}"), "{{workload}} high"),
    ),
    kind="table",
    rows="workload",
    width=24,
    height=9,
    text="Each point over its passes so far; the speedup is of tokens a lane second.",
)
_SLOS = Panel(
    "Objectives: the statistic over its limit",
    (
        (
            f"{last('loadjudge_slo_seconds{$of}')}"
            f" / on (instance, slo) group_left {last('loadjudge_slo_limit_seconds{$of}')}"
            " * on (instance, arm, workload, slo) group_left (verdict)"
            f" ({last('loadjudge_slo_verdict{$of}')} == 1)",
            "{{arm}} {{workload}} {{slo}} {{verdict}}",
        ),
    ),
    "percentunit",
    "bargauge",
    least=0,
    most=2,
    text="A search keeps an objective up to 100 %; the verdict is by its interval.",
)

SWEEP = (
    state("Sweep", "loadjudge_run_state", "state"),
    Panel(
        "Wanted now",
        (
            ("loadjudge_lanes_wanted{$of} > 0", "{{arm}} lanes"),
            ("loadjudge_sessions_wanted_per_second{$of} > 0", "{{arm}} sessions a second"),
        ),
        kind="stat",
        height=4,
        text="The point that plays: lanes, or in an open loop sessions that come a second.",
    ),
    Panel(
        "Passes",
        (
            (last("loadjudge_passes_done{$of}"), "done"),
            (last("loadjudge_passes_planned{$of}"), "planned"),
        ),
        kind="stat",
        width=5,
        height=4,
        text="A search does not know how many it plans.",
    ),
    Panel(
        "Goodput of all points",
        (
            (
                f"sum by (arm) ({last('loadjudge_good_replies_total{$of}')})"
                f" / (sum by (arm) ({last('loadjudge_replies_total{$of}')})"
                f" + sum by (arm) ({last('loadjudge_errors_total{$of}')}))",
                "{{arm}}",
            ),
        ),
        "percentunit",
        "stat",
        7,
        4,
        text="Share of turns that kept --goodput's limits.",
    ),
    _POINTS,
    LANES,
    Panel(
        "Goodput by point",
        (
            (
                f"loadjudge_good_replies_total{{$of}} / on {_OF_ALL}"
                f" (loadjudge_replies_total{{$of}} + on {_OF_ALL}"
                f" sum by {_OF_ALL} (loadjudge_errors_total{{$of}}))",
                "{{workload}} {{arm}}",
            ),
        ),
        "percentunit",
        least=0,
        most=1,
        text="Share of turns that kept --goodput's limits, so far.",
    ),
    _SLOS,
    *LATENCY,
    TOKENS,
    STEPS,
    KV,
    ERRORS,
    LAG,
    CPU,
)
