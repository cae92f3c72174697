"""Two runs beside each other, and whether they differ beyond their intervals.

Each interval's half width on the log scale stands for 1.96 standard errors, so the difference of
two runs' logs has the half width √(h_a² + h_b²). Where that interval contains 0, the runs are not
distinguishable. Records without intervals can't be told apart at all.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from loadjudge.record.evaluation import Evaluation, Interval
from loadjudge.report import formats
from loadjudge.report.checks import Check, checks_of
from loadjudge.report.verdict import verdict_of


@dataclass(frozen=True, slots=True)
class Difference:
    """Run b over run a. ``distinguishable`` is None where an interval is missing."""

    a: float | None
    b: float | None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    distinguishable: bool | None = None

    @property
    def words(self) -> str:
        """What the difference comes to."""
        if self.ratio is None:
            return "no figure to compare"
        if self.distinguishable is None:
            return "no interval recorded"
        if not self.distinguishable:
            return "not distinguishable"
        return "b is faster" if self.ratio > 1 else "b is slower"


def difference(
    a: float | None, b: float | None, interval_a: Interval | None, interval_b: Interval | None
) -> Difference:
    """Compare two ratios, each with its 95 % interval."""
    if a is None or b is None or a <= 0 or b <= 0:
        return Difference(a, b)
    halves = [_half_width(interval) for interval in (interval_a, interval_b)]
    if any(half is None for half in halves):
        return Difference(a, b, ratio=b / a)
    middle, half = math.log(b / a), math.hypot(*(h for h in halves if h is not None))
    low, high = math.exp(middle - half), math.exp(middle + half)
    return Difference(a, b, b / a, low, high, distinguishable=not low <= 1 <= high)


def _half_width(interval: Interval | None) -> float | None:
    if interval is None or interval.low <= 0 or interval.high <= 0:
        return None
    return math.log(interval.high / interval.low) / 2


def differences_of(a: Evaluation, b: Evaluation) -> dict[str, Difference]:
    """``specscore`` and every workload of either run.

    A workload is compared by its pooled ratio, which the interval is for, where both runs have
    one; else by the median of its passes.
    """
    found = {
        "specscore": difference(
            a.specscore, b.specscore, a.specscore_interval, b.specscore_interval
        )
    }
    for workload in dict.fromkeys([*a.ratios, *b.ratios]):
        pooled = [(e.pooled or {}).get(workload) for e in (a, b)]
        medians = [e.ratios[workload].ratio if workload in e.ratios else None for e in (a, b)]
        both = all(p is not None for p in pooled)
        ratios = [p.ratio for p in pooled if p is not None] if both else medians
        found[workload] = difference(ratios[0], ratios[1], pooled[0], pooled[1])
    return found


def render_compare_json(a: Evaluation, b: Evaluation) -> dict[str, Any]:
    """The comparison as plain values: verdicts, specscore, workloads and gates."""
    specscore, *workloads = differences_of(a, b).items()
    return {
        "verdict": {"a": verdict_of(a), "b": verdict_of(b)},
        "specscore": _plain(specscore[1]),
        "workloads": {name: _plain(found) for name, found in workloads},
        "gates": {
            name: {"a": _gate(first), "b": _gate(second), "changed": _changed(first, second)}
            for name, (first, second) in _gates(a, b).items()
        },
    }


def render_compare(
    a: Evaluation,
    b: Evaluation,
    console: Console,
    names: tuple[str, str] = ("a", "b"),
) -> None:
    """Print run ``b`` against run ``a``. ``names`` say which is which above the tables."""
    for letter, name, run in zip("ab", names, (a, b), strict=True):
        known = "" if name == letter else f"{name}, "
        console.print(Text(f"{letter}: {known}{verdict_of(run) or 'not judged'}"), soft_wrap=True)
    console.print()
    speed = _table(console, "", "a", "b", "b over a", "95 % interval", "")
    for name, found in differences_of(a, b).items():
        figure = formats.score if name == "specscore" else formats.times
        interval = (
            formats.MISSING
            if found.low is None or found.high is None
            else formats.span(Interval(low=found.low, high=found.high))
        )
        label = "SpecScore" if name == "specscore" else name
        ratio = formats.times(found.ratio, "–")
        speed.add_row(label, figure(found.a), figure(found.b), ratio, interval, found.words)
    console.print(speed)
    console.print()
    gates = _table(console, "gate", "a", "b", "")
    for first, second in _gates(a, b).values():
        known_check = first or second
        gates.add_row(
            known_check.title if known_check else "",
            _said(first),
            _said(second),
            "changed" if _changed(first, second) else "",
        )
    console.print(gates)
    console.print()
    console.print(
        Text(
            "Intervals of b over a take each run's interval as normal on the log scale; "
            "not distinguishable means that theirs contains 1.",
            style="dim",
        )
    )


def _plain(found: Difference) -> dict[str, Any]:
    return {**asdict(found), "words": found.words}


def _gates(a: Evaluation, b: Evaluation) -> dict[str, tuple[Check | None, Check | None]]:
    first, second = ({c.name: c for c in checks_of(e)} for e in (a, b))
    return {name: (first.get(name), second.get(name)) for name in {**first, **second}}


def _gate(check: Check | None) -> dict[str, Any] | None:
    if check is None:
        return None
    gate = check.gate
    return {"verdict": gate.verdict, "figure": gate.figure, "low": gate.low, "high": gate.high}


def _changed(first: Check | None, second: Check | None) -> bool:
    return (first and first.verdict) != (second and second.verdict)


def _said(check: Check | None) -> Text:
    if check is None:
        return Text(formats.MISSING)
    figure, _, interval = check.measured.partition(" (")
    text = Text(f"{check.verdict}, {figure}" if figure != "–" else check.verdict)
    return text.append(f"\n({interval}") if interval else text


def _table(console: Console, *columns: str) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD if console.is_terminal else None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        show_edge=False,
    )
    for column in columns:
        table.add_column(column, no_wrap=column in ("a", "b", "b over a", "95 % interval"))
    return table
