"""vLLM on a CPU with a real chat model, as `loadjudge servers install smollm2-135m` makes it."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from loadjudge.paths import data_root
from loadjudge.servers.install import engines_of, missing
from loadjudge.servers.kit import Kit, find_kit

TASK = "smollm2-135m"
ENGINES = data_root() / "servers" / TASK
# Two starts, each of which takes longer than the rest, on two cores that others use too.
PATIENCE_S = 1500

Cli = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def kit() -> Kit:
    found = find_kit(TASK)
    if said := missing(engines_of(found)):
        pytest.skip(f"not installed: {', '.join(said)}: loadjudge servers install {TASK}")
    return found


@pytest.fixture(scope="session")
def cli() -> Cli:
    """Runs the command with arguments; text of both streams, no terminal."""

    def run(*arguments: object) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "loadjudge", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            env={**os.environ, "COLUMNS": "120"},
            check=False,
        )

    return run


@pytest.fixture(scope="session")
def stock(kit: Kit, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The stock engine's URL; `loadjudge serve` runs it until the last test that needs it."""
    log = tmp_path_factory.mktemp("stock") / "stock.log"
    serve = subprocess.Popen(
        [sys.executable, "-m", "loadjudge", "serve", str(ENGINES / "stock"), "--log", str(log)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        text=True,
    )
    assert serve.stdout is not None
    said = serve.stdout.readline()
    ready = re.search(r"is ready after .* at (unix:\S+)", said)
    if ready is None:
        rest, _ = serve.communicate(timeout=60)
        pytest.fail(f"the stock engine did not start: {said}{rest}")
    yield ready[1]
    serve.send_signal(signal.SIGINT)
    serve.wait(60)
    serve.stdout.close()


@pytest.fixture
def task(tmp_path: Path) -> Callable[..., Path]:
    """Writes a task of a few replies on these engines, with the limits that are given."""

    def write(limits: str = "", texts: int = 0, tokens: int = 0, sessions: int = 2) -> Path:
        path = tmp_path / "task" / "task.toml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            f"""
stock = "{ENGINES / "stock"}"
max_tokens = 24
max_turns = 1
passes = 1
rule = "reject"
[sessions]
dev = ["gates/{TASK}/sessions.jsonl"]
[sampling]
temperature = 0.7
top_k = 20
top_p = 0.95
[workloads.solo]
lanes = 1
sessions = {sessions}
[texts]
count = {texts}
[greedy]
sessions = 0
[scoring]
tokens = {tokens}
[limits]
{limits}
"""
        )
        return path

    return write
