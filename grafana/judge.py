"""The panels of the dashboard *Judge*: a run or a sweep while it goes."""

from grafana.panel import ERRORS, LAG, LATENCY, TOKENS, Panel, state

_GATES = Panel(
    "Gates",
    (
        ("loadjudge_gate_verdict{$of} == 1", "{{gate}} {{verdict}}"),
        ("loadjudge_gate_figure{$of}", "{{gate}} figure"),
        ("loadjudge_gate_figure_lower{$of}", "{{gate}} low"),
        ("loadjudge_gate_figure_upper{$of}", "{{gate}} high"),
        ("loadjudge_gate_limit_lower{$of}", "{{gate}} from"),
        ("loadjudge_gate_limit_upper{$of}", "{{gate}} to"),
    ),
    kind="table",
    width=16,
    height=9,
    decimals=4,
    text="A gate passes while its whole interval lies between its limits.",
)
JUDGE = (
    state("Run", "loadjudge_run_state", "state"),
    state("Verdict so far", "loadjudge_run_verdict", "verdict"),
    Panel(
        "Passes",
        (("loadjudge_passes_done{$of} / loadjudge_passes_planned{$of}", "done"),),
        "percentunit",
        "gauge",
        4,
        4,
        least=0,
        most=1,
    ),
    Panel(
        "SpecScore so far",
        (('loadjudge_speedup_ratio{$of,workload="all"}', "SpecScore"),),
        "x",
        "stat",
        4,
        4,
        decimals=3,
    ),
    Panel(
        "Tokens per verify step",
        (("loadjudge_tokens_per_verify_step{$of}", "{{arm}} {{workload}}"),),
        kind="stat",
        height=4,
        decimals=2,
    ),
    Panel(
        "Tokens per verify step",
        (("loadjudge_tokens_per_verify_step{$of}", "{{arm}} {{workload}}"),),
        decimals=2,
        text="1 + accepted draft tokens over drafts, over all passes so far: the record's own.",
    ),
    Panel(
        "Speedup so far, 95 % interval",
        (
            ('loadjudge_speedup_ratio{$of,workload=~"$workload"}', "{{workload}}"),
            ('loadjudge_speedup_lower_ratio{$of,workload=~"$workload"}', "{{workload}} low"),
            ('loadjudge_speedup_upper_ratio{$of,workload=~"$workload"}', "{{workload}} high"),
        ),
        "x",
        decimals=2,
        text="Tokens a lane second, candidate over stock. It moves as passes end.",
    ),
    Panel(
        "A/A: stock over stock, 95 % interval",
        (
            ('loadjudge_control_ratio{$of,workload=~"$workload"}', "{{workload}}"),
            ('loadjudge_control_lower_ratio{$of,workload=~"$workload"}', "{{workload}} low"),
            ('loadjudge_control_upper_ratio{$of,workload=~"$workload"}', "{{workload}} high"),
        ),
        "x",
        decimals=2,
        text="It should take in 1; how far it is off is what the run can't tell apart.",
    ),
    *LATENCY,
    TOKENS,
    Panel(
        "Lanes",
        (
            ("sum by (arm) (loadjudge_lanes_in_flight{$of})", "{{arm}} in flight"),
            ("sum by (arm) (loadjudge_lanes_wanted{$of})", "{{arm}} wanted"),
            ("loadjudge_engine_requests_in_flight{$of}", "{{arm}} as the engine says"),
        ),
        least=0,
    ),
    Panel(
        "KV cache in use",
        (("loadjudge_engine_kv_usage_ratio{$of}", "{{arm}}"),),
        "percentunit",
        least=0,
    ),
    _GATES,
    Panel(
        "Acceptance by position",
        (
            (
                "sum by (position) (loadjudge_accepted_tokens_by_position_total{$of})"
                " / on () group_left sum (loadjudge_drafts_total{$of})",
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
    Panel(
        "Client: share of a core, lag over the time between reads",
        (
            ("loadjudge_client_cpu_ratio{$of}", "share of a core"),
            ("loadjudge_event_loop_lag_ratio{$of}", "lag over time between reads, worst pass"),
        ),
        "percentunit",
        least=0,
        text="Limits: 95 % of a core, 5 % of the time between reads.",
    ),
    ERRORS,
    Panel(
        "Peak memory",
        (("loadjudge_memory_peak_bytes{$of}", "{{arm}} {{kind}}"),),
        "bytes",
        "stat",
        height=4,
    ),
    Panel(
        "Tokens of all lanes",
        (("loadjudge_tokens_per_second{$of}", "{{arm}} {{workload}}"),),
        "tokens/s",
        "stat",
        16,
        4,
        decimals=1,
    ),
)
