"""What a sweep is: its endpoints, points, objectives and sessions; its first event and back."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from loadjudge.errors import JudgeError, Status
from loadjudge.load.header import circumstances, hashed, same_engines, same_files
from loadjudge.load.task import Task
from loadjudge.record.values import ARMS, Arm
from loadjudge.servers.engine import Engine
from loadjudge.sweep.points import Order, Point
from loadjudge.sweep.slo import Slo


@dataclass(frozen=True, slots=True)
class Search:
    """The largest number of lanes up to ``most`` that keeps all objectives, with so many passes
    of each number at most."""

    slos: tuple[Slo, ...]
    most: int
    passes: int


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """``engines``: one, as "stock", or two. ``points``: none where there is a search."""

    task: Task
    engines: dict[Arm, Engine]
    points: tuple[Point, ...]
    search: Search | None
    passes: int  # of each arm at each point
    order: Order
    num_sessions: int  # measured in a pass, or as many as there are lanes, whichever is more
    num_warmups: int  # sessions, unmeasured, before the first pass of each arm
    goodput: dict[str, float]  # ms
    session_files: tuple[Path, ...]
    dataset_format: str
    seed: int
    extra: dict[str, Any]
    model: str | None
    insecure: bool
    idle_timeout_s: float

    @property
    def arms(self) -> tuple[Arm, ...]:
        return tuple(arm for arm in ARMS if arm in self.engines)

    def event(self) -> dict[str, Any]:
        """The run event: all that is needed to understand the sweep, repeat it and resume it."""
        return {
            "event": "run",
            "kind": "sweep",
            "schema": 1,
            **circumstances(),
            "seed": self.seed,
            "task": self.task.model_dump(mode="json"),
            "engines": {arm: self.engines[arm].describe() for arm in self.arms},
            "points": [asdict(point) for point in self.points],
            "search": None
            if self.search is None
            else {
                "slos": [slo.model_dump() for slo in self.search.slos],
                "most": self.search.most,
                "passes": self.search.passes,
            },
            "passes": self.passes,
            "order": self.order,
            "num_sessions": self.num_sessions,
            "num_warmups": self.num_warmups,
            "goodput": self.goodput,
            "session_files": hashed(self.session_files),
            "dataset_format": self.dataset_format,
            "extra_body": self.extra,
            "model": self.model,
            "insecure": self.insecure,
            "idle_timeout_s": self.idle_timeout_s,
        }


def options_of(event: Mapping[str, Any], directory: Path) -> SweepOptions:
    """The options of a sweep from its first event. Raises JudgeError where a file has changed."""
    if not is_sweep(event):
        raise JudgeError(
            f"{directory} is no sweep: go on with it by loadjudge judge --resume", Status.USAGE
        )
    search = event["search"]
    engines = same_engines(event, directory)
    return SweepOptions(
        task=Task.model_validate(event["task"]),
        engines={arm: engines[arm] for arm in ARMS if arm in engines},
        points=tuple(Point(**point) for point in event["points"]),
        search=None
        if search is None
        else Search(
            tuple(Slo.model_validate(slo) for slo in search["slos"]),
            search["most"],
            search["passes"],
        ),
        passes=event["passes"],
        order=event["order"],
        num_sessions=event["num_sessions"],
        num_warmups=event["num_warmups"],
        goodput=event["goodput"],
        session_files=same_files(event, directory),
        dataset_format=event["dataset_format"],
        seed=event["seed"],
        extra=event["extra_body"],
        model=event["model"],
        insecure=event["insecure"],
        idle_timeout_s=event["idle_timeout_s"],
    )


def is_sweep(event: Mapping[str, Any]) -> bool:
    """Whether a run's first event is a sweep's."""
    return event.get("kind") == "sweep"
