"""One engine at a time on the device: the order of things, kills, crashes, and going on."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loadjudge.record.evaluation import read_evaluation
from loadjudge.record.log import EVENTS, read_events
from loadjudge.record.run import read_run
from tests.e2e.conftest import Cli, runs
from tests.e2e.test_bad_input import DIES, engine_directory, fails
from tests.e2e.test_resume import living_engines, start

Task = Callable[..., Path]

TEAM = "[workloads.team]\nlanes = 3\nsessions = 4\nramp_s = 0.1"
WORKLOADS = "[workloads.solo]\nlanes = 1\nsessions = 1\n" + TEAM
EXCLUSIVE = 'residency = "exclusive"'


def started(directory: Path) -> list[str]:
    """Engines in the order of their starts, S and C."""
    events = read_events(directory)
    return [e["arm"][0].upper() for e in events if e["event"] == "engine"]


def played(directory: Path) -> list[tuple[str, str]]:
    """Finished passes in the order of play."""
    starts: dict[int, Any] = {}
    order = []
    for event in read_events(directory):
        if event["event"] == "pass":
            starts[event["attempt"]] = event
        if event["event"] == "pass_end":
            one = starts[event["attempt"]]
            order.append((one["workload"], one["arm"][0].upper()))
    return order


def test_engines_take_turns_and_three_passes_take_three_switches(
    cli: Cli, tmp_path: Path, task: Task
) -> None:
    path = task(EXCLUSIVE, WORKLOADS, scoring=200)
    path.write_text(path.read_text().replace("passes = 1", "passes = 3"))
    judge = start(path, tmp_path / "run")
    in_a_row = most = 0
    while runs(judge):
        # A look takes a while: one may end and the other begin in it, but not in two in a row.
        in_a_row = in_a_row + 1 if len(arms_up(tmp_path / "run")) > 1 else 0
        most = max(most, in_a_row)
    _, said = judge.communicate()
    assert most <= 1, "both engines were up"
    assert judge.returncode in (0, 1, 4, 5), said
    # Three switches; the last start is for stock, to score the candidate's last replies.
    assert started(tmp_path / "run") == ["S", "C", "S", "C", "S"]
    assert played(tmp_path / "run") == [(w, a) for a in "SCCSSC" for w in ("solo", "team")]
    run = read_run(tmp_path / "run")
    assert run.complete
    assert run.uncounted == {}
    assert run.evidence == {"stock", "candidate"}
    turns = [t for p in run.passes for play in p.measured for t in play.turns]
    assert {t.source for t in turns} == {"ids"}
    assert {r.arm for r in run.scored} == {"stock", "candidate"}
    record = read_evaluation(tmp_path / "run" / "evaluation.json")
    assert record.fidelity == 0.0
    assert {peak.arm for peak in run.memory} == {"stock", "candidate"}


def arms_up(directory: Path) -> set[str]:
    """Arms whose log some process writes to."""
    found = set()
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                output = Path(os.readlink(process / "fd" / "2"))
            except OSError:
                continue
            if output.parent == directory / "logs":
                found.add(output.stem)
    return found


@pytest.mark.parametrize("moment", ["engine", "play", "counts"])
def test_a_run_killed_at_any_moment_leaves_no_engine_and_is_finished(
    moment: str, cli: Cli, tmp_path: Path, task: Task
) -> None:
    path, directory = task(EXCLUSIVE, TEAM, scoring=100), tmp_path / "run"
    judge = start(path, directory)
    # As the candidate is up, in the middle of its pass, and when stock is up again and counts.
    wanted = f'"event":"{moment}"'.encode()
    seen = 3 if moment == "play" else 1
    log = directory / EVENTS
    while runs(judge):
        said = log.read_bytes() if log.exists() else b""
        _, found, later = said.partition(b'"arm":"candidate","state":"ready"')
        if found and (later if moment != "engine" else found + wanted).count(wanted) >= seen:
            os.kill(judge.pid, signal.SIGKILL)
            break
    judge.communicate(timeout=60)
    assert judge.returncode == -signal.SIGKILL
    done = cli("judge", "--resume", directory)
    assert "Traceback" not in done.stderr, done.stderr
    run = read_run(directory)
    assert run.complete
    assert run.uncounted == {}
    assert sorted((p.workload, p.slot) for p in run.passes) == [("team", 0), ("team", 1)]
    turns = [t for p in run.passes for play in p.measured for t in play.turns]
    assert {t.source for t in turns} == {"ids"}
    keys = [(e["arm"], e["id"]) for e in read_events(directory) if e["event"] == "text"]
    assert len(keys) == len(set(keys)) == 4, "fixed texts were read twice"
    assert living_engines(directory) == []


STUBBORN = """
import subprocess, sys
worker = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
subprocess.Popen([sys.executable, "-S", "-c", worker], start_new_session=True)
"""


@pytest.mark.parametrize("residency", ["together", "exclusive"])
def test_a_dead_engine_is_named_though_its_workers_are_stubborn(
    residency: str, cli: Cli, tmp_path: Path, task: Task
) -> None:
    """The keeper took ten seconds for the workers, the judge waited three and named the
    endpoint."""
    broken = engine_directory(tmp_path / "broken", STUBBORN + DIES)
    path = task(f'residency = "{residency}"', TEAM)
    done = cli("judge", "--task", path, "--candidate", broken, "--output", tmp_path / "run")
    fails(done, 4, "the engine broken died in the middle of the run (exit status 7)")
    assert "illegal memory access" in done.stderr
    assert living_engines(tmp_path / "run") == []


def test_an_endpoint_can_not_be_kept_off_the_device(cli: Cli, tmp_path: Path, task: Task) -> None:
    done = cli(
        "judge", "--task", task(), "--candidate", "http://127.0.0.1:9/v1",
        "--residency", "exclusive", "--output", tmp_path / "run",
    )  # fmt: skip
    fails(done, 2, "one engine at a time", "candidate is the endpoint http://127.0.0.1:9/v1")
    done = cli("judge", "--candidate", "x", "--stock", "y", "--residency", "both")
    assert done.returncode == 2
    assert "--residency is together or exclusive" in done.stderr


def test_ctrl_c_in_the_candidates_turn_stops_it(cli: Cli, tmp_path: Path, task: Task) -> None:
    directory = tmp_path / "run"
    judge: subprocess.Popen[str] = start(task(EXCLUSIVE, TEAM), directory)
    log = directory / EVENTS
    while runs(judge):
        if log.exists() and b'"arm":"candidate","state":"ready"' in log.read_bytes():
            judge.send_signal(signal.SIGINT)
            break
    _, said = judge.communicate(timeout=60)
    assert judge.returncode == 130, said
    assert living_engines(directory) == []
    cli("judge", "--resume", directory)
    assert read_run(directory).complete
