"""Verdicts anew, under other limits or the other rule, offline. Pure.

From a run's log everything is derived again. From an evaluation record alone, ours or a seed
arena's, the recorded figures and intervals are held against the limits; what a record has no
figure for keeps the verdict n/a.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, ValidationError

from loadjudge.errors import JudgeError, Status
from loadjudge.evaluate import evaluate, verdict_of
from loadjudge.gates import (
    agreement,
    excess,
    fidelity,
    first_choice,
    integrity,
    lengths,
    likelihood,
    memory,
    ranks,
    support,
    text_test,
)
from loadjudge.gates.sequential import level_at, limit_at
from loadjudge.gates.verdict import not_available
from loadjudge.record.evaluation import Evaluation, Gate, Limits
from loadjudge.record.values import ARMS, RunRecord

Rule = Literal["decide", "reject"]
_ORDER = (
    *("memory", "fidelity", "likelihood", "argmax", "agreement", "lengths", "support"),
    *("ranks", "excess", "integrity", "text_test"),
)


class _LimitsFile(Limits):
    model_config = ConfigDict(extra="forbid", frozen=True)


def read_limits(path: Path) -> Limits:
    """Limits from a TOML file: its ``[limits]`` table, as in a task, or its top level.

    Raises JudgeError that names the file and the key.
    """
    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as e:
        raise JudgeError(f"{path} can't be read: {e}", Status.USAGE) from None
    except tomllib.TOMLDecodeError as e:
        raise JudgeError(f"{path}: not TOML: {e}", Status.USAGE) from None
    try:
        return Limits(**_LimitsFile.model_validate(table.get("limits", table)).model_dump())
    except ValidationError as e:
        first = e.errors()[0]
        key = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            known = ", ".join(Limits.model_fields)
            raise JudgeError(
                f"{path}: there is no limit {key!r}; there are {known}", Status.USAGE
            ) from None
        raise JudgeError(f"{path}: {key}: {first['msg'].lower()}", Status.USAGE) from None


def rejudge_run(
    run: RunRecord, limits: Limits | None = None, rule: Rule | None = None
) -> Evaluation:
    """The evaluation of a run anew. ``limits`` take the place of all of its task's."""
    task: dict[str, Any] = dict(run.header["task"])
    if limits is not None:
        task["limits"] = limits.model_dump(exclude_none=True)
    if rule is not None:
        task["rule"] = rule
    return evaluate(replace(run, header={**run.header, "task": task}))


def rejudge_record(
    evaluation: Evaluation, limits: Limits | None = None, rule: Rule | None = None
) -> Evaluation:
    """The record with its verdicts anew. A seed arena's record was judged by ``reject``."""
    held = limits or evaluation.limits
    by: Rule = rule or evaluation.rule or "reject"
    gates = gates_of_record(evaluation, held)
    invalid = list(evaluation.invalid or ())
    verdict, reason = verdict_of(gates, invalid, by)
    specscore = evaluation.specscore
    score = None if invalid or specscore is None else 0.0 if verdict == "failed" else specscore
    return evaluation.model_copy(
        update={
            "limits": held,
            "memory": _memory(evaluation, held)[1] or evaluation.memory,
            "rule": by,
            "gates": gates,
            "verdict": verdict,
            "reason": reason,
            "score": score,
        }
    )


