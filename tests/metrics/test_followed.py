"""A run's log and the looks at it, as values for the exporter."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from loadjudge.metrics.exporter import Exporter
from loadjudge.metrics.follow import LogReader
from loadjudge.metrics.followed import Followed
from loadjudge.metrics.values import Look
from loadjudge.record.log import EVENTS
from tests.metrics.conftest import ROOT, Scraped
from tests.metrics.test_exporter import samples

NAMES = ("candidate", "team")
HEADER = {
    "event": "run",
    "task": {"passes": 1, "workloads": {"team": {}}},
    "engines": {"stock": {"name": "plain"}, "candidate": {"name": "n-gram"}},
}


def begun(attempt: int, number: int = 0) -> dict[str, Any]:
    arm, workload = NAMES
    return {
        "event": "pass", "attempt": attempt, "arm": arm, "workload": workload, "number": number,
        "slot": 2 * number, "lanes": 4,
    }  # fmt: skip


def ended(attempt: int, drafts: float, accepted: float) -> dict[str, Any]:
    counters = {"drafts": drafts, "accepted": accepted, "accepted_at_0": accepted}
    return {"event": "pass_end", "attempt": attempt, "counters": counters}


def look(number: int, drafts: float, accepted: float, in_flight: int = 4) -> Look:
    counters = {"drafts": drafts, "accepted": accepted, "accepted_at_0": accepted}
    return Look(*NAMES, number, 4, in_flight, 7, (4.0, 0.0, 0.5), counters, 0.001, 0.2)


class Watched:
    """A run that is followed, and its page."""

    def __init__(self) -> None:
        self.exporter = Exporter()
        self.run = Followed("a run", self.exporter)

    def events(self, *events: dict[str, Any]) -> "Watched":
        for event in events:
            self.run.event(event)
        return self

    def __getitem__(self, key: str) -> Any:
        """The only value of a metric; of a state, the one that is 1."""
        found = {k[1]: v for k, v in samples(self.exporter.page()).items() if k[0] == key}
        if key.endswith("_state"):
            return next(labels[-1] for labels, value in found.items() if value)
        (value,) = found.values()
        return value


def test_tokens_per_step_take_in_the_pass_that_plays_and_end_as_the_passes_sum() -> None:
    watched = Watched().events(HEADER, begun(0))
    watched.run.look(look(0, drafts=10, accepted=10))
    assert watched["loadjudge_tokens_per_verify_step"] == 2
    watched.events(ended(0, drafts=20, accepted=30), begun(1, number=1))
    assert watched["loadjudge_tokens_per_verify_step"] == 2.5
    watched.run.look(look(1, drafts=20, accepted=70))
    assert watched["loadjudge_tokens_per_verify_step"] == 1 + 100 / 40
    watched.events(ended(1, drafts=30, accepted=70))
    assert watched["loadjudge_tokens_per_verify_step"] == 1 + 100 / 50
    assert watched["loadjudge_drafts_total"] == 50
    assert watched["loadjudge_accepted_tokens_by_position_total"] == 100


def test_a_look_that_comes_after_its_pass_is_passed_over() -> None:
    watched = Watched().events(HEADER, begun(0), ended(0, drafts=20, accepted=30))
    watched.run.look(look(0, drafts=10, accepted=10))
    assert watched["loadjudge_tokens_per_verify_step"] == 2.5
    assert watched["loadjudge_drafts_total"] == 20
    assert watched["loadjudge_lanes_in_flight"] == 0


def test_a_pass_that_was_cut_is_no_part_of_the_figure() -> None:
    watched = Watched().events(HEADER, begun(0))
    watched.run.look(look(0, drafts=1000, accepted=0))
    watched.events({"event": "interrupted"}, {"event": "resumed"}, begun(1))
    watched.events(ended(1, drafts=20, accepted=30))
    assert watched["loadjudge_tokens_per_verify_step"] == 2.5
    assert watched["loadjudge_drafts_total"] == 1000  # what was counted can't be taken back


def test_an_engine_without_counters_has_no_figure() -> None:
    watched = Watched().events(HEADER, begun(0), {**ended(0, 0, 0), "counters": None})
    page = samples(watched.exporter.page())
    assert not [name for name, _ in page if name == "loadjudge_tokens_per_verify_step"]


@pytest.mark.parametrize(
    ("last", "state"),
    [
        (None, "playing"),
        ({"event": "end"}, "done"),
        ({"event": "interrupted"}, "interrupted"),
        ({"event": "died", "sentence": "…"}, "died"),
    ],
)
def test_the_state_is_the_logs(last: dict[str, Any] | None, state: str) -> None:
    watched = Watched()
    assert watched.events(HEADER)["loadjudge_run_state"] == "starting"
    watched.events(begun(0))
    if last:
        watched.events(last)
    assert watched["loadjudge_run_state"] == state
    watched.run.lost()
    assert watched["loadjudge_run_state"] == (state if last else "unknown")


def test_a_sweep_is_starting_until_it_plays() -> None:
    sweep = {**HEADER, "kind": "sweep", "goodput": {}, "search": {"objective": "ttft:p90:250"}}
    watched = Watched().events(sweep, {"event": "engine", "arm": "stock"})
    assert watched["loadjudge_run_state"] == "starting"
    judge = Watched().events(HEADER, {"event": "engine", "arm": "stock"})
    assert judge["loadjudge_run_state"] == "evidence"


def test_when_all_passes_are_played_it_scores_and_may_play_on() -> None:
    watched = Watched().events(HEADER, begun(0), ended(0, 1, 1), begun(1, 1), ended(1, 1, 1))
    assert watched["loadjudge_run_state"] == "scoring"
    assert watched["loadjudge_passes_planned"] == 2
    watched.events({"event": "extend", "passes": {"team": 2}}, begun(2, 2))
    assert watched["loadjudge_run_state"] == "playing"
    assert watched["loadjudge_passes_planned"] == 6


def test_only_what_moves_moves_the_time_of_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1, 100))
    monkeypatch.setattr("time.time", lambda: float(next(clock)))
    watched = Watched().events(HEADER, begun(0))
    watched.run.look(look(0, 10, 10))
    before = watched["loadjudge_progress_timestamp_seconds"]
    watched.run.look(look(0, 10, 10, in_flight=3))
    assert watched["loadjudge_progress_timestamp_seconds"] == before
    watched.run.look(look(0, 11, 10))
    assert watched["loadjudge_progress_timestamp_seconds"] > before


def test_a_torn_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    log = LogReader(tmp_path)
    assert log.read() == []
    path = tmp_path / EVENTS
    line = orjson.dumps({"event": "note", "text": "…"}) + b"\n"
    path.write_bytes(line + line[:5])
    assert len(log.read()) == 1
    path.write_bytes(line)  # whoever resumed the run has cut it off
    assert log.read() == []
    path.write_bytes(line + line + line)
    assert len(log.read()) == 2
    assert log.read() == []


def test_the_command_serves_a_finished_runs_metrics(scraped: Scraped) -> None:
    command = [sys.executable, "-m", "loadjudge", "metrics", str(scraped.run), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stderr is not None
            (url,) = re.findall(r"http://\S+", process.stderr.readline())
            while "loadjudge_speedup_ratio{" not in (page := httpx.get(url).text):
                pass
            theirs = samples(page)
        finally:
            process.terminate()
    for metric in ("loadjudge_tokens_per_verify_step", "loadjudge_drafts_total"):
        series = scraped.prometheus.range(metric, scraped.start, scraped.end)
        last = {
            (one["metric"]["arm"], one["metric"]["workload"]): float(one["values"][-1][1])
            for one in series
            if one["metric"]["instance"] == scraped.instances["judge"]
        }
        assert last == {k[1]: v for k, v in theirs.items() if k[0] == metric}


def test_the_command_says_where_there_is_no_run(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "loadjudge", "metrics", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
