"""Distributions of a latency as the share of samples at or below each value."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from loadjudge.record.values import ARMS, Arm
from loadjudge.report import formats, series
from loadjudge.report.axes import COLOURS, LINES, log_axis, name_y
from loadjudge.report.series import Curve, Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OFF_AXIS = 0.002  # share of a distribution at either end that may lie off the axis
LEAST_MS = 1e-3  # a log axis has no place for zero, which tokens in one read have


def limits(curves: Iterable[Curve]) -> tuple[float, float]:
    """Limits in ms that hold all of the curves (seconds, weights) but their outermost ends."""
    ends = [
        (series.quantile(v, OFF_AXIS, w), series.quantile(v, 1 - OFF_AXIS, w))
        for v, w in curves
        if len(v)
    ]
    if not ends:
        return 1.0, 1000.0
    low = max(1e3 * min(low for low, _ in ends), LEAST_MS)
    high = max(1e3 * max(high for _, high in ends), low)
    pad = max((high / low) ** 0.07, 1.1)
    return low / pad, high * pad


def draw(
    axes: "Axes",
    arms: Mapping[Arm, Curve],
    within_ms: tuple[float, float],
    unit: str,
    share_of: str,
) -> str:
    """Both arms' curves with their medians; returns what they say in words."""
    log_axis(axes, *within_ms)
    axes.set_xlabel(unit)
    name_y(axes, share_of)
    axes.set_ylim(0, 1.02)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
    medians: dict[Arm, float] = {}
    for arm in ARMS:
        seconds, weights = arms[arm]
        if not len(seconds):
            continue
        ms = np.maximum(seconds * 1e3, LEAST_MS)
        x, y = series.ecdf(ms, weights)
        width, dash = LINES[arm]
        axes.step(*_closed(x, y, within_ms[1]), where="post", c=COLOURS[arm], lw=width, ls=dash)
        medians[arm] = series.quantile(ms, 0.5, weights)
    slower = max(medians, key=lambda arm: medians[arm], default=None)
    for arm, median in medians.items():
        right = arm == slower
        axes.annotate(
            formats.millis(median / 1e3),
            (median, 0.5),
            xytext=(7, -12) if right else (-7, 5),
            textcoords="offset points",
            ha="left" if right else "right",
            color=COLOURS[arm],
            weight="bold",
        )
    if not medians:
        return "Nothing was recorded."
    return f"Medians: {', '.join(f'{arm} {formats.millis(m / 1e3)}' for arm, m in medians.items())}"


def _closed(x: Floats, y: Floats, right: float) -> Curve:
    """The curve from its foot at 0 to the right edge of the axes at 1."""
    return np.concatenate([x[:1], x, [max(right, x[-1])]]), np.concatenate([[0.0], y, [1.0]])
