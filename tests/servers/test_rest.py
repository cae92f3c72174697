"""An engine that spins for a while after its last answer."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from loadjudge.load.arm import others_at_rest
from loadjudge.servers import rest
from loadjudge.servers.rest import until_at_rest

SPINS = """
import os, sys, time
print("spins", flush=True)
while not os.path.exists(sys.argv[1]):
    pass
time.sleep(60)
"""
HAS_A_WORKER = """
import subprocess, sys
subprocess.run([sys.executable, "-c", sys.argv[2], sys.argv[1]])
"""


class Spinning:
    """An engine whose worker takes a core until it is told to stop."""

    def __init__(self, flag: Path) -> None:
        self._flag = flag
        self.engine = subprocess.Popen(
            [sys.executable, "-c", HAS_A_WORKER, str(flag), SPINS],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.engine.stdout is not None
        assert self.engine.stdout.readline() == "spins\n"
        self._workers = psutil.Process(self.engine.pid).children()

    def rest(self) -> None:
        self._flag.touch()

    def end(self) -> None:
        for worker in self._workers:
            worker.kill()
        self.engine.communicate()


@pytest.fixture
def spinning(tmp_path: Path) -> Iterator[Spinning]:
    found = Spinning(tmp_path / "stop")
    yield found
    found.end()


async def test_it_waits_until_a_worker_has_stopped_spinning(spinning: Spinning) -> None:
    waiting = asyncio.create_task(until_at_rest(spinning.engine.pid))
    assert await asyncio.wait([waiting], timeout=0.5) == (set(), {waiting})
    spinning.rest()
    await asyncio.wait_for(waiting, 4)


async def test_an_engine_that_never_rests_is_not_waited_for_for_ever(
    spinning: Spinning, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest, "_PATIENCE_S", 0.3)
    await until_at_rest(spinning.engine.pid)


async def test_an_engine_that_has_ended_is_at_rest() -> None:
    ended = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
    await ended.wait()
    await until_at_rest(ended.pid)


async def test_a_pass_waits_for_all_engines_but_its_own() -> None:
    waited = []

    class Waits(SimpleNamespace):
        async def at_rest(self) -> None:
            waited.append(self.name)

    arms = {name: Waits(name=name) for name in ("stock", "candidate")}
    await others_at_rest(arms.values(), arms["stock"])  # type: ignore[arg-type]
    assert waited == ["candidate"]
