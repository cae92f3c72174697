"""A task: what is judged, under which load, within which limits. ``gates/TASK/task.toml``."""

import tomllib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from loadjudge.errors import JudgeError, Status
from loadjudge.paths import data_root
from loadjudge.record.evaluation import Limits
from loadjudge.wire.request import Sampling

HistoryPolicy = Literal["own", "recorded"]
Residency = Literal["together", "exclusive"]
Lanes = Annotated[int, Field(ge=1)] | Literal["kv"]


class Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SamplingTable(Table):
    temperature: float = Field(default=1.0, ge=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    top_k: int | None = Field(default=None, ge=1)

    def sampling(self) -> Sampling:
        return Sampling(temperature=self.temperature, top_p=self.top_p, top_k=self.top_k)


class WorkloadTable(Table):
    """One workload. ``lanes = "kv"`` fills the share ``fill`` of the stock's KV cache."""

    lanes: Lanes
    sessions: int = Field(ge=1)  # measured sessions of a pass
    fill: float = Field(default=0.9, gt=0, le=1)
    ramp_s: float | None = Field(default=None, ge=0)  # None: 0.1 s a lane, 10 s at most


class TextsTable(Table):
    """Fixed texts whose log-probabilities both arms give."""

    file: str = "sessions/texts.jsonl"
    count: int = Field(default=48, ge=0)


class GreedyTable(Table):
    """Temperature-0 replies to the first turns of sessions."""

    sessions: int = Field(default=24, ge=0)
    max_tokens: int = Field(default=128, ge=1)


class ScoringTable(Table):
    """Which of the timed replies the target scores for the gates: so many tokens an arm."""

    tokens: int = Field(default=20_000, ge=0)  # 0: none, and the likelihood gates are n/a


class LimitsTable(Limits):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Task(Table):
    name: str
    target: str = "unknown"  # org/repo@commit
    dtype: str = "unknown"
    model: str | None = None  # the served name; None: the endpoint's only one
    stock: str | None = None  # engine directory or URL
    sessions: dict[str, list[str]]  # split → session files
    dataset_format: str = "auto"
    workloads: dict[str, WorkloadTable] = Field(min_length=1)
    sampling: SamplingTable = SamplingTable()
    history: HistoryPolicy = "own"
    keep_reasoning: bool = True  # reasoning goes back into the history
    max_tokens: int = Field(default=1024, ge=1)  # of a reply, where its session says nothing
    max_turns: int | None = Field(default=None, ge=1)  # sessions end after so many turns
    passes: int = Field(default=3, ge=1)  # of each arm at each workload
    # Both engines up through the run, or one at a time on the device: then pass follows pass
    # over all workloads, and S C C S S C takes three switches.
    residency: Residency = "together"
    rule: Literal["decide", "reject"] = "decide"
    budget: str = "10m"  # of passes beyond these, while a gate is undecided under "decide"
    texts: TextsTable = TextsTable()
    greedy: GreedyTable = GreedyTable()
    scoring: ScoringTable = ScoringTable()
    limits: LimitsTable = LimitsTable()


def find_task(where: str) -> Task:
    """The task that ``--task`` names: a file, a folder with ``task.toml``, or one that ships.

    Raises JudgeError that names the file and the key at fault.
    """
    given = Path(where)
    for path in (given, given / "task.toml", data_root() / "gates" / where / "task.toml"):
        if path.is_file():
            return read_task(path)
    shipped = ", ".join(sorted(p.parent.name for p in (data_root() / "gates").glob("*/task.toml")))
    raise JudgeError(f"there is no task {where}; those that ship are {shipped}", Status.SETUP)


def read_task(path: Path) -> Task:
    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except tomllib.TOMLDecodeError as e:
        raise JudgeError(f"{path}: not TOML: {e}") from None
    except (OSError, UnicodeDecodeError) as e:
        raise JudgeError(f"{path} can't be read: {e}") from None
    try:
        return Task.model_validate({"name": path.resolve().parent.name, **table})
    except ValidationError as e:
        first = e.errors()[0]
        key = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            raise JudgeError(f"{path}: unknown key {key!r}") from None
        raise JudgeError(f"{path}: {key}: {first['msg'].lower()}") from None
