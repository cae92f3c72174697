"""Who was judged: names, kinds and configurations of the engines, as far as a record says.

The run's metadata (``Evaluation.run``, or the log's header) holds ``engines``: the two engines by
arm, each as its ``engine.toml`` says it, flat or under ``engine``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loadjudge.record.evaluation import Evaluation
from loadjudge.record.values import ARMS, Arm, RunRecord


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine as the record describes it; None where it doesn't say."""

    arm: Arm
    name: str | None
    kind: str | None
    method: str | None
    speculator: str | None
    family: str | None
    config: dict[str, Any]  # all of it


@dataclass(frozen=True, slots=True)
class Identity:
    task: str | None
    split: str | None
    target: str | None
    engines: dict[Arm, Engine]


def metadata_of(evaluation: Evaluation, run: RunRecord | None) -> dict[str, Any]:
    """The run's metadata: the record's own, filled up with what only the log's header has."""
    return {**(run.header if run else {}), **(evaluation.run or {})}


def identity_of(metadata: Mapping[str, Any]) -> Identity:
    """Names of the task and the engines."""
    task = metadata.get("task")
    table = task if isinstance(task, Mapping) else {}
    target = table.get("target", metadata.get("target"))
    if isinstance(target, Mapping):
        target = target.get("model") or target.get("name") or target.get("repo")
    return Identity(
        task=_text(table.get("name") if table else task),
        split=_text(metadata.get("split") or table.get("split")),
        target=_text(target),
        engines={arm: _engine(arm, _config(metadata.get("engines"), arm)) for arm in ARMS},
    )


def _config(engines: Any, arm: Arm) -> dict[str, Any]:
    if isinstance(engines, Mapping):
        found = engines.get(arm)
        return dict(found) if isinstance(found, Mapping) else {}
    if isinstance(engines, list | tuple):
        for engine in engines:
            if isinstance(engine, Mapping) and engine.get("arm") == arm:
                return {k: v for k, v in engine.items() if k != "arm"}
    return {}


def _engine(arm: Arm, config: dict[str, Any]) -> Engine:
    nested = config.get("engine")
    table = {**config, **nested} if isinstance(nested, Mapping) else config
    return Engine(
        arm=arm,
        name=_text(table.get("name")),
        kind=_text(table.get("kind")),
        method=_text(table.get("method")),
        speculator=_text(table.get("speculator")),
        family=_text(table.get("family")),
        config=config,
    )


def _text(value: Any) -> str | None:
    return None if value is None or value == "" else str(value)
