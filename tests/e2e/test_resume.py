"""A run that is killed at any moment is finished by --resume: nothing lost, nothing twice."""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from loadjudge.record.log import EVENTS, read_events
from loadjudge.record.run import read_run
from tests.e2e.conftest import Cli, runs
from tests.e2e.test_bad_input import engine_directory, fails

WORKLOADS = "[workloads.team]\nlanes = 3\nsessions = 6\nramp_s = 0.1"


def start(path: Path, directory: Path) -> "subprocess.Popen[str]":
    # Engines with their clocks off: what is tested is the log, not the time.
    arms = []
    for arm, speculate in (("stock", "none"), ("candidate", "ngram")):
        folder = path.parent / arm
        folder.mkdir()
        (folder / "engine.toml").write_text(
            f"""
[engine]
name = "{arm}"
family = "reference"
command = ["{{python}}", "-m", "loadjudge.reference", "--socket", "{{socket}}",
    "--clock", "off", "--speculate", "{speculate}"]
"""
        )
        arms += [f"--{arm}", str(folder)]
    return subprocess.Popen(
        [
            sys.executable, "-m", "loadjudge", "judge", "--task", str(path),
            *arms, "--output", str(directory),
        ],
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def living_engines(directory: Path) -> list[str]:
    """Command lines of engines that belong to the run: their log is in its directory."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                output = os.readlink(process / "fd" / "2")
                line = (process / "cmdline").read_bytes().decode()
            except OSError:
                continue
            if output.startswith(str(directory)):
                found.append(line)
    return found


@pytest.mark.parametrize("moment", range(5))
def test_a_killed_run_is_finished(
    moment: int, cli: Cli, tmp_path: Path, task: Callable[..., Path]
) -> None:
    path, directory = task("", WORKLOADS), tmp_path / "run"
    judge = start(path, directory)
    # Killed when the log has so many lines: a random moment of the run, the same each time.
    events = random.Random(moment).randint(1, 24)
    log = directory / EVENTS
    while runs(judge):
        if log.exists() and log.read_bytes().count(b"\n") >= events:
            os.kill(judge.pid, signal.SIGKILL)
            break
    judge.communicate(timeout=60)
    done = cli("judge", "--resume", directory)
    assert "Traceback" not in done.stderr, done.stderr
    run = read_run(directory)
    assert run.complete
    slots = [(p.workload, p.slot) for p in run.passes]
    assert sorted(slots) == [("team", 0), ("team", 1)]
    for one in run.passes:
        assert sorted(p.play for p in one.measured) == sorted(
            f"{s}#0" for s in run.header["sessions"]["team"]
        )
        assert {p.outcome for p in one.measured} == {"done"}
    assert living_engines(directory) == []
    again = cli("judge", "--resume", directory)
    assert again.returncode == 2
    assert "is complete" in again.stderr


def test_ctrl_c_stops_the_engines_and_can_be_resumed(
    tmp_path: Path, task: Callable[..., Path], cli: Cli
) -> None:
    directory = tmp_path / "run"
    judge = start(task("", WORKLOADS), directory)
    log = directory / EVENTS
    while runs(judge):
        if log.exists() and b'"event":"pass"' in log.read_bytes():
            judge.send_signal(signal.SIGINT)
            break
    _, said = judge.communicate(timeout=60)
    assert judge.returncode == 130, said
    assert f"--resume {directory}" in said
    assert "Traceback" not in said
    assert living_engines(directory) == []
    cli("judge", "--resume", directory)
    assert read_run(directory).complete


LINGERS = """
import os, subprocess, sys, threading, time
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingUnixStreamServer

class Broken(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_error(500)
    def log_message(self, *words):
        pass
    do_POST = do_GET

words = ["--socket", sys.argv[1], "--request-log", "seen"]
server = subprocess.Popen([sys.executable, "-m", "loadjudge.reference", *words])

def answered():
    return len(open("seen").readlines()) if os.path.exists("seen") else 0

while server.poll() is None and (os.path.exists("killed") or answered() < 8):
    time.sleep(0.02)
if not os.path.exists("killed"):
    open("killed", "w").close()
    server.kill()
    os.unlink(sys.argv[1])
    # As vLLM's server, whose worker has died: requests fail, and it is still there.
    after = ThreadingUnixStreamServer(sys.argv[1], Broken)
    after.handle_error = lambda *whom: None
    threading.Thread(target=after.serve_forever, daemon=True).start()
    time.sleep(2)
    print("the worker died unexpectedly", flush=True)
sys.exit(7)
"""


def test_a_pass_in_which_an_engine_lay_dying_is_played_again(
    cli: Cli, tmp_path: Path, task: Callable[..., Path]
) -> None:
    """All its turns fail at once, too few to end the run, and the engine's end comes when the
    pass would long be over."""
    two = "[workloads.team]\nlanes = 2\nsessions = 2\nramp_s = 0"
    path, directory = task("", two), tmp_path / "run"
    lingers = engine_directory(tmp_path / "lingers", LINGERS)
    done = cli("judge", "--task", path, "--candidate", lingers, "--output", directory)
    fails(done, 4, "the engine broken died in the middle of the run (exit status 7)")
    ended = [e["event"] for e in read_events(directory) if e["event"] in ("pass", "pass_end")]
    assert ended == ["pass", "pass_end", "pass"]
    done = cli("judge", "--resume", directory)
    assert done.returncode in (0, 1, 5), done.stderr
    run = read_run(directory)
    assert run.complete
    assert sorted((p.workload, p.slot) for p in run.passes) == [("team", 0), ("team", 1)]
    assert {play.outcome for p in run.passes for play in p.measured} == {"done"}
