"""The panels of the dashboard *Proxy*: live traffic."""

from grafana.panel import ERRORS, LAG, LATENCY, RATE, TOKENS, Panel, last, rate

_ANSWERED = "loadjudge_proxy_requests_total"

PROXY = (
    Panel(
        "Requests",
        ((f"sum (rate({_ANSWERED}{{$of}}{RATE}))", "a second"),),
        "reqps",
        "stat",
        4,
        4,
        decimals=2,
    ),
    Panel(
        "In flight",
        (("loadjudge_proxy_requests_in_flight{$of}", "{{arm}}"),),
        kind="stat",
        width=5,
        height=4,
    ),
    Panel("Connections", (("loadjudge_proxy_connections{$of}", "open"),), "short", "stat", 4, 4),
    Panel(
        "Failed",
        (
            (
                f'(sum ({_ANSWERED}{{$of,status=~"5xx|none"}}) or vector(0))'
                f" / sum ({_ANSWERED}{{$of}})",
                "of all requests",
            ),
        ),
        "percentunit",
        "stat",
        4,
        4,
        decimals=2,
    ),
    Panel(
        "Recorded",
        (
            ("loadjudge_proxy_recorded_sessions_total{$of}", "sessions"),
            ("loadjudge_proxy_recorded_turns_total{$of}", "turns"),
            ("loadjudge_proxy_record_dropped_total{$of}", "dropped"),
        ),
        kind="stat",
        width=7,
        height=4,
    ),
    Panel("Requests by path", ((rate(_ANSWERED, "path"), "{{path}}"),), "reqps", least=0),
    Panel(
        "Requests by status",
        ((rate(_ANSWERED, "arm, status"), "{{status}} {{arm}}"),),
        "reqps",
        least=0,
    ),
    Panel(
        "Split: users' requests by who answers",
        (
            (
                f'sum by (arm) (rate({_ANSWERED}{{$of,arm!="mirror"}}{RATE}))'
                f' / on () group_left sum (rate({_ANSWERED}{{$of,arm!="mirror"}}{RATE}))',
                "{{arm}}",
            ),
        ),
        "percentunit",
        least=0,
        most=1,
        text="The split is by session, so that no conversation changes its model.",
    ),
    *LATENCY,
    TOKENS,
    Panel(
        "Candidate over stock, live",
        (('loadjudge_ab_ratio{$of,of="mean"}', "{{figure}}"),),
        "x",
        decimals=2,
        text="Ratios of means. Of times, below 1 is faster.",
    ),
    Panel(
        "Candidate over stock, 95 % intervals",
        (
            (last('loadjudge_ab_ratio{$of,of="mean"}'), "{{figure}} ratio"),
            (last('loadjudge_ab_lower_ratio{$of,of="mean"}'), "{{figure}} low"),
            (last('loadjudge_ab_upper_ratio{$of,of="mean"}'), "{{figure}} high"),
        ),
        kind="table",
        rows="figure",
        text="Sessions are the units. Choose one proxy: each has ratios of its own.",
    ),
    Panel(
        "Mirror",
        (
            (f"sum (rate(loadjudge_proxy_mirrored_requests_total{{$of}}{RATE}))", "mirrored"),
            (f"sum (rate(loadjudge_proxy_mirror_dropped_requests_total{{$of}}{RATE}))", "dropped"),
        ),
        "reqps",
        least=0,
        text="What the mirror can't keep up with is dropped; users wait for none of it.",
    ),
    ERRORS,
    Panel(
        "Bytes",
        (
            (f"sum (rate(loadjudge_proxy_response_bytes_total{{$of}}{RATE}))", "answers"),
            (f"sum (rate(loadjudge_proxy_recorded_bytes_total{{$of}}{RATE}))", "to the record"),
        ),
        "Bps",
        least=0,
    ),
    LAG,
)
