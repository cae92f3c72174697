"""A sweep's findings in words: shared by the terminal, the page and summaries. Pure."""

from loadjudge.record.values import Arm
from loadjudge.report import formats
from loadjudge.sweep.record import PointFigures, SweepRecord


def title(record: SweepRecord) -> str:
    return " and ".join(record.engines[arm] for arm in reversed(record.arms))


def name(record: SweepRecord, arm: Arm) -> str:
    """How an arm is called: by its role beside another, by its engine's name alone."""
    return arm if len(record.arms) > 1 else record.engines[arm]


def load(point: PointFigures) -> str:
    """A point's load: ``16 lanes``, ``24 lanes (busy)``, ``2 sessions/s``."""
    if point.rate is not None:
        return f"{point.rate:g} sessions/s"
    busy = " (busy)" if point.point == "busy" else ""
    return formats.plural(point.lanes or 0, "lane") + busy


def findings(record: SweepRecord) -> list[str]:
    """What the sweep found, a sentence each: search, knees, what is not to be trusted."""
    said = []
    if record.died:
        said.append(f"The sweep ended early: {record.died}.")
    elif not record.complete:
        said.append("The sweep is not complete.")
    said += [searched(record, arm) for arm in record.search]
    said += [_knee(record, arm) for arm in record.knees]
    return said


def searched(record: SweepRecord, arm: Arm) -> str:
    """What a search found, with what is shown at 95 % and what is not."""
    result = record.search[arm]
    slos = formats.listed(str(slo) for slo in record.slos)
    who = name(record, arm)
    lanes = formats.plural(result.lanes or 0, "lane")
    match result.outcome:
        case "none keeps":
            shown = "" if result.shown_to_miss == result.misses else ", though that is not shown"
            return f"{who}: no number of lanes keeps {slos}; one lane misses it already{shown}."
        case "all keep":
            what = f"{who}: {lanes}, the most that was to be tried, keep {slos}"
        case "invalid":
            what = (
                f"{who}: {lanes} keep {slos}; at {result.misses} the measurement can't be trusted, "
                f"so the limit may lie higher"
            )
        case _:
            what = f"{who}: {lanes} keep {slos}, {result.misses} miss it"
    keeps, misses = result.shown_to_keep, result.shown_to_miss
    if keeps == result.lanes and misses == result.misses:
        return f"{what}; both are shown at 95 %." if misses else f"{what}; shown at 95 %."
    low = f"{keeps} lanes keep it" if keeps else "no number keeps it"
    high = f"{misses} miss it" if misses else "none misses it"
    return f"{what}. Shown at 95 %: {low}, {high}."


def _knee(record: SweepRecord, arm: Arm) -> str:
    knee = record.knees[arm]
    points = {p.point: load(p) for p in record.points}
    at = f"{name(record, arm)}: the knee is at {points[knee.point]}"
    if knee.at_end:
        at += ", the heaviest load tried, so it may lie beyond"
    if knee.alike:
        near = formats.listed(points[p] for p in knee.alike)
        at += f"; {near} can't be told from it"
    return f"{at}."


def doubts(record: SweepRecord) -> list[str]:
    """Points that can't be trusted, and notes on the others."""
    said = []
    for point in record.points:
        for arm, figures in point.arms.items():
            where = f"{load(point)}, {name(record, arm)}"
            said += [f"{where}: invalid: {reason}" for reason in figures.invalid]
            said += [f"{where}: {note}" for note in figures.notes]
    return said
