"""All gates on one axis: each figure with its interval, scaled so that its limit lies at ±1."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from loadjudge.record.evaluation import Evaluation
from loadjudge.report import formats
from loadjudge.report.axes import (
    BAND,
    COLOURS,
    FOOT,
    INK,
    MUTED,
    PAPER,
    TOP,
    drawing,
    to_svg,
)
from loadjudge.report.checks import Check

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, ROW, LEFT = 620, 30, 190  # px
EDGE = 2.6  # in limits; what lies further out is drawn as an arrow
P_VALUES = ("ranks", "excess", "text_test")
_LEAST_P = 1e-12


@dataclass(frozen=True, slots=True)
class Scaled:
    """A gate in units of its limit; ``low`` and ``high`` are None where it has no interval."""

    check: Check
    figure: float
    low: float | None
    high: float | None
    two_sided: bool


def gate_plot(checks: Sequence[Check], evaluation: Evaluation) -> str | None:
    """Inline SVG; None where no gate has both a figure and a limit."""
    rows = [row for check in checks if (row := scaled(check, evaluation)) is not None]
    if not rows:
        return None
    with drawing(WIDTH, ROW * len(rows) + TOP + FOOT, LEFT) as (figure, axes):
        for number, row in enumerate(rows):
            _draw(axes, row, -number)
        axes.axvline(0, color=MUTED, lw=0.8)
        axes.set_xlim(-EDGE - 0.2, EDGE + 1.3)
        axes.set_ylim(-len(rows) + 0.4, 0.6)
        axes.set_yticks([-n for n in range(len(rows))], [row.check.title for row in rows])
        axes.set_xticks([-2, -1, 0, 1, 2], ["−2", "−1", "0", "1", "2"])
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.grid(visible=False, axis="y")
        axes.spines["left"].set_visible(False)
        axes.set_xlabel("in units of each gate's limit")
        return to_svg(figure, "gateplot", _label(rows))


def scaled(check: Check, evaluation: Evaluation) -> Scaled | None:
    """0 is no change at all, and ±1 the limit.

    Two-sided: from the middle of the limits. One-sided upwards: from zero, memory from stock's
    peak. Shares that must be reached: from 1 down. p-values: log p over the limit's.
    """
    gate, name = check.gate, check.name
    low, high = gate.bound_low, gate.bound_high
    if gate.figure is None or (low is None and high is None):
        return None
    start, unit = 0.0, 1.0
    two_sided = low is not None and high is not None
    if low is not None and high is not None:
        start, unit = (low + high) / 2, (high - low) / 2
    elif high is not None:
        if name == "memory" and evaluation.memory is not None:
            start = evaluation.memory.stock_peak_mib or 0.0
        unit = high - start
    elif low is not None and name in P_VALUES:
        logs = math.log(max(gate.figure, _LEAST_P)), math.log(max(low, _LEAST_P))
        return Scaled(check, logs[0] / logs[1] if logs[1] else 0.0, None, None, False)
    elif low is not None:
        start, unit = 1.0, low - 1.0
    ends = None if gate.low is None or gate.high is None else (gate.low, gate.high)
    if not unit:  # exact or not
        return Scaled(check, 0.0 if gate.figure == start else math.inf, None, None, two_sided)
    return Scaled(
        check,
        (gate.figure - start) / unit,
        None if ends is None else (ends[0] - start) / unit,
        None if ends is None else (ends[1] - start) / unit,
        two_sided,
    )


def _draw(axes: "Axes", row: Scaled, y: int) -> None:
    colour = COLOURS["candidate"]
    axes.fill_between([-1.0 if row.two_sided else 0.0, 1.0], y - 0.34, y + 0.34, color=BAND, lw=0)
    if row.low is not None and row.high is not None and row.low < EDGE and row.high > -EDGE:
        ends = [min(max(v, -EDGE), EDGE) for v in (row.low, row.high)]
        axes.plot(ends, [y, y], color=colour, lw=2.6, alpha=0.55, solid_capstyle="butt")
        for end, value, marker in ((ends[0], row.low, "<"), (ends[1], row.high, ">")):
            if end != value:
                axes.plot([end], [y], ls="", marker=marker, ms=6, mfc=colour, mec=colour)
    x = min(max(row.figure, -EDGE), EDGE)
    beyond = ">" if x < row.figure else "<" if x > row.figure else "o"
    axes.plot([x], [y], ls="", marker=beyond, ms=7, mfc=colour, mec=PAPER)
    verdict = row.check.verdict
    axes.annotate(
        verdict,
        (EDGE + 0.2, y),
        va="center",
        color=MUTED if verdict == "pass" else INK,
        weight="normal" if verdict == "pass" else "bold",
    )


def _label(rows: Sequence[Scaled]) -> str:
    said = [
        f"{row.check.title} {formats.signed(row.figure, 2)}"
        + (
            ""
            if row.low is None or row.high is None
            else f" ({formats.signed(row.low, 2)} to {formats.signed(row.high, 2)})"
        )
        + f", {row.check.verdict}"
        for row in rows
    ]
    return f"Every gate in units of its limit: {'; '.join(said)}."
