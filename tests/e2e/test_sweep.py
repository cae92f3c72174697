"""Sweeps of real engines: found limits against the truth, resuming, what users get wrong."""

import csv
import json
import math
import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from loadjudge.cli.sweep import status_of
from loadjudge.load.header import load_sessions
from loadjudge.record.log import EVENTS, read_events
from loadjudge.record.run import read_run
from loadjudge.reference.configuration import EngineConfig
from loadjudge.reference.cost import Cost
from loadjudge.reference.sampling import Sampling
from loadjudge.reference.scheduler import Limits
from loadjudge.reference.store import shipped_model
from loadjudge.reference.truth import simulate_pass
from loadjudge.sweep.record import SweepRecord
from tests.e2e.conftest import ROOT, Cli, Engine, runs

Task = Callable[..., Path]
# Steps long enough that what the machine adds to them is little.
SLOTS, WEIGHTS_S, TOKENS, LIMIT_MS = 8, 12e-3, 24, 250


def engine_directory(folder: Path, *flags: str) -> Path:
    folder.mkdir()
    words = ", ".join(f'"{word}"' for word in flags)
    (folder / "engine.toml").write_text(
        f"""
[engine]
name = "{folder.name}"
family = "reference"
command = ["{{python}}", "-m", "loadjudge.reference", "--socket", "{{socket}}", {words}]
"""
    )
    return folder


def record_of(directory: Path) -> SweepRecord:
    return SweepRecord.model_validate_json((directory / "sweep.json").read_bytes())


def true_p90_ms(lanes: int) -> float:
    """The p90 TTFT of the engine at so many lanes, by its scheduler and cost model."""
    config = EngineConfig(cost=Cost(weights_s=WEIGHTS_S), limits=Limits(max_num_seqs=SLOTS))
    sessions = load_sessions((ROOT / "sessions/chat.jsonl",), "auto", 2)[:40]
    truth = simulate_pass(
        config, sessions, lanes, 1, Sampling(temperature=1.0, top_k=20), TOKENS,
        model=shipped_model(), ramp_s=0.1 * lanes,
    )  # fmt: skip
    return 1e3 * float(np.quantile([turn.ttft_s for turn in truth.turns], 0.9))


def test_the_search_finds_the_true_limit_within_one_lane_in_five(
    cli: Cli, tmp_path: Path, task: Task
) -> None:
    # Eight sequences run at once and the rest wait: the first token's delay climbs beyond that.
    slots = engine_directory(
        tmp_path / "slots", "--max-num-seqs", str(SLOTS), "--cost.weights_s", str(WEIGHTS_S)
    )
    path = task("max_turns = 2\n", sessions="sessions/chat.jsonl")
    path.write_text(path.read_text().replace("max_tokens = 24", f"max_tokens = {TOKENS}", 1))
    done = cli(
        "sweep", "--base-url", slots, "--task", path, "--search", f"ttft:p90:{LIMIT_MS}",
        "--max-concurrency", 32, "--num-sessions", 40, "--passes", 2, "--num-warmups", 0,
        "--output", tmp_path / "run", timeout_s=600,
    )  # fmt: skip
    found = record_of(tmp_path / "run").search["stock"]
    if found.outcome == "invalid":
        assert done.returncode == 4
        pytest.skip("this machine is too busy to measure on, and the search says so")
    assert done.returncode == 0, done.stdout + done.stderr
    assert found.outcome == "found"
    assert found.lanes is not None
    # |found − true| ≤ true / 5: the truth keeps it at found / 1.2, and misses it past found / 0.8.
    assert true_p90_ms(math.ceil(found.lanes / 1.2)) <= LIMIT_MS
    assert true_p90_ms(math.floor(found.lanes / 0.8) + 1) > LIMIT_MS


