"""What a record says in the end: a word, a sentence, and why. Pure functions of the record."""

from dataclasses import dataclass

from loadjudge.record.evaluation import Evaluation, RunVerdict
from loadjudge.report import formats
from loadjudge.report.checks import Check, checks_of

WORDS: dict[RunVerdict, str] = {
    "passed": "Passed",
    "failed": "Failed",
    "inconclusive": "Inconclusive",
    "invalid": "Invalid",
}


@dataclass(frozen=True, slots=True)
class Headline:
    """``verdict`` is None where a record carries no score and no reason."""

    verdict: RunVerdict | None
    word: str
    sentence: str
    reasons: tuple[str, ...]
    speed: str  # what the SpecScore says about speed; empty where it can't be trusted


def headline_of(evaluation: Evaluation) -> Headline:
    """The verdict of a record in words, for records of ours and for seed records."""
    verdict = verdict_of(evaluation)
    checks = checks_of(evaluation)
    return Headline(
        verdict=verdict,
        word=WORDS[verdict] if verdict else "Not judged",
        sentence=_sentence(verdict, checks),
        reasons=_reasons(evaluation, verdict, checks),
        speed="" if verdict == "invalid" else _speed(evaluation),
    )


def verdict_of(evaluation: Evaluation) -> RunVerdict | None:
    """The record's own verdict; a seed record has none, so its reason and its score tell."""
    if evaluation.verdict is not None:
        return evaluation.verdict
    if evaluation.reason is not None:
        return "failed"
    return "passed" if evaluation.score is not None else None


def big_score(evaluation: Evaluation) -> tuple[str, str]:
    """The score as large as it is printed, and what has to be said under it."""
    geometric = "geometric mean of the workloads' speedups"
    speed = formats.score(evaluation.specscore, "no figure")
    match verdict_of(evaluation):
        case "failed":
            return "0", f"a gate failed; by speed alone it would be {speed}"
        case "invalid":
            return "none", f"not scored; the speed as measured, {speed}, can't be trusted"
        case "inconclusive":
            return speed, f"{geometric}; not final, for the gates are undecided"
        case _:
            return formats.score(evaluation.specscore, "none"), geometric


def _sentence(verdict: RunVerdict | None, checks: tuple[Check, ...]) -> str:
    if verdict == "passed":
        undecided = [c.title for c in checks if c.verdict == "inconclusive"]
        if undecided:
            return (
                f"No gate failed. {formats.listed(undecided).capitalize()} "
                f"{'is' if len(undecided) == 1 else 'are'} undecided, which the rule reject lets "
                f"pass."
            )
        untested = sum(c.verdict == "n/a" for c in checks)
        but = f"; {formats.plural(untested, 'check')} had nothing to decide" if untested else ""
        return f"Every gate that applies was passed{but}."
    if verdict == "failed":
        failed = [c.title for c in checks if c.verdict == "fail"]
        if not failed:
            return "The record says that a gate failed, so the score is 0."
        return f"The candidate fails on {formats.listed(failed)}, so the score is 0."
    if verdict == "inconclusive":
        open_gates = [c.title for c in checks if c.verdict == "inconclusive"]
        what = formats.listed(open_gates) or "at least one gate"
        return f"The run was too short to decide {what}. Undecided is not passed."
    if verdict == "invalid":
        return "The measurement can't be trusted, so there is no score."
    return "The record carries neither a score nor a reason."


def _reasons(
    evaluation: Evaluation, verdict: RunVerdict | None, checks: tuple[Check, ...]
) -> tuple[str, ...]:
    """Why the verdict isn't ``passed``, most telling first, none twice."""
    reasons = list(evaluation.invalid or ())
    if evaluation.reason is not None:
        reasons.append(evaluation.reason)
    wanted = {"failed": "fail", "inconclusive": "inconclusive"}.get(verdict or "")
    reasons += [c.sentence for c in checks if c.verdict == wanted]
    reasons += [
        f"{c.title.capitalize()}: about {formats.plural(c.missing_tokens, 'more token')} "
        "would decide it."
        for c in checks
        if c.verdict == wanted == "inconclusive"
        and c.missing_tokens is not None
        and "would decide it" not in c.sentence
    ]
    said: list[str] = []
    for reason in reasons:
        if not any(reason.rstrip(".").lower() in other.lower() for other in said):
            said.append(reason[:1].upper() + reason[1:])
    return tuple(said)


def _speed(evaluation: Evaluation) -> str:
    if evaluation.specscore is None:
        return "No SpecScore is recorded."
    interval = evaluation.specscore_interval
    change = f"{abs(evaluation.specscore - 1) * 100:.0f} %"
    way = "faster" if evaluation.specscore >= 1 else "slower"
    if interval is None:
        return f"About {change} {way} than stock; the record has no interval."
    if interval.low <= 1 <= interval.high:
        return "Not distinguishable from stock in speed: the interval contains 1."
    return f"{change} {way} than stock, beyond the run's own error."
