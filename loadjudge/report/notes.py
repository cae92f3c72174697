"""What a reader has to know beside the figures, as one sentence each."""

from collections.abc import Iterator

from loadjudge.record.evaluation import ArmFigures, Evaluation
from loadjudge.record.values import ARMS
from loadjudge.report import formats
from loadjudge.report.checks import TITLES


def notes_of(evaluation: Evaluation) -> list[str]:
    """The record's own notes, then unknown figures, sources of counts, repairs and errors."""
    notes = list(evaluation.notes or ())
    notes += [
        f"{TITLES.get(what, what.replace('_', ' '))} could not be had: {why}"
        for what, why in (evaluation.unavailable or {}).items()
    ]
    workloads = evaluation.workloads or {}
    for arm in ARMS:
        arms = [figures.arms[arm] for figures in workloads.values() if arm in figures.arms]
        sources = dict.fromkeys(source for own in arms for source in own.count_sources)
        if sources:
            notes.append(f"tokens of {arm} are counted by {formats.listed(sources)}")
    for workload, figures in workloads.items():
        for name, own in figures.arms.items():
            said = list(_events(own))
            if said:
                notes.append(f"{workload}, {name}: {', '.join(said)}")
    if evaluation.workloads is None:
        notes.append("lanes, latencies, token counts and errors are not recorded")
    if evaluation.rule is None:
        notes.append("the record names no rule; its gates are read by the rule reject")
    return notes


def _events(own: ArmFigures) -> Iterator[str]:
    """What happened to an arm's turns that should be known, failures first."""
    if own.failed_turns:
        kinds = ", ".join(f"{kind} {formats.count(n)}" for kind, n in own.errors.items())
        failed = formats.plural(own.failed_turns, "turn")
        yield f"{failed} failed{f' ({kinds})' if kinds else ''}"
    if own.cut_at_max_tokens:
        yield f"{formats.plural(own.cut_at_max_tokens, 'reply', 'replies')} cut at max_tokens"
    if own.converted_results:
        yield f"{formats.plural(own.converted_results, 'converted tool result')}"
    if own.repaired_calls:
        yield f"{formats.plural(own.repaired_calls, 'repaired call')}"
    if own.resends:
        yield f"{formats.plural(own.resends, 'request')} sent again"
