"""The plot of speedups: passes, pooled ratio with its interval, and A/A, for each workload."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from loadjudge.record.evaluation import Pooled
from loadjudge.report.axes import (
    BAND,
    COLOURS,
    FOOT,
    INK,
    MUTED,
    PAPER,
    TOP,
    drawing,
    log_axis,
    to_svg,
)
from loadjudge.report.summary import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, ROW = 430, 56  # px
NAME_SIZE = 12
PASSES_BELOW = 0.2  # of a row's height, so that the pooled ratio hides none


def speedup_plot(rows: Sequence[Row]) -> str:
    """Inline SVG, a row a workload on one log axis; needs the record only, no log."""
    left = 20 + round(0.62 * NAME_SIZE * max(len(row.workload) for row in rows))
    with drawing(WIDTH, ROW * len(rows) + TOP + FOOT, min(left, WIDTH // 2)) as (figure, axes):
        low, high = _limits(rows)
        log_axis(axes, low, high, "×")
        axes.axvline(1, color=INK, lw=1)
        for number, row in enumerate(rows):
            y = -number
            _draw_control(axes, row, y, (low, high))
            if row.pooled is not None:
                interval = np.clip([row.pooled.low, row.pooled.high], low, high)
                axes.plot(interval, [y, y], color=COLOURS["candidate"], lw=2.6, alpha=0.55)
            axes.plot(
                row.ratio.passes,
                [y - PASSES_BELOW] * len(row.ratio.passes),
                ls="",
                marker="o",
                ms=6,
                mfc=PAPER,
                mec=COLOURS["candidate"],
                mew=1.4,
            )
            centre = row.ratio.ratio if row.pooled is None else row.pooled.ratio
            axes.plot([centre], [y], marker="D", ms=6.5, mfc=COLOURS["candidate"], mec=PAPER)
            axes.annotate(
                f"{centre:.2f}×",
                (centre, y),
                xytext=(0, 9),
                textcoords="offset points",
                ha="center",
                color=COLOURS["candidate"],
                weight="bold",
            )
        axes.set_ylim(-len(rows) + 0.45, 0.6)
        axes.set_yticks([-n for n in range(len(rows))], [row.workload for row in rows])
        axes.tick_params(axis="y", length=0, labelcolor=INK, labelsize=NAME_SIZE)
        axes.grid(visible=False, axis="y")
        axes.spines["left"].set_visible(False)
        axes.set_xlabel("speedup over stock (log)")
        return to_svg(figure, "speedups", _label(rows))


def _draw_control(axes: "Axes", row: Row, y: int, within: tuple[float, float]) -> None:
    """A/A: its interval as a band, its passes as ticks."""
    if row.control_pooled is not None:
        left, right = np.clip([row.control_pooled.low, row.control_pooled.high], *within)
        axes.fill_between([left, right], y - 0.27, y + 0.27, color=BAND, lw=0)
    if row.control is not None:
        marks = row.control.passes
        axes.plot(marks, [y] * len(marks), ls="", marker="|", ms=9, mec=MUTED, mew=1.2)


def _limits(rows: Sequence[Row]) -> tuple[float, float]:
    values = [1.0]
    for row in rows:
        values += [*row.ratio.passes, row.ratio.ratio]
        values += row.control.passes if row.control else []
        values += [*_ends(row.pooled), *_ends(row.control_pooled)]
    drawn = [v for v in values if 0 < v < math.inf]  # one session bounds nothing
    low, high = min(drawn), max(drawn)
    pad = max((high / low) ** 0.08, 1.05)
    return low / pad, high * pad


def _ends(pooled: Pooled | None) -> list[float]:
    return [pooled.low, pooled.high] if pooled else []


def _label(rows: Sequence[Row]) -> str:
    said = [
        f"{row.workload} {row.ratio.ratio:.2f} times"
        + (f", 95 % interval {row.pooled.low:.2f} to {row.pooled.high:.2f}" if row.pooled else "")
        for row in rows
    ]
    return f"Speedup of each pass and of all together: {'; '.join(said)}."
