"""The panels of the dashboard *Judge*: a run while it goes."""

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

_GATES = Panel(
    "Gates",
    (
        (last("loadjudge_gate_verdict{$of}") + " == 1", "{{gate}} verdict"),
        (last("loadjudge_gate_figure{$of}"), "{{gate}} figure"),
        (last("loadjudge_gate_figure_lower{$of}"), "{{gate}} low"),
        (last("loadjudge_gate_figure_upper{$of}"), "{{gate}} high"),
        (last("loadjudge_gate_limit_lower{$of}"), "{{gate}} from"),
        (last("loadjudge_gate_limit_upper{$of}"), "{{gate}} to"),
    ),
    kind="table",
    rows="gate",
    width=16,
    height=9,
    text="A gate passes while its whole interval lies between its limits.",
)
_SPEEDUPS = Panel(
    "Speedup and A/A by workload, 95 % intervals",
    (
        (last("loadjudge_speedup_ratio{$of}"), "{{workload}} speedup"),
        (last("loadjudge_speedup_lower_ratio{$of}"), "{{workload}} low"),
        (last("loadjudge_speedup_upper_ratio{$of}"), "{{workload}} high"),
        (last("loadjudge_control_ratio{$of}"), "{{workload}} A/A"),
        (last("loadjudge_control_lower_ratio{$of}"), "{{workload}} A/A low"),
        (last("loadjudge_control_upper_ratio{$of}"), "{{workload}} A/A high"),
    ),
    kind="table",
    rows="workload",
    text="Tokens a lane second over stock's; A/A is stock over itself and should take in 1.",
)
# SpecScore and the ends of its interval; times 1, so that all have the same (no) name.
_ALL = 'loadjudge_speedup_ratio{$of,workload="all"}'
_LOW = 'loadjudge_speedup_lower_ratio{$of,workload="all"}'
_HIGH = 'loadjudge_speedup_upper_ratio{$of,workload="all"}'

JUDGE = (
    state("Run", "loadjudge_run_state", "state"),
    state("Verdict so far", "loadjudge_run_verdict", "verdict"),
    Panel(
        "Passes",
        ((f"{last('loadjudge_passes_done{$of}')} / {last('loadjudge_passes_planned{$of}')}", ""),),
        "percentunit",
        "gauge",
        4,
        4,
        least=0,
        most=1,
    ),
    Panel(
        "SpecScore so far",
        ((last('loadjudge_speedup_ratio{$of,workload="all"}'), ""),),
        "x",
        "stat",
        4,
        4,
        decimals=3,
    ),
    Panel(
        "Tokens per verify step",
        ((last("loadjudge_tokens_per_verify_step{$of}"), "{{arm}} {{workload}}"),),
        kind="stat",
        height=4,
        decimals=2,
    ),
    STEPS,
    Panel(
        "Speedup so far; SpecScore with its 95 % interval",
        (
            ('loadjudge_speedup_ratio{$of,workload!="all"}', "{{workload}}"),
            (_ALL, "SpecScore"),
            (f"{_LOW} * 1 > {_ALL} / 3 or {_ALL} / 3", "SpecScore low"),
            (f"{_HIGH} * 1 < {_ALL} * 3 or {_ALL} * 3", "SpecScore high"),
        ),
        "x",
        decimals=2,
        text="Tokens a lane second, candidate over stock. It moves as passes end. After few passes "
        "the interval may be endless: it is drawn to a third and three times of the figure.",
    ),
    _SPEEDUPS,
    *LATENCY,
    TOKENS,
    LANES,
    KV,
    _GATES,
    Panel(
        "Acceptance by position",
        (
            (
                f"sum by (position) ({last('loadjudge_accepted_tokens_by_position_total{$of}')})"
                f" / on () group_left sum ({last('loadjudge_drafts_total{$of}')})",
                "{{position}}",
            ),
        ),
        "percentunit",
        "bargauge",
        height=9,
        least=0,
        most=1,
        text="Share of drafts whose token at this place was accepted.",
    ),
    LAG,
    CPU,
    ERRORS,
    Panel(
        "Peak memory",
        ((last("loadjudge_memory_peak_bytes{$of}"), "{{arm}} {{kind}}"),),
        "bytes",
        "stat",
        height=4,
    ),
    Panel(
        "Tokens of all lanes",
        ((last("loadjudge_tokens_per_second{$of}"), "{{arm}} {{workload}}"),),
        "tokens/s",
        "stat",
        16,
        4,
        decimals=1,
    ),
)
