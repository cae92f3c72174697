"""The first event of a run: all that is needed to understand it, repeat it and resume it."""

import datetime
import hashlib
import importlib.metadata
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from loadjudge import __version__
from loadjudge.errors import JudgeError, Status
from loadjudge.load.budget import Budget
from loadjudge.load.task import Task
from loadjudge.paths import data_root
from loadjudge.servers.engine import Engine, find_engine
from loadjudge.sessions.model import Session
from loadjudge.sessions.read import read_sessions

_LIBRARIES = ("httptools", "numpy", "orjson", "scipy", "uvloop")


@dataclass(frozen=True, slots=True)
class Options:
    """What a run is: the task with its overrides, both engines, sessions and seed."""

    task: Task
    stock: Engine
    candidate: Engine
    session_files: tuple[Path, ...]
    dataset_format: str
    split: str
    seed: int
    extra: dict[str, Any]
    model: str | None
    insecure: bool
    idle_timeout_s: float
    budget: Budget  # of passes beyond the planned ones, under the rule decide


def session_files(task: Task, split: str) -> tuple[Path, ...]:
    """The files of a task's split: as given, or among those that ship."""
    if split not in task.sessions:
        raise JudgeError(
            f"task {task.name} has no split {split!r}; it has {', '.join(task.sessions)}",
            Status.USAGE,
        )
    return tuple(map(shipped_or_given, task.sessions[split]))


def shipped_or_given(file: str) -> Path:
    """A file that a task names: as given, or among those that ship."""
    return Path(file) if Path(file).exists() else data_root() / file


def load_sessions(
    files: Sequence[Path], dataset_format: str, max_turns: int | None = None
) -> list[Session]:
    """The sessions of all files, cut after ``max_turns``. Raises JudgeError for equal ids."""
    sessions: dict[str, Session] = {}
    for file in files:
        for session in read_sessions(file, dataset_format):
            if session.id in sessions:
                raise JudgeError(
                    f"{file}: the session id {session.id!r} stands in another file too"
                )
            sessions[session.id] = replace(session, turns=session.turns[:max_turns])
    return list(sessions.values())


def header(options: Options, chosen: Mapping[str, Sequence[Session]]) -> dict[str, Any]:
    """The run event."""
    return {
        "event": "run",
        "schema": 1,
        **circumstances(),
        "seed": options.seed,
        "task": options.task.model_dump(mode="json"),
        "split": options.split,
        "engines": {
            "stock": options.stock.describe(),
            "candidate": options.candidate.describe(),
        },
        "model": options.model,
        "extra_body": options.extra,
        "insecure": options.insecure,
        "idle_timeout_s": options.idle_timeout_s,
        "budget": {"seconds": options.budget.seconds, "tokens": options.budget.tokens},
        "dataset_format": options.dataset_format,
        "session_files": hashed(options.session_files),
        "sessions": {w: [s.id for s in sessions] for w, sessions in chosen.items()},
    }


def circumstances() -> dict[str, Any]:
    """When, by which versions and on which machine a run is made: the same for every kind."""
    return {
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "loadjudge": __version__,
        "machine": {
            "system": platform.platform(),
            "processor": _processor(),
            "cores": psutil.cpu_count(),
            "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        },
        "versions": {
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in _LIBRARIES if _installed(name)},
        },
    }


def hashed(files: Sequence[Path]) -> list[dict[str, str]]:
    """Session files as a header keeps them. Raises JudgeError where one can't be read."""
    return [{"path": str(f.resolve()), "sha256": _sha256(f)} for f in files]


def options_of(event: Mapping[str, Any], directory: Path) -> Options:
    """The options of a run from its first event. Raises JudgeError where a file has changed."""
    files, engines = same_files(event, directory), same_engines(event, directory)
    return Options(
        task=Task.model_validate(event["task"]),
        stock=engines["stock"],
        candidate=engines["candidate"],
        session_files=files,
        dataset_format=event["dataset_format"],
        split=event["split"],
        seed=event["seed"],
        extra=event["extra_body"],
        model=event["model"],
        insecure=event["insecure"],
        idle_timeout_s=event["idle_timeout_s"],
        budget=Budget(**event["budget"]),
    )


def same_files(event: Mapping[str, Any], directory: Path) -> tuple[Path, ...]:
    """A run's session files. Raises JudgeError where one has changed since."""
    files = tuple(Path(f["path"]) for f in event["session_files"])
    for path, kept in zip(files, event["session_files"], strict=True):
        if not path.is_file() or _sha256(path) != kept["sha256"]:
            raise JudgeError(
                f"{directory} can't be resumed: the session file {path} has changed or is gone"
            )
    return files


def same_engines(event: Mapping[str, Any], directory: Path) -> dict[str, Engine]:
    """A run's engines by arm. Raises JudgeError where one has changed since."""
    engines: dict[str, Engine] = {}
    for arm, kept in event["engines"].items():
        kit = engines["stock"].kit if "stock" in engines else None
        engines[arm] = find_engine(kept["url"] or kept["directory"], kit)
        if engines[arm].describe() != kept:
            raise JudgeError(
                f"{directory} can't be resumed: the {arm} engine {kept['name']} has changed"
            )
    return engines


def _sha256(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as e:
        raise JudgeError(f"{path} can't be read: {(e.strerror or str(e)).lower()}") from None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
