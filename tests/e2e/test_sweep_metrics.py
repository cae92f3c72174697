"""Sweeps whose exporter is scraped while they play: what it says is what their records say."""

import contextlib
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from loadjudge.cli.sweep import status_of
from loadjudge.metrics.exporter import Exporter
from loadjudge.metrics.serve import serve
from loadjudge.sweep.record import ArmPoint, SweepRecord
from tests.e2e.conftest import ROOT, Cli, runs
from tests.metrics.test_exporter import samples

SCRAPE_S = 0.1
_TASK = """
max_tokens = 32
max_turns = 2
[sessions]
dev = ["sessions/chat.jsonl"]
[workloads.solo]
lanes = 1
sessions = 2
ramp_s = 0.2
[sampling]
top_k = 20
"""
Page = dict[tuple[str, tuple[str, ...]], float]


@dataclass(frozen=True)
class Scraped:
    """All pages that were scraped, the last one as text, and the sweep's record."""

    pages: list[Page]
    text: str
    record: SweepRecord

    @property
    def last(self) -> Page:
        return self.pages[-1]

    def ever(self, name: str) -> set[float]:
        """The values that a metric had, of whatever labels."""
        return {value for page in self.pages for (n, _), value in page.items() if n == name}


def swept(folder: Path, *flags: str) -> Scraped:
    (folder / "task.toml").write_text(_TASK)
    command = [
        sys.executable, "-m", "loadjudge", "sweep", "--task", str(folder / "task.toml"),
        "--output", str(folder / "run"), "--metrics-port", "0", *flags,
    ]  # fmt: skip
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as sweep:
        assert sweep.stderr is not None
        (url,) = re.findall(r"http://\S+", said := sweep.stderr.readline())
        texts = []
        while runs(sweep, SCRAPE_S):  # as a Prometheus in a hurry
            with contextlib.suppress(httpx.HTTPError):  # it closes after a last scrape
                texts.append(httpx.get(url).text)
        said += sweep.stderr.read()
    record = SweepRecord.model_validate_json((folder / "run" / "sweep.json").read_bytes())
    assert sweep.returncode == status_of(record), said
    return Scraped([samples(text) for text in texts], texts[-1], record)


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> Scraped:
    """A search over two engines side by side, one of which speculates. It plays two lanes, and
    on a busy machine, which makes them invalid, one as well."""
    return swept(
        tmp_path_factory.mktemp("search"),
        "--stock", "servers/reference/stock", "--candidate", "servers/reference/ngram",
        "--search", "ttft:p90:60000", "--max-concurrency", "2", "--passes", "1",
        "--num-sessions", "4", "--goodput", "e2el:300",
    )  # fmt: skip


@pytest.fixture(scope="module")
def open_loop(tmp_path_factory: pytest.TempPathFactory) -> Scraped:
    return swept(
        tmp_path_factory.mktemp("open"), "--base-url", "servers/reference/ngram",
        "--request-rate", "4", "--num-sessions", "8", "--passes", "1", "--num-warmups", "0",
    )  # fmt: skip


def expected(arm: str, point: str, its: ArmPoint) -> Page:
    """What an arm's figures at a point are called on the page."""
    by = (arm, point)
    page: Page = {
        ("loadjudge_replies_total", by): its.figures.turns - its.figures.failed_turns,
        ("loadjudge_output_tokens_total", by): its.figures.output_tokens,
        ("loadjudge_prompt_tokens_total", by): its.figures.prompt_tokens or 0,
        ("loadjudge_time_to_first_token_seconds_count", by): its.figures.turns,
        ("loadjudge_e2e_latency_seconds_count", by): its.figures.turns,
        ("loadjudge_tokens_per_second", by): its.total.value,
        ("loadjudge_lane_tokens_per_second", by): its.per_user.value,
    }
    if its.figures.acceptance is not None:
        page["loadjudge_tokens_per_verify_step", by] = its.figures.acceptance
    if its.good is not None and its.goodput is not None:
        page["loadjudge_good_replies_total", by] = round(its.good.value * its.figures.turns)
        page["loadjudge_goodput_requests_per_second", by] = its.goodput.value
    for one in its.slos:
        assert one.figure_ms is not None
        slo = (arm, "ttft:p90:60000", point)
        page["loadjudge_slo_seconds", slo] = one.figure_ms / 1e3
        page["loadjudge_slo_verdict", (*slo[:2], one.verdict, point)] = 1
    return page


