"""The evidence that a task's limits come from: ``gates/TASK/evidence.json``."""

from collections.abc import Sequence
from pathlib import Path

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from loadjudge.errors import JudgeError, Status
from loadjudge.record.evaluation import Limits


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Runs(_Table):
    """What so many runs of so many tokens an arm came to. ``gates``: verdicts by gate."""

    runs: int
    tokens: int
    failed: int
    inconclusive: int
    gates: dict[str, dict[str, int]]

    @property
    def caught_by(self) -> tuple[str, ...]:
        """The gates that failed, the most frequent first."""
        fails = {g: v.get("fail", 0) for g, v in self.gates.items()}
        return tuple(sorted((g for g in fails if fails[g]), key=lambda g: -fails[g]))


class Errors(_Table):
    """Root mean squares of standard errors over runs: of the plain gap, the excess gap, and the
    candidate's excess against its known zero, on the same replies."""

    plain: float
    excess: float
    zero: float


class Honest(_Table):
    """An honest engine. ``outcomes``: at small and larger numbers of tokens, the last being the
    evidence's own. ``uniform``: p-values of Kolmogorov–Smirnov tests that the ranks' own
    p-values are uniform, over ``uniform_runs`` small runs of ``uniform_tokens``."""

    pool_tokens: int
    outcomes: list[Runs]
    errors: dict[str, Errors]
    uniform: dict[str, float]
    uniform_runs: int
    uniform_tokens: int


class Needed(_Table):
    """Tokens an arm at which a statistic sees an attack in 95 of 100 runs at one false alarm in
    100; None: not seen in the whole pool. Not ``measured``: extrapolated from the whole pool."""

    tokens: int | None
    measured: bool


class Attacked(_Table):
    """An engine of the red team. ``outcome``: at the smallest budget of tokens that was tried at
    which 95 of 100 runs fail, or, where ``enough`` is False, at the largest that was tried.
    ``void``: what it changes the task does not ask for, so that it serves what stock serves."""

    does: str
    means: str
    strength: float
    pool_tokens: int
    mean_reply: float
    void: bool = False
    enough: bool
    outcome: Runs
    needs: dict[str, Needed]


class Evidence(_Table):
    """``look``: the level of the runs' intervals is that of this look under ``decide``."""

    task: str
    seed: int
    look: int
    tokens: int
    seconds: float
    cpu_seconds: float  # of all processes and of all calibrations that it was joined from
    limits: Limits
    stock_tokens: int
    mean_reply: float  # stock's
    honest: dict[str, Honest]
    attacks: dict[str, Attacked]


def with_rows_of(evidence: Evidence, other: Evidence) -> Evidence:
    """``evidence`` with the engines of ``other`` in the place of its own, and the time of both.

    Raises JudgeError where they are of another task, seed or limits.
    """
    for what in ("task", "seed", "look", "tokens", "limits"):
        if getattr(evidence, what) != getattr(other, what):
            raise JudgeError(
                f"the evidence that is there has another {what.removesuffix('s')}: "
                "give another folder with --output, or calibrate all engines",
                Status.USAGE,
            )
    return evidence.model_copy(
        update={
            "seconds": round(evidence.seconds + other.seconds, 1),
            "cpu_seconds": round(evidence.cpu_seconds + other.cpu_seconds, 1),
            "honest": {**evidence.honest, **other.honest},
            "attacks": {**evidence.attacks, **other.attacks},
        }
    )


def write_evidence(evidence: Evidence, path: Path) -> None:
    """Indented, so that changes can be read."""
    value = evidence.model_dump(mode="json", exclude_none=False)
    value["limits"] = evidence.limits.model_dump(exclude_none=True)
    path.write_bytes(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def read_evidence(path: Path) -> Evidence:
    """Raises JudgeError that names the file."""
    try:
        return Evidence.model_validate_json(path.read_bytes())
    except OSError as e:
        raise JudgeError(
            f"there is no evidence in {path} ({(e.strerror or str(e)).lower()}): "
            "make it with loadjudge gates calibrate"
        ) from None
    except ValidationError as e:
        first = e.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise JudgeError(f"{path}: {key}: {first['msg'].lower()}") from None


def write_limits(path: Path, table: Sequence[str]) -> None:
    """Puts a ``[limits]`` table, its lines given, in the place of a task file's own.

    The table's own comments stay at its head. Raises JudgeError where there is no such table.
    """
    lines = path.read_text("utf-8").splitlines()
    if "[limits]" not in lines:
        raise JudgeError(f"{path} has no [limits] table to put the limits in")
    start = lines.index("[limits]")
    end = next((i for i in range(start + 1, len(lines)) if lines[i].startswith("[")), len(lines))
    comments = [line for line in lines[start:end] if line.startswith("#")]
    after = ["", *lines[end:]] if end < len(lines) else []
    lines = [*lines[:start], table[0], *comments, *table[1:], *after]
    path.write_text("\n".join(lines) + "\n", "utf-8")
