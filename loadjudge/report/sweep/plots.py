"""The plots of a sweep as inline SVG: throughput against speed for a user, latencies over load."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from loadjudge.record.values import Arm
from loadjudge.report import formats
from loadjudge.report.axes import (
    COLOURS,
    INK,
    LINES,
    MUTED,
    PAPER,
    drawing,
    log_axis,
    name_y,
    to_svg,
)
from loadjudge.report.sweep.words import load, name
from loadjudge.sweep.record import ArmPoint, Estimate, PointFigures, SweepRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE = (400, 290)  # px


@dataclass(frozen=True, slots=True)
class SweepPlot:
    key: str
    title: str
    note: str
    svg: str


def sweep_plots(record: SweepRecord) -> tuple[SweepPlot, ...]:
    """All plots of a sweep that has points, in the page's order."""
    if not record.points:
        return ()
    plots = [
        SweepPlot(
            "curve",
            "Throughput against speed for a user",
            "a point is a load, its number the lanes or sessions a second; up and to the right is "
            "better; the ring marks the knee, bars are 95 % intervals",
            _curve(record),
        )
    ]
    for key, metric, what in (
        ("ttft", "ttft", "Wait for the first token"),
        ("itl", "itl", "Time between tokens"),
    ):
        plots.append(
            SweepPlot(
                key,
                what,
                "filled: the median; open: p99; bars are 95 % intervals over sessions"
                + ("; dotted: the objective" if _limits(record, metric) else ""),
                _latency(record, metric, what),
            )
        )
    if record.goodput_limits_ms:
        plots.append(
            SweepPlot(
                "goodput",
                "Goodput",
                "turns a second that kept "
                + formats.listed(
                    f"{m.upper()} ≤ {v:g} ms" for m, v in record.goodput_limits_ms.items()
                ),
                _over_load(record, "goodput", "turns a second", lambda p: p.goodput),
            )
        )
    if any(p.speedup for p in record.points) and len(record.points) > 1:
        plots.append(
            SweepPlot(
                "speedup",
                "Speedup",
                "candidate over stock, tokens a second of a user, with 95 % intervals",
                _speedup(record),
            )
        )
    return tuple(plots)


Shown = list[tuple[PointFigures, ArmPoint]]


def _line(record: SweepRecord, arm: Arm) -> tuple[float, str]:
    """Width and dash: dashes tell two arms apart; one alone is solid."""
    return LINES[arm] if len(record.arms) > 1 else LINES["candidate"]


def _shown(record: SweepRecord, arm: Arm) -> Shown:
    return [(p, p.arms[arm]) for p in record.points if arm in p.arms]


def _curve(record: SweepRecord) -> str:
    said = []
    with drawing(*SIZE, left=56) as (figure, axes):
        for arm in record.arms:
            shown = [(p, a) for p, a in _shown(record, arm) if a.per_user.value]
            x = [a.per_user.value for _, a in shown]
            y = [a.total.value for _, a in shown]
            width, dash = _line(record, arm)
            axes.plot(x, y, color=COLOURS[arm], lw=width, ls=dash)
            for point, figures in shown:
                _bars(axes, arm, figures)
                _dot(axes, arm, figures.per_user.value, figures.total.value, full=figures.valid)
                axes.annotate(
                    f"{point.rate:g}" if point.rate is not None else str(point.lanes),
                    (figures.per_user.value, figures.total.value),
                    xytext=(6, 5),
                    textcoords="offset points",
                    color=COLOURS[arm],
                )
            knee = record.knees.get(arm)
            for point, figures in shown:
                if knee is not None and knee.point == point.point:
                    axes.plot(
                        [figures.per_user.value], [figures.total.value],
                        ls="", marker="o", ms=13, mfc="none", mec=INK, mew=1.3,
                    )  # fmt: skip
            said += [
                f"{name(record, arm)} at {load(p)}: {a.per_user.value:.1f} and {a.total.value:.0f}"
                for p, a in shown
            ]
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.margins(x=0.1, y=0.12)
        axes.autoscale(enable=True, tight=False)
        axes.set_xlim(0, axes.get_xlim()[1])
        axes.set_ylim(0, axes.get_ylim()[1])
        _plain_numbers(axes)
        axes.set_xlabel("output tokens/s of a user")
        name_y(axes, "output tokens/s of all")
        return to_svg(figure, "curve", f"Tokens a second of a user and of all. {'; '.join(said)}.")


def _bars(axes: "Axes", arm: Arm, figures: ArmPoint) -> None:
    x, y = figures.per_user, figures.total
    if np.isfinite([x.low, x.high, y.low, y.high]).all():
        style = {"color": COLOURS[arm], "lw": 1.0, "alpha": 0.6}
        axes.plot([x.low, x.high], [y.value, y.value], **style)  # type: ignore[arg-type]
        axes.plot([x.value, x.value], [y.low, y.high], **style)  # type: ignore[arg-type]


def _dot(axes: "Axes", arm: Arm, x: float, y: float, *, full: bool) -> None:
    face = COLOURS[arm] if full else PAPER
    axes.plot([x], [y], ls="", marker="o", ms=5.5, mfc=face, mec=COLOURS[arm], mew=1.3)


