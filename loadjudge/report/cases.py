"""Verdicts as the cases of a test suite: what JUnit files and CI annotations are made of. Pure."""

from dataclasses import dataclass
from typing import Literal

from loadjudge.errors import Status
from loadjudge.record.evaluation import Evaluation
from loadjudge.report import formats
from loadjudge.report.checks import Check, checks_of
from loadjudge.report.summary import rows_of
from loadjudge.report.sweep.words import load, name, searched
from loadjudge.report.verdict import headline_of
from loadjudge.sweep.record import SweepRecord

Outcome = Literal["passed", "failed", "inconclusive", "error", "skipped"]


@dataclass(frozen=True, slots=True)
class Case:
    """One thing that was to be shown, and what came of it."""

    name: str
    outcome: Outcome
    message: str = ""


@dataclass(frozen=True, slots=True)
class Suite:
    """All cases of one run. ``figures`` are facts beside them, by name."""

    name: str
    cases: tuple[Case, ...]
    figures: dict[str, str]

    def count(self, *outcomes: Outcome) -> int:
        return sum(case.outcome in outcomes for case in self.cases)


def evaluation_suite(evaluation: Evaluation) -> Suite:
    """A case for the run's validity and one for each gate.

    They pass and fail as the run's verdict does: under the rule ``reject`` a gate that is undecided
    lets pass, under ``decide`` it doesn't, nor does one that the task limits and that can't be had.
    """
    invalid = evaluation.invalid or []
    cases = [Case("the run can be trusted", "error" if invalid else "passed", "; ".join(invalid))]
    cases += [_gate(check, evaluation.rule == "decide") for check in checks_of(evaluation)]
    figures = {"verdict": headline_of(evaluation).word}
    if evaluation.specscore is not None:
        figures["specscore"] = formats.score(evaluation.specscore)
    for row in rows_of(evaluation):
        figures[f"speedup {row.workload}"] = formats.times(row.ratio.ratio)
    return Suite(_name(evaluation), tuple(cases), figures)


def _name(evaluation: Evaluation) -> str:
    engines = (evaluation.run or {}).get("engines", {})
    names = [engines[arm]["name"] for arm in ("candidate", "stock") if arm in engines]
    return " against ".join(names) or "loadjudge"


def _gate(check: Check, decide: bool) -> Case:
    measured = "" if check.measured == "–" else f" ({check.measured}; limit {check.limit})"
    said = check.sentence + measured
    match check.verdict:
        case "fail":
            return Case(check.title, "failed", said)
        case "inconclusive":
            return Case(check.title, "inconclusive" if decide else "passed", said)
        case "n/a":
            asked = decide and check.gate.asked
            return Case(check.title, "inconclusive" if asked else "skipped", said)
        case _:
            return Case(check.title, "passed", said)


def sweep_suite(record: SweepRecord) -> Suite:
    """A case for the sweep's end, each arm at each point, and each search."""
    why = record.died or ("" if record.complete else "the sweep is not complete")
    cases = [Case("the sweep is complete", "error" if why else "passed", why)]
    for point in record.points:
        for arm, figures in point.arms.items():
            told = (
                f"{figures.total.value:,.1f} tokens/s of all, {figures.per_user.value:,.1f} a user"
            )
            cases.append(
                Case(
                    f"{load(point)}, {name(record, arm)}",
                    "passed" if figures.valid else "error",
                    told if figures.valid else "; ".join(figures.invalid),
                )
            )
    for arm, result in record.search.items():
        outcome: Outcome = "passed"
        if result.outcome in ("none keeps", "invalid"):
            outcome = "failed" if result.outcome == "none keeps" else "error"
        cases.append(Case(f"search, {name(record, arm)}", outcome, searched(record, arm)))
    figures_said = {
        f"knee {arm}": next(load(p) for p in record.points if p.point == knee.point)
        for arm, knee in record.knees.items()
    }
    return Suite("sweep", tuple(cases), figures_said)


def error_suite(sentence: str, status: Status) -> Suite:
    """A run that came to no record."""
    what = "interrupted" if status == Status.INTERRUPTED else "the run"
    return Suite("loadjudge", (Case(what, "error", sentence),), {"status": str(int(status))})
