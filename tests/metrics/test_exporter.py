"""The exporter: values in, a page out."""

import dataclasses
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, get_args

import httpx
import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from loadjudge.errors import JudgeError, Status
from loadjudge.metrics.exporter import Exporter
from loadjudge.metrics.labels import POSITIONS, SLOS, WORKLOADS
from loadjudge.metrics.process import ExporterProcess
from loadjudge.metrics.serve import serve
from loadjudge.metrics.values import (
    Client,
    EngineLoad,
    GateState,
    Lanes,
    LiveRatio,
    Memory,
    ProxyRequest,
    ProxyState,
    Rates,
    Reply,
    Run,
    RunProgress,
    SloState,
    Speculation,
    Speedup,
    Value,
    Verdict,
)

NAMES = ("stock", "team")
EACH: tuple[Value, ...] = (
    Run("a run", "judge", (("stock", "reference"),)),
    Reply(*NAMES, 0.2, 0.3, 0.01, 1.5, ((0.01, 3), (0.02, 1)), 100, 4, 64, good=True),
    Reply(*NAMES, error="cut"),
    Lanes(*NAMES, in_flight=3, wanted=4),
    Lanes(*NAMES, in_flight=3, rate=0.5),
    Speculation(*NAMES, 10, 40, 25, (9, 8, 5, 3), 3.5),
    EngineLoad("stock", 4, 1, 0.25),
    Memory("stock", 2**30, "device"),
    Rates(*NAMES, 100, 25, 2),
    Speedup("team", 1.3, 1.2, 1.4),
    Speedup("team", 1.0, 0.99, 1.01, control=True),
    GateState("likelihood", "fail", -0.02, -0.03, -0.015, -0.01, 0.01),
    SloState(*NAMES, "ttft:p99:200", "keeps", 0.15, 0.2),
    Verdict("failed"),
    Client(0.0001, 0.01, 0.2),
    RunProgress("playing", 3, 12),
    LiveRatio("ttft_s", "mean", 0.9, 0.8, 1.0),
    ProxyRequest("candidate", "/v1/models", 299, 0.01),
    ProxyState(3, (("stock", 2),), 1000, 0, 1, 10, 2, 1, 4, 9, 4000, 1, False),
)


def samples(page: bytes | str) -> dict[tuple[str, tuple[str, ...]], float]:
    """Values by name and label values, labels in the order of their names."""
    text = page if isinstance(page, str) else page.decode()
    return {
        (s.name, tuple(s.labels[k] for k in sorted(s.labels))): s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
    }


def page_of(*values: Value) -> dict[tuple[str, tuple[str, ...]], float]:
    exporter = Exporter()
    for value in values:
        exporter.take(value)
    return samples(exporter.page())


def test_each_kind_of_value_has_an_example_here() -> None:
    assert {type(value) for value in EACH} == set(get_args(Value))