def _latency(record: SweepRecord, metric: str, what: str) -> str:
    said = []
    with drawing(*SIZE, left=56) as (figure, axes):
        _load_axis(axes, record)
        axes.set_yscale("log")
        for arm in record.arms:
            width, dash = _line(record, arm)
            for quantile in ("p50", "p99"):
                places, values = [], []
                for point, figures in _shown(record, arm):
                    latency = figures.figures.latencies.get(metric)
                    if latency is None:
                        continue
                    q = getattr(latency, quantile)
                    x = _place(point)
                    places.append(x)
                    values.append(1e3 * q.value)
                    axes.plot(
                        [x, x], [1e3 * q.low, 1e3 * q.high], color=COLOURS[arm], lw=1.0, alpha=0.6
                    )
                    _dot(axes, arm, x, 1e3 * q.value, full=quantile == "p50" and figures.valid)
                    said.append(
                        f"{name(record, arm)} {quantile} at {load(point)} {formats.millis(q.value)}"
                    )
                thin = 1.0 if quantile == "p50" else 0.6
                axes.plot(places, values, color=COLOURS[arm], lw=width * thin, ls=dash, alpha=0.9)
        for limit in _limits(record, metric):
            axes.axhline(limit, color=INK, lw=1.2, ls=":")
        _log_ticks(axes)
        name_y(axes, "ms (log)")
        return to_svg(figure, metric, f"{what} over load. {'; '.join(said)}.")


def _limits(record: SweepRecord, metric: str) -> list[float]:
    return [slo.limit_ms for slo in record.slos if slo.metric == metric]


def _over_load(
    record: SweepRecord, key: str, unit: str, read: Callable[[ArmPoint], Estimate | None]
) -> str:
    said = []
    with drawing(*SIZE, left=56) as (figure, axes):
        _load_axis(axes, record)
        for arm in record.arms:
            found = [(p, a, e) for p, a in _shown(record, arm) if (e := read(a)) is not None]
            width, dash = _line(record, arm)
            axes.plot(
                [_place(p) for p, _, _ in found], [e.value for _, _, e in found],
                color=COLOURS[arm], lw=width, ls=dash,
            )  # fmt: skip
            for point, figures, estimate in found:
                x = _place(point)
                axes.plot(
                    [x, x], [estimate.low, estimate.high], color=COLOURS[arm], lw=1.0, alpha=0.6
                )
                _dot(axes, arm, x, estimate.value, full=figures.valid)
                said.append(f"{name(record, arm)} at {load(point)} {estimate.value:.2f}")
        axes.set_ylim(0, axes.get_ylim()[1])
        name_y(axes, unit)
        return to_svg(figure, key, f"{unit} over load. {'; '.join(said)}.")


def _speedup(record: SweepRecord) -> str:
    said = []
    with drawing(*SIZE, left=56) as (figure, axes):
        _load_axis(axes, record)
        found = [(p, p.speedup) for p in record.points if p.speedup is not None]
        colour = COLOURS["candidate"]
        axes.plot([_place(p) for p, _ in found], [s.ratio for _, s in found], color=colour, lw=1.7)
        for point, speedup in found:
            x = _place(point)
            if np.isfinite([speedup.low, speedup.high]).all():
                axes.plot([x, x], [speedup.low, speedup.high], color=colour, lw=1.4, alpha=0.6)
            valid = all(a.valid for a in point.arms.values())
            _dot(axes, "candidate", x, speedup.ratio, full=valid)
            said.append(f"{load(point)} {speedup.ratio:.2f} times")
        axes.axhline(1, color=INK, lw=1)
        name_y(axes, "times stock's speed")
        return to_svg(figure, "speedup", f"Speedup over load: {'; '.join(said)}.")


def _place(point: PointFigures) -> float:
    return point.rate if point.rate is not None else float(point.lanes or 1)


def _load_axis(axes: "Axes", record: SweepRecord) -> None:
    """The load on a log axis, with a tick at each point as far as there is room."""
    from matplotlib.ticker import FixedLocator

    places = sorted({_place(p) for p in record.points})
    pad = 1.25
    log_axis(axes, places[0] / pad, places[-1] * pad)
    axes.xaxis.set_major_locator(FixedLocator(_thinned(places)))
    rates = any(p.rate is not None for p in record.points)
    axes.set_xlabel("sessions arriving a second (log)" if rates else "lanes (log)")


def _thinned(places: Sequence[float]) -> list[float]:
    """Ticks that leave room for their numbers on a log axis."""
    span = np.log(places[-1] / places[0]) or 1.0
    kept = [places[0]]
    for place in places[1:]:
        if np.log(place / kept[-1]) / span >= 0.07:
            kept.append(place)
    return kept


def _log_ticks(axes: "Axes") -> None:
    """Plain numbers on a logarithmic y axis."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    low, high = axes.get_ylim()
    decades = np.log10(high / low)
    steps = (1, 2, 5) if decades < 2.2 else (1, 3) if decades < 3.5 else (1,)
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    ticks = [t for p in powers for s in steps if low <= (t := s * 10.0**p) <= high]
    axes.yaxis.set_major_locator(FixedLocator(ticks))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.6g}"))
    axes.tick_params(axis="y", labelcolor=MUTED)


def _plain_numbers(axes: "Axes") -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
