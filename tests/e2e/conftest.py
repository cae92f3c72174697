"""Real processes: the command itself and the embedded engines."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "data"
READY_S = 30.0

Cli = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def cli() -> Cli:
    """Runs the command with arguments; text of both streams, no terminal."""

    def run(
        *arguments: object, timeout_s: float = 120, env: dict[str, str] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "loadjudge", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env={**os.environ, "COLUMNS": "120", **(env or {})},
            check=False,
        )

    return run


def runs(process: "subprocess.Popen[Any]", look_s: float = 0.005) -> bool:
    """Whether it still runs, a moment later: who looks again and again without one takes a core
    from what it looks at."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(look_s)
    return process.returncode is None


class Engine:
    """An embedded engine in a process of its own."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.socket = folder / "engine.sock"
        self.log = folder / "requests.jsonl"
        self.url = f"unix:{self.socket}"
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "loadjudge.reference",
                "--socket",
                str(self.socket),
                "--request-log",
                str(self.log),
                *flags,
            ],
            stderr=subprocess.DEVNULL,
        )
        self.http = httpx.Client(
            transport=httpx.HTTPTransport(uds=str(self.socket)), base_url="http://engine"
        )
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            try:
                if self.http.get("/health").status_code == 200:
                    return
            except httpx.HTTPError:
                time.sleep(0.02)  # nothing tells when a socket appears
        raise RuntimeError("the engine was not ready")

    def stop(self) -> None:
        self.http.close()
        self.process.terminate()
        self.process.wait(10)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Callable[..., Engine]]:
    """Starts embedded engines, each with its own folder; they end with the test."""
    started: list[Engine] = []

    def start(*flags: str) -> Engine:
        folder = tmp_path / f"engine-{len(started)}"
        folder.mkdir()
        started.append(Engine(folder, *flags))
        return started[-1]

    yield start
    for one in started:
        one.stop()


@pytest.fixture
def task(tmp_path: Path) -> Callable[..., Path]:
    """Writes a small task; keywords are lines of its top level or whole tables."""

    def write(
        text: str = "",
        workloads: str = "",
        sessions: str = "sessions/chat.jsonl",
        scoring: int = 0,
        greedy: int = 2,
    ) -> Path:
        workloads = workloads or "[workloads.solo]\nlanes = 1\nsessions = 2"
        path = tmp_path / "task" / "task.toml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            f"""
stock = "servers/reference/stock"
max_tokens = 24
passes = 1
{text}
[sessions]
dev = ["{sessions}"]
{workloads}
[texts]
count = 2
[greedy]
sessions = {greedy}
max_tokens = 8
[scoring]
tokens = {scoring}
[sampling]
top_k = 20
"""
        )
        return path

    return write
