"""Whether a new run is slower than a base by more than is allowed: yes, no, or not decided. Pure.

Each figure is a speedup over stock from the same run, so a machine that is slower as a whole does
not show. SpecScore and every workload are held at once; their intervals are widened by Bonferroni,
so that together they hold at 95 %, and a regression is not found by looking often.
"""

import math
import re
from dataclasses import dataclass
from typing import Literal

from scipy import stats

from loadjudge.errors import JudgeError, Status
from loadjudge.record.evaluation import Evaluation
from loadjudge.report import formats
from loadjudge.report.cases import Case, Outcome, Suite
from loadjudge.report.checks import checks_of
from loadjudge.report.compare import Difference, differences_of
from loadjudge.report.verdict import verdict_of

Verdict = Literal["passed", "failed", "inconclusive", "invalid"]
_WORDS: dict[Verdict, str] = {
    "passed": "No regression",
    "failed": "Regression",
    "inconclusive": "Regression not ruled out",
    "invalid": "Not comparable",
}
_OUTCOMES: dict[Verdict, Outcome] = {
    "passed": "passed",
    "failed": "failed",
    "inconclusive": "inconclusive",
    "invalid": "error",
}
STATUS: dict[Verdict, Status] = {
    "passed": Status.PASSED,
    "failed": Status.FAILED,
    "inconclusive": Status.INCONCLUSIVE,
    "invalid": Status.RUN,
}


@dataclass(frozen=True, slots=True)
class RegressionFigure:
    """New over base with its simultaneous interval; None where it is not known."""

    name: str
    verdict: Verdict
    ratio: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Regression:
    """``allowed``: the share by which the new run may be slower. ``reasons``: most telling
    first."""

    verdict: Verdict
    allowed: float
    figures: tuple[RegressionFigure, ...]
    reasons: tuple[str, ...]

    @property
    def word(self) -> str:
        return _WORDS[self.verdict]

    @property
    def sentence(self) -> str:
        at_least = f"at most {100 * self.allowed:g} % slower"
        match self.verdict:
            case "passed":
                return f"Every speedup of the new run is shown to be {at_least} than the base's."
            case "failed":
                return f"The new run is not {at_least} than the base, or a gate fails in it anew."
            case "inconclusive":
                return f"The runs are too short to show that the new one is {at_least}."
            case _:
                return "A run that can't be trusted can't be compared."


def parse_share(text: str) -> float:
    """A share from ``5%`` or ``0.05``. Raises JudgeError (usage)."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(%?)", text.strip())
    share = float(match[1]) / (100 if match[2] else 1) if match else -1.0
    if not 0 <= share < 1:
        raise JudgeError(
            f"--max-regression takes a share below 1, as in 5% or 0.05; not {text!r}",
            Status.USAGE,
        )
    return share


def regression(base: Evaluation, new: Evaluation, allowed: float) -> Regression:
    """The verdict on ``new``: failed if a speedup is shown to have fallen by more than ``allowed``
    or a gate that passed in the base fails, passed if all are shown to have not."""
    for name, run in (("base", base), ("new", new)):
        if verdict_of(run) == "invalid":
            why = (run.invalid or ["no reason is recorded"])[0]
            return Regression("invalid", allowed, (), (f"the {name} run is invalid: {why}",))
    found = differences_of(base, new)
    held = {n: d for n, d in found.items() if d.a is not None or d.b is not None}
    figures = tuple(_figure(n, d, allowed, len(held)) for n, d in held.items())
    broken = _broken_gates(base, new)
    reasons = [*broken, *_reasons(figures, allowed)]
    verdicts = {figure.verdict for figure in figures}
    verdict: Verdict = "passed"
    if broken or "failed" in verdicts:
        verdict = "failed"
    elif not figures or "inconclusive" in verdicts:
        verdict = "inconclusive"
    return Regression(verdict, allowed, figures, tuple(reasons))


def _figure(name: str, found: Difference, allowed: float, held: int) -> RegressionFigure:
    label = "SpecScore" if name == "specscore" else name
    if found.ratio is None or found.low is None or found.high is None:
        return RegressionFigure(label, "inconclusive", found.ratio, None, None)
    # The recorded ends stand 1.96 standard errors from the ratio, on the log scale.
    wider = float(stats.norm.ppf(1 - 0.025 / held) / stats.norm.ppf(0.975))
    half = wider * math.log(found.high / found.low) / 2
    low, high = found.ratio * math.exp(-half), found.ratio * math.exp(half)
    verdict: Verdict = "inconclusive"
    if low >= 1 - allowed:
        verdict = "passed"
    elif high < 1 - allowed:
        verdict = "failed"
    return RegressionFigure(label, verdict, found.ratio, low, high)


def _broken_gates(base: Evaluation, new: Evaluation) -> list[str]:
    before = {check.name: check.verdict for check in checks_of(base)}
    return [
        f"{check.title} fails and did not in the base: {check.sentence}"
        for check in checks_of(new)
        if check.verdict == "fail" and before.get(check.name) != "fail"
    ]


def _reasons(figures: tuple[RegressionFigure, ...], allowed: float) -> list[str]:
    said = []
    for figure in figures:
        if figure.low is None or figure.high is None:
            said.append(f"{figure.name}: a run has no figure or no interval to compare")
        elif figure.verdict != "passed":
            said.append(
                f"{figure.name}: {formats.times(figure.ratio)} the base's ({figure.low:.3f} to "
                f"{figure.high:.3f}; at least {1 - allowed:g} is allowed)"
            )
    return said


def regression_suite(found: Regression) -> Suite:
    """A case for each figure, and one for what stands beside them."""
    broken = [
        r for r in found.reasons if not any(r.startswith(f.name + ":") for f in found.figures)
    ]
    cases = [
        Case(
            f"{figure.name} against the base",
            _OUTCOMES[figure.verdict],
            next((r for r in found.reasons if r.startswith(f"{figure.name}:")), ""),
        )
        for figure in found.figures
    ]
    outcome: Outcome = "passed"
    if broken:
        outcome = "error" if found.verdict == "invalid" else "failed"
    cases.append(Case("gates against the base", outcome, "; ".join(broken)))
    return Suite("comparison", tuple(cases), {"verdict": found.word})
