"""Sweeps made by hand: passes at lanes whose speed is known."""

from collections.abc import Sequence
from typing import Any

from loadjudge.record.values import Arm, PassRecord, RunRecord
from tests.factories import one_pass, play, run


def header(**changes: Any) -> dict[str, Any]:
    return {
        "event": "run",
        "kind": "sweep",
        "started": "2026-01-02T03:04:05+00:00",
        "seed": 1,
        "task": {"limits": {}, "rule": "reject"},
        "engines": {"stock": {"name": "old <engine>"}, "candidate": {"name": "new | engine"}},
        "search": None,
        "goodput": {},
        **changes,
    }


def pass_at(
    lanes: int, arm: Arm, speed: float, number: int = 0, sessions: int = 12, **changes: Any
) -> PassRecord:
    """A pass at ``lanes`` lanes, each getting about ``speed`` tokens a second."""
    plays = [
        play(f"s{i}", 100, 100 / speed * (1 + 0.02 * ((i + number) % 3 - 1)))
        for i in range(sessions)
    ]
    return one_pass(
        arm,
        number,
        changes.pop("plays", plays),
        **{"workload": f"lanes-{lanes}", "lanes": lanes, "in_flight": None, **changes},
    )


def sweep_run(
    passes: Sequence[PassRecord], *, died: dict[str, str] | None = None, **changes: Any
) -> RunRecord:
    """``died``: the event that ended it early."""
    arms = {p.arm for p in passes}
    engines = {a: e for a, e in header()["engines"].items() if a in arms}
    return run(
        passes,
        header=header(engines=engines, **changes),
        texts=(),
        greedy=(),
        died=died,
        complete=died is None,
    )


def two_arms(**changes: Any) -> RunRecord:
    """Stock shares 800 tokens/s, the candidate 1,200 and is twice as fast alone."""
    passes = []
    for lanes in (1, 2, 4, 8, 16):
        for number in range(2):
            passes.append(pass_at(lanes, "stock", min(100, 800 / lanes), number))
            passes.append(pass_at(lanes, "candidate", min(200, 1200 / lanes), number))
    return sweep_run(passes, **changes)
