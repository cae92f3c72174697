"""What this machine can run: each finding with what to do about it."""

import asyncio
import importlib.util
import os
import platform
import resource
import shutil
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from loadjudge.client.lag import LagProbe
from loadjudge.client.loop import run
from loadjudge.errors import JudgeError
from loadjudge.load.task import find_task
from loadjudge.paths import data_root
from loadjudge.servers.engine import find_engine
from loadjudge.servers.install import missing
from loadjudge.servers.memory import device_use

_LAG_FINE_S = 0.0005
_SAMPLE_S = 1.0
_LANES_WISHED = 1024


@dataclass(frozen=True, slots=True)
class Finding:
    """``missing`` keeps loadjudge from working; ``note`` limits what it can do."""

    state: Literal["ok", "note", "missing"]
    what: str
    detail: str

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


def examine() -> list[Finding]:
    """All findings, in the order in which a user would ask."""
    return [
        _python(),
        _loop(),
        _lag(),
        _descriptors(),
        _cores(),
        _gpu(),
        *_extras(),
        _disk(),
        *_tasks(),
    ]


def _python() -> Finding:
    return Finding("ok", "python", f"{platform.python_version()} at {sys.executable}")


def _loop() -> Finding:
    if importlib.util.find_spec("uvloop"):
        return Finding("ok", "event loop", "uvloop")
    return Finding("note", "event loop", "asyncio's own: pip install uvloop for twice the lanes")


def _lag() -> Finding:
    async def sample() -> float:
        probe = LagProbe()
        probe.start()
        await asyncio.sleep(_SAMPLE_S)
        stats = probe.window()
        probe.stop()
        return stats.mean_s

    lag_s = run(sample())
    detail = f"{lag_s * 1e6:,.0f} µs in the mean while idle"
    if lag_s <= _LAG_FINE_S:
        return Finding("ok", "loop lag", detail)
    return Finding(
        "note", "loop lag", f"{detail}: something else keeps this machine busy; runs may be invalid"
    )


def _descriptors() -> Finding:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard >= _LANES_WISHED + 64:
        return Finding("ok", "open files", f"up to {hard:,}")
    return Finding("note", "open files", f"{hard:,} at most: a lane takes one; raise ulimit -n")


def _cores() -> Finding:
    cores = os.cpu_count() or 1
    if cores >= 2:
        return Finding("ok", "cores", str(cores))
    return Finding("note", "cores", "1: the judge and an engine on it would disturb each other")


def _gpu() -> Finding:
    if device_use() is not None:
        return Finding("ok", "gpu", "there, and its memory can be read by process")
    if shutil.which("nvidia-smi"):
        return Finding(
            "note", "gpu", "nvidia-smi is there; pip install loadjudge[gpu] to judge device memory"
        )
    return Finding("note", "gpu", "none seen: engines that need one can't run here")


def _extras() -> list[Finding]:
    uses = {"torch": "the torch scorer", "vllm": "vLLM engines from this environment"}
    return [
        Finding("ok", name, f"for {use}")
        if importlib.util.find_spec(name)
        else Finding("note", name, f"not installed: needed only for {use}")
        for name, use in uses.items()
    ]


def _disk() -> Finding:
    free_gib = shutil.disk_usage(Path.cwd()).free / 2**30
    state: Literal["ok", "note"] = "ok" if free_gib >= 1 else "note"
    return Finding(state, "disk", f"{free_gib:,.1f} GiB free in {Path.cwd()}")


def _tasks() -> list[Finding]:
    findings = []
    for path in sorted((data_root() / "gates").glob("*/task.toml")):
        name = path.parent.name
        try:
            stock = find_task(name).stock
            engine = find_engine(stock) if stock else None
        except JudgeError as error:
            findings.append(Finding("missing", f"task {name}", error.sentence))
            continue
        detail = f"stock: {engine.name}" if engine else "give --stock and --candidate"
        if engine and (lacking := missing([engine])):
            detail += f"; to be installed: {', '.join(lacking)}"
        findings.append(Finding("ok", f"task {name}", detail))
    return findings