def test_figures_at_the_end_of_a_search_are_the_records(search: Scraped) -> None:
    assert [point.lanes for point in search.record.points][-1] == 2
    for point in search.record.points:
        assert list(point.arms) == ["stock", "candidate"]
        for arm, its in point.arms.items():
            wanted = expected(arm, point.point, its)
            assert {key: search.last.get(key) for key in wanted} == pytest.approx(wanted)
        assert point.speedup is not None
        for end, value in (
            ("", point.speedup.ratio),
            ("_lower", point.speedup.low),
            ("_upper", point.speedup.high),
        ):
            assert search.last[f"loadjudge_speedup{end}_ratio", (point.point,)] == value
    assert search.last["loadjudge_slo_limit_seconds", ("ttft:p90:60000",)] == 60


def test_a_search_shows_what_it_plays_and_how_the_engine_is(search: Scraped) -> None:
    assert {0, 2} <= search.ever("loadjudge_lanes_wanted")
    assert max(search.ever("loadjudge_lanes_in_flight")) in (1, 2)
    assert max(search.ever("loadjudge_engine_kv_usage_ratio")) > 0
    assert max(search.ever("loadjudge_event_loop_lag_seconds")) > 0
    first = [
        page for page in search.pages
        if page.get(("loadjudge_passes_done", ())) == 1
        and page.get(("loadjudge_lanes_wanted", ("candidate", "lanes-2")))
    ]  # fmt: skip
    step = ("loadjudge_tokens_per_verify_step", ("candidate", "lanes-2"))
    assert [page[step] for page in first if step in page], "live, before its pass is over"


def test_a_search_does_not_know_how_many_passes_it_plans(search: Scraped) -> None:
    passes = [its.figures.passes for p in search.record.points for its in p.arms.values()]
    assert search.last["loadjudge_passes_done", ()] == sum(passes)
    assert ("loadjudge_passes_planned", ()) not in search.last


def test_its_state_is_that_of_a_sweep(search: Scraped) -> None:
    (info,) = [labels for name, labels in search.last if name == "loadjudge_run_info"]
    assert info == ("sweep", "run")  # kind, run
    states = [
        labels[0] for page in search.pages for (name, labels), value in page.items()
        if name == "loadjudge_run_state" and value
    ]  # fmt: skip
    assert list(dict.fromkeys(states)) == ["starting", "playing", "done"]


def test_an_open_loop_tells_its_rate_in_place_of_lanes(open_loop: Scraped) -> None:
    assert open_loop.ever("loadjudge_sessions_wanted_per_second") == {0, 4}
    assert open_loop.ever("loadjudge_lanes_wanted") == set()
    assert max(open_loop.ever("loadjudge_lanes_in_flight")) >= 1
    assert max(open_loop.ever("loadjudge_engine_requests_in_flight")) >= 1
    assert open_loop.last["loadjudge_passes_planned", ()] == 1
    (point,) = open_loop.record.points
    wanted = expected("stock", point.point, point.arms["stock"])
    assert {key: open_loop.last.get(key) for key in wanted} == pytest.approx(wanted)
    assert not [name for name, _ in open_loop.last if "slo" in name or "good" in name]


@pytest.mark.parametrize("name", ["search", "open_loop"])
def test_promtool_finds_no_fault(name: str, request: pytest.FixtureRequest) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("there is no promtool on this machine (Debian: apt-get install prometheus)")
    scraped: Scraped = request.getfixturevalue(name)
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=scraped.text, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_port_in_use_is_said_before_anything_is_played(cli: Cli, tmp_path: Path) -> None:
    server = serve(Exporter(), 0)
    try:
        done = cli(
            "sweep", "--base-url", "servers/reference/stock", "--output", tmp_path / "run",
            "--metrics-port", server.port,
        )  # fmt: skip
    finally:
        server.close()
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert f"metrics can't be served at 127.0.0.1:{server.port}" in line
    assert not list((tmp_path / "run").iterdir())