def test_two_side_by_side_and_everything_that_is_derived(
    cli: Cli, tmp_path: Path, task: Task, engine: Callable[..., Engine]
) -> None:
    one = engine("--cost.weights_s", "0.004")
    other = engine_directory(tmp_path / "half", "--cost.weights_s", "0.0015")
    directory, junit = tmp_path / "run", tmp_path / "junit.xml"
    done = cli(
        "sweep", "--base-url", one.url, "--base-url", other, "--task", task("max_turns = 1"),
        "--concurrency", "1,2,4", "--num-sessions", 6, "--passes", 1, "--output", directory,
        "--goodput", "ttft:5000", "tpot:5000", "--junit", junit, "--json",
        "--export", "vllm-bench", tmp_path / "bench.json", "--csv", tmp_path / "copy.csv",
    )  # fmt: skip
    record = record_of(directory)
    assert done.returncode == status_of(record), done.stderr
    assert json.loads(done.stdout) == json.loads((directory / "sweep.json").read_bytes())
    assert [(p.lanes, list(p.arms)) for p in record.points] == [
        (n, ["stock", "candidate"]) for n in (1, 2, 4)
    ]
    assert record.goodput_limits_ms == {"ttft": 5000, "tpot": 5000}
    for point in record.points:
        assert point.speedup is not None
        for figures in point.arms.values():
            assert figures.figures.failed_turns == 0
            assert figures.good is not None
            assert figures.good.value == 1.0
    with (tmp_path / "copy.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 6
    cases = [c.get("name") for c in ET.parse(junit).iter("testcase")]
    assert len(cases) == 1 + 6
    bench = json.loads((tmp_path / "bench-candidate-lanes-4.json").read_text())
    assert bench["output_throughput"] == pytest.approx(
        record.points[2].arms["candidate"].total.value, rel=1e-9
    )
    assert bench["completed"] == 6
    # The caches were emptied before each pass, and the log alone gives all of it again.
    assert all(one.cache_reset for one in read_run(directory).passes)
    before = {p.name: p.read_bytes() for p in directory.iterdir() if p.is_file()}
    for name in before.keys() - {EVENTS}:
        (directory / name).unlink()
    assert cli("report", directory).returncode == 0
    assert {p.name: p.read_bytes() for p in directory.iterdir() if p.is_file()} == before


def test_an_open_loop_brings_both_endpoints_the_same_arrivals(
    cli: Cli, tmp_path: Path, task: Task, engine: Callable[..., Engine]
) -> None:
    stock, candidate = engine("--cost.weights_s", "0.001"), engine("--cost.weights_s", "0.001")
    done = cli(
        "sweep", "--stock", stock.url, "--candidate", candidate.url, "--num-sessions", 8,
        "--task", task("max_turns = 1"), "--request-rate", "20", "--passes", 1,
        "--num-warmups", 0, "--output", tmp_path / "run",
    )  # fmt: skip
    assert done.returncode == status_of(record_of(tmp_path / "run")), done.stderr
    run = read_run(tmp_path / "run")
    assert {(p.arm, p.rate, p.lanes) for p in run.passes} == {
        ("stock", 20.0, 0), ("candidate", 20.0, 0),
    }  # fmt: skip
    arrivals = [
        sorted(p.turns[0].scheduled_s for p in one.plays if p.turns)[:5] for one in run.passes
    ]
    assert arrivals[0] == pytest.approx(arrivals[1], abs=0.05)
    assert record_of(tmp_path / "run").points[0].rate == 20.0


@pytest.mark.parametrize("moment", range(3))
def test_a_killed_sweep_is_finished(moment: int, cli: Cli, tmp_path: Path, task: Task) -> None:
    fast = engine_directory(tmp_path / "fast", "--clock", "off")
    directory = tmp_path / "run"
    flags = ["--base-url", fast, "--task", task("max_turns = 1"), "--concurrency", "1,2,3",
             "--num-sessions", "4", "--passes", "2", "--output", directory]  # fmt: skip
    sweep = subprocess.Popen(
        [sys.executable, "-m", "loadjudge", "sweep", *map(str, flags)], stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    log = directory / EVENTS
    while runs(sweep):
        if log.exists() and log.read_bytes().count(b"\n") >= (3, 12, 28)[moment]:
            os.kill(sweep.pid, signal.SIGKILL)
            break
    sweep.wait(60)
    done = cli("sweep", "--resume", directory)
    assert "Traceback" not in done.stderr, done.stderr
    run = read_run(directory)
    assert run.complete
    assert sum(e["event"] == "run" for e in read_events(directory)) == 1
    assert sorted((p.workload, p.number) for p in run.passes) == [
        (f"lanes-{n}", k) for n in (1, 2, 3) for k in (0, 1)
    ]
    again = cli("sweep", "--resume", directory)
    assert again.returncode == 2
    assert "is complete" in again.stderr
    judged = cli("judge", "--resume", directory)
    assert judged.returncode == 2
    assert "is a sweep" in judged.stderr


URL = "http://127.0.0.1:9/v1"


@pytest.mark.parametrize(
    ("flags", "status", "said"),
    [
        ([], 2, "--base-url"),
        (["--base-url", URL, "--stock", URL], 2, "--stock and --candidate"),
        (["--stock", URL], 2, "--stock and --candidate"),
        ([*["--base-url", URL] * 3], 2, "twice at most"),
        (["--base-url", URL, "--concurrency", "1,x"], 2, "not 'x'"),
        (["--base-url", URL, "--concurrency", "1", "--request-rate", "1"], 2, "exclude each other"),
        (["--base-url", URL, "--search", "ttft:200"], 2, "ttft:p99:200"),
        (["--base-url", URL, "--goodput", "ttft:200", "speed:5"], 2, "not 'speed:5'"),
        (["--base-url", URL, "ttft:200"], 2, "unexpected argument 'ttft:200'"),
        (["--base-url", URL, "--order", "random"], 2, "--order is alternate, given, shuffle"),
        (["--base-url", URL, "--export", "guidellm", "x.json"], 2, "vllm-bench"),
        (["--base-url", URL], 3, "is the server up?"),
        (["--base-url", "nowhere"], 3, "no engine directory nowhere"),
        (["--resume", "nowhere"], 3, "not a run directory"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_users_get_wrong(
    cli: Cli, tmp_path: Path, flags: list[str], status: int, said: str
) -> None:
    output = [] if "--resume" in flags else ["--output", tmp_path / "run"]
    done = cli("sweep", *output, *flags)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    last = [line for line in done.stderr.splitlines() if line.startswith("loadjudge: ")]
    assert len(last) == 1, done.stderr
    assert said in last[0]