def test_promtool_finds_no_fault_with_a_page_of_everything() -> None:
    if shutil.which("promtool") is None:
        pytest.skip("there is no promtool on this machine (Debian: apt-get install prometheus)")
    exporter = Exporter()
    for value in EACH:
        exporter.take(value)
    command = ["promtool", "check", "metrics"]
    done = subprocess.run(command, input=exporter.page(), capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


_OTHERS = {
    "stock": "candidate", "judge": "sweep", "playing": "scoring", "device": "rss", "cut": "reset",
    "keeps": "misses", "fail": "pass", "failed": "passed", "mean": "median", "likelihood": "memory",
}  # fmt: skip


def changed(given: Any) -> Any:
    """Another value of the same kind."""
    match given:
        case bool():
            return not given
        case int() | float():
            return given + 1
        case str():
            return _OTHERS.get(given, "something else")
    first, *rest = given
    return (tuple(map(changed, first)) if isinstance(first, tuple) else changed(first), *rest)


@pytest.mark.parametrize("value", EACH, ids=lambda value: type(value).__name__)
def test_every_field_of_a_value_shows_on_the_page(
    value: Value, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: 1.0)
    for field in dataclasses.fields(value):
        given = getattr(value, field.name)
        if given not in (None, ()):
            other = dataclasses.replace(value, **{field.name: changed(given)})
            assert page_of(other) != page_of(value), field.name


def test_tokens_that_come_together_are_as_many_latencies() -> None:
    page = page_of(Reply(*NAMES, itl=((0.01, 3), (0.04, 1))))
    name = "loadjudge_inter_token_latency_seconds"
    assert page[f"{name}_count", NAMES] == 4
    assert page[f"{name}_sum", NAMES] == pytest.approx(0.07)


def test_what_is_unknown_has_no_series() -> None:
    page = page_of(
        Reply(*NAMES),
        Speculation(*NAMES),
        EngineLoad("stock"),
        GateState("memory", "n/a"),
        Speedup("team", 1.1),
        Run("a run", "proxy"),
        ProxyState(connections=1),
        SloState(*NAMES, "itl:mean:9", "undecided", None, 0.009),
        RunProgress("starting"),
        Lanes(*NAMES, in_flight=0, rate=2.0),
    )
    names = {name for name, _ in page}
    assert "loadjudge_replies_total" in names
    for unknown in (
        "loadjudge_output_tokens_total",
        "loadjudge_time_to_first_token_seconds_count",
        "loadjudge_tokens_per_verify_step",
        "loadjudge_drafts_total",
        "loadjudge_engine_kv_usage_ratio",
        "loadjudge_gate_figure",
        "loadjudge_speedup_lower_ratio",
        "loadjudge_event_loop_lag_seconds",
        "loadjudge_good_replies_total",
        "loadjudge_lanes_wanted",
        "loadjudge_passes_planned",
        "loadjudge_slo_seconds",
        "loadjudge_proxy_mirrored_requests_total",
        "loadjudge_proxy_record_failing",
    ):
        assert unknown not in names


def test_a_failed_reply_is_an_error_and_no_reply() -> None:
    page = page_of(Reply(*NAMES, ttft_s=0.1, error="cut"))
    assert page["loadjudge_errors_total", ("stock", "cut", "team")] == 1
    assert page["loadjudge_errors_total", ("stock", "reset", "team")] == 0
    assert page["loadjudge_replies_total", NAMES] == 0


@pytest.mark.parametrize("over", [{"wanted": 0}, {"rate": 0.0}], ids=["closed", "open"])
def test_an_engine_that_nobody_looks_at_has_no_gauges(over: dict[str, Any]) -> None:
    looked = (EngineLoad("stock", 4, 1, 0.25), EngineLoad("candidate", 4, 1, 0.5))
    page = page_of(*looked, Lanes(*NAMES, in_flight=0, **over))
    found = {k: v for k, v in page.items() if k[0] == "loadjudge_engine_kv_usage_ratio"}
    assert found == {("loadjudge_engine_kv_usage_ratio", ("candidate",)): 0.5}


def test_labels_are_bounded() -> None:
    exporter = Exporter()
    for i in range(WORKLOADS + 10):
        exporter.take(Reply("stock", f"w{i}", error=f"kind {i}"))
        exporter.take(ProxyRequest(f"arm {i}", f"/v1/{i}?q={i}", 600 + i))
        exporter.take(GateState(f"gate {i}", "pass", 0.0))
        exporter.take(LiveRatio(f"figure {i}", f"of {i}", 1.0))
        exporter.take(Speedup(f"w{i}", 1.0))
        exporter.take(SloState(f"arm {i}", "w0", f"slo {i}", "keeps", 0.1, 0.2))
    exporter.take(Speculation("stock", "w0", accepted_at=(1.0,) * 40))
    page = samples(exporter.page())

    def count(name: str) -> int:
        return sum(found == name for found, _ in page)

    assert count("loadjudge_replies_total") == WORKLOADS + 1
    assert count("loadjudge_speedup_ratio") == WORKLOADS + 1
    assert count("loadjudge_slo_seconds") == SLOS + 1
    assert count("loadjudge_proxy_requests_total") == 1
    assert count("loadjudge_gate_figure") == 1
    assert count("loadjudge_ab_ratio") == 1
    assert count("loadjudge_accepted_tokens_by_position_total") == POSITIONS + 1
    name = "loadjudge_accepted_tokens_by_position_total"
    assert page[name, ("stock", f"{POSITIONS}+", "w0")] == 40 - POSITIONS


def test_one_state_is_one() -> None:
    page = page_of(
        RunProgress("playing"), RunProgress("done"), GateState("memory", "inconclusive"),
        GateState("memory", "pass"),
    )  # fmt: skip
    for name in ("loadjudge_run_state", "loadjudge_gate_verdict"):
        ones = [labels[-1] for (found, labels), value in page.items() if found == name and value]
        assert ones == ["done" if "state" in name else "pass"]


def test_totals_of_the_proxy_only_rise() -> None:
    page = page_of(ProxyState(1, bytes_down=10), ProxyState(1, bytes_down=7))
    assert page["loadjudge_proxy_response_bytes_total", ()] == 10


def test_a_process_of_its_own_serves_what_it_was_sent() -> None:
    process = ExporterProcess(0, linger_s=0.1)
    exporter = Exporter()
    try:
        for value in EACH:
            process.take(value)
            exporter.take(value)
        while "loadjudge_proxy_recorded" not in (
            text := httpx.get(f"http://127.0.0.1:{process.port}/metrics").text
        ):
            pass
    finally:
        process.close()
    theirs, ours = samples(text), samples(exporter.page())
    for page in (theirs, ours):
        del page["loadjudge_progress_timestamp_seconds", ()]
    assert {k: v for k, v in ours.items() if not k[0].endswith("_created")} == theirs
    assert process.lost == 0


def test_values_told_to_a_process_that_is_gone_are_counted_and_hurt_nobody() -> None:
    process = ExporterProcess(0, linger_s=0.1)
    process._process.kill()
    process._process.wait()
    process.take(Client(0.1))
    process.close()
    assert process.lost == 1


def test_a_reply_of_too_many_reads_is_counted_as_lost() -> None:
    process = ExporterProcess(0, linger_s=0.1)
    process.take(Reply(*NAMES, itl=((0.0123456789, 1),) * 100_000))
    process.close()
    assert process.lost == 1


def test_it_waits_for_a_last_scrape_where_there_was_one() -> None:
    process = ExporterProcess(0, linger_s=60)
    url = f"http://127.0.0.1:{process.port}/metrics"
    httpx.get(url)
    process.take(Client(lag_s=0.5))
    process._socket.close()
    last = ""
    while process._process.poll() is None:
        with suppress(httpx.TransportError):  # it ends between two scrapes
            last = httpx.get(url).text
    assert process._process.returncode == 0
    assert "loadjudge_event_loop_lag_seconds 0.5" in last


def test_a_scrape_that_is_being_answered_counts() -> None:
    exporter = Exporter()
    seen = []

    class Looks(Collector):
        def describe(self) -> Iterable[Metric]:
            return []

        def collect(self) -> Iterable[Metric]:
            seen.append(server.scraped)
            return []

    exporter.registry.register(Looks())
    server = serve(exporter, 0)
    assert not server.scraped
    httpx.get(f"http://127.0.0.1:{server.port}/metrics")
    server.close()
    assert seen == [True]


def test_a_scraper_that_leaves_early_makes_no_noise(capfd: pytest.CaptureFixture[str]) -> None:
    server = serve(Exporter(), 0)
    reset = struct.pack("ii", 1, 0)  # close by a reset
    for request in (b"", b"GET /metr", b"GET /metrics HTTP/1.1\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", server.port)) as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            one.sendall(request)
    assert httpx.get(f"http://127.0.0.1:{server.port}/metrics").status_code == 200
    server.close()
    assert capfd.readouterr().err == ""


def test_a_port_in_use_is_one_sentence() -> None:
    server = serve(Exporter(), 0)
    with pytest.raises(JudgeError, match=f"can't be served at 127.0.0.1:{server.port}") as error:
        ExporterProcess(server.port)
    assert error.value.status == Status.SETUP
    server.close()