def gates_of_record(evaluation: Evaluation, limits: Limits) -> dict[str, Gate]:
    """The gates from the recorded figures, in the order of the design."""
    look = evaluation.looks.look if evaluation.looks else None
    judged: dict[str, Gate | None] = {
        "memory": _memory(evaluation, limits)[0],
        "fidelity": _fidelity(evaluation, limits),
        "likelihood": _likelihood(evaluation, limits, level_at(look)),
        "argmax": _argmax(evaluation, limits, level_at(look)),
        "agreement": _agreement(evaluation, limits),
        "lengths": _lengths(evaluation, limits, level_at(look)),
    }
    if evaluation.support:
        judged["support"] = support.judge(evaluation.support, limits.support_bound, level_at(look))
    if evaluation.ranks:
        judged["ranks"] = ranks.judge(evaluation.ranks, limit_at(look, limits.rank_p))
    if evaluation.excess_test:
        judged["excess"] = excess.judge(evaluation.excess_test, limit_at(look, limits.excess_p))
    if evaluation.integrity:
        judged["integrity"] = integrity.judge(evaluation.integrity)
    if evaluation.text_test:
        judged["text_test"] = text_test.judge(evaluation.text_test, limit_at(look, limits.text_p))
    recorded = evaluation.gates or {}
    seeds = ("memory", "fidelity", "likelihood", "argmax", "agreement", "lengths")
    gates: dict[str, Gate] = {}
    for name in (*_ORDER, *(n for n in recorded if n not in _ORDER)):
        gate = judged.get(name)
        if gate is not None:
            gates[name] = gate
        elif name in recorded and name not in judged:
            gates[name] = recorded[name]
        elif name in seeds:
            missing = not_available("the record has no figure for this check")
            gates[name] = recorded.get(name, missing)
    return gates


def _memory(evaluation: Evaluation, limits: Limits) -> tuple[Gate | None, Any]:
    """A seed's record has no peak of stock's, but what its slack allowed over it."""
    figures, slack = evaluation.memory, evaluation.limits.memory_slack_mib
    if figures is None:
        return None, None
    if figures.stock_peak_mib is None and slack is not None:
        figures = figures.model_copy(update={"stock_peak_mib": figures.allowed_mib - slack})
    return memory.judge(figures, limits.memory_slack_mib)


def _fidelity(evaluation: Evaluation, limits: Limits) -> Gate | None:
    figure = evaluation.fidelity
    if figure is None:
        return None
    measured = f"the log-probabilities of fixed texts differ by {figure:.2g} nats in the mean"
    return fidelity.judge(figure, limits.fidelity_ceiling, measured)


def _likelihood(evaluation: Evaluation, limits: Limits, level: float) -> Gate | None:
    if evaluation.likelihood is None:
        return None
    return likelihood.judge(evaluation.likelihood, evaluation.excess_likelihood, limits, level)


def _argmax(evaluation: Evaluation, limits: Limits, level: float) -> Gate | None:
    if evaluation.argmax is None:
        return None
    return first_choice.judge(evaluation.argmax, evaluation.excess_argmax, limits, level)


def _agreement(evaluation: Evaluation, limits: Limits) -> Gate | None:
    if evaluation.agreement is not None:
        return agreement.judge(evaluation.agreement, limits.greedy_agreement_floor)
    figure, floor = evaluation.greedy_agreement, limits.greedy_agreement_floor
    if figure is None:
        return None
    measured = f"greedy replies follow stock's for {figure:.1%} of their length"
    if floor is None:
        return Gate(verdict="n/a", sentence=f"{measured}; this task sets no limit", figure=figure)
    return Gate(
        verdict="pass" if figure >= floor else "fail",
        sentence=f"{measured}; at least {floor:.1%} is asked",
        figure=figure,
        bound_low=floor,
    )


def _lengths(evaluation: Evaluation, limits: Limits, level: float) -> Gate | None:
    if not evaluation.lengths:
        return None
    return lengths.judge(
        evaluation.lengths,
        limits.length_margin,
        _tokens(evaluation),
        ends=evaluation.excess_end,
        ends_bound=limits.ends_bound,
        level=level,
    )


def _tokens(evaluation: Evaluation) -> dict[str, int]:
    """The candidate's output tokens by workload, where the record tells."""
    workloads: Mapping[str, Any] = evaluation.workloads or {}
    arm = ARMS[1]
    return {w: f.arms[arm].output_tokens for w, f in workloads.items() if arm in f.arms}
