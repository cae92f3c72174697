"""How a run went: output and turns in flight over time, tokens per arrival over turns."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal

import numpy as np

from loadjudge.record.values import ARMS, Arm, PassRecord
from loadjudge.report import formats, series
from loadjudge.report.axes import COLOURS, LINES, MUTED, name_y
from loadjudge.report.series import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Arms = Mapping[Arm, tuple[PassRecord, ...]]
EXACT_CHANGES = 60  # lines with more changes are drawn as means over short intervals
Draw = Callable[["Axes", Arms], str]  # returns what the plot says in words


def throughput(axes: "Axes", arms: Arms) -> str:
    """Output tokens per second of every pass."""
    top = 0.0
    for arm in ARMS:
        for record in arms[arm]:
            edges, rates = series.throughput(record)
            if len(rates):
                top = max(top, float(rates.max()))
                middles = (edges[:-1] + edges[1:]) / 2
                _line(axes, record, middles, rates, arm, "default")
    axes.set_ylim(0, 1.08 * top or 1)
    _over_time(axes)
    name_y(axes, "output tokens per second")
    return f"{_passes(arms)}; at most {formats.count(top)} tokens per second."


def lanes(axes: "Axes", arms: Arms) -> str:
    """Turns in flight of every pass, and below the axis the windows that were measured."""
    passes = [(arm, record) for arm in ARMS for record in arms[arm]]
    top = max((record.lanes for _, record in passes), default=1)
    for arm, record in passes:
        times, counts = series.in_flight(record)
        if not len(times):
            continue
        top = max(top, int(counts.max()))
        if len(times) <= EXACT_CHANGES:
            _line(axes, record, times, counts, arm, "steps-post")
        else:
            edges, means = series.step_means(times, counts)
            _line(axes, record, (edges[:-1] + edges[1:]) / 2, means, arm, "default")
    height = 0.055 * top
    for row, (arm, record) in enumerate(passes):
        y = -height * (row + 1.2)
        window = [record.open_s, record.close_s]
        axes.plot(window, [y, y], color=COLOURS[arm], lw=2.2, solid_capstyle="butt")
    axes.axhline(0, color=MUTED, lw=0.8)
    axes.set_ylim(-height * (len(passes) + 0.8), 1.1 * top)
    axes.set_yticks(_whole_ticks(top))
    _over_time(axes)
    name_y(axes, "turns in flight")
    return f"{_passes(arms)}; at most {formats.plural(top, 'turn')} at once."


def acceptance(axes: "Axes", arms: Arms) -> str:
    """Mean tokens per arrival at each turn of the session."""
    from matplotlib.ticker import MaxNLocator

    said: list[str] = []
    low, high = 1.0, 1.0
    for arm in ARMS:
        index, mean, turns = series.tokens_by_turn(arms[arm])
        if not len(index):
            continue
        width, dash = LINES[arm]
        axes.plot(index + 1, mean, color=COLOURS[arm], lw=width, ls=dash, marker="o", ms=3.5)
        axes.annotate(
            arm,
            (float(index[-1] + 1), float(mean[-1 - len(mean) // 3 :].max())),
            xytext=(4, 7),
            textcoords="offset points",
            ha="right",
            color=COLOURS[arm],
            weight="bold",
        )
        low, high = min(low, float(mean.min())), max(high, float(mean.max()))
        said.append(
            f"{arm} {mean.min():.2f} to {mean.max():.2f} over "
            f"{formats.plural(float(turns.sum()), 'turn')}"
        )
    room = max(high - low, 0.2)
    axes.set_ylim(low - 0.12 * room, high + 0.2 * room)
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.set_xlabel("turn of the session")
    name_y(axes, "tokens per arrival")
    return f"{', '.join(said) or 'Nothing was recorded'}."


def _line(
    axes: "Axes",
    record: PassRecord,
    x: Floats,
    y: Floats,
    arm: Arm,
    drawn: Literal["default", "steps-post"],
) -> None:
    """One pass's line, faint outside the measured window."""
    width, dash = LINES[arm]
    colour = COLOURS[arm]
    inside = (x >= record.open_s) & (x <= record.close_s)
    for side in (x < record.open_s, x > record.close_s):
        joined = side | (inside & (np.roll(side, 1) | np.roll(side, -1)))
        shown = np.where(joined, y, np.nan)
        axes.plot(x, shown, color=colour, lw=0.9, alpha=0.35, drawstyle=drawn)
    shown = np.where(inside, y, np.nan)
    axes.plot(x, shown, color=colour, lw=0.8 * width, ls=dash, alpha=0.9, drawstyle=drawn)


def _over_time(axes: "Axes") -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axes.set_xlabel("time from the start of the pass, s")


def _whole_ticks(top: int) -> list[int]:
    step = next((s for s in (1, 2, 5, 10, 20, 50, 100, 200, 500) if top <= 5 * s), top)
    return list(range(0, top + 1, step))


def _passes(arms: Arms) -> str:
    stock = formats.plural(len(arms["stock"]), "pass", "passes")
    return f"{stock} of stock, {len(arms['candidate'])} of the candidate"
