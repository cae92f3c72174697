"""The plots of a run as inline SVG: one question a plot, one small panel a workload."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from loadjudge.record.values import ARMS, PassRecord, RunRecord
from loadjudge.report import axes, distributions, series, timelines
from loadjudge.report.distributions import OFF_AXIS
from loadjudge.report.series import Curve

PANEL = (400, 250)  # px, where a plot has several panels
LONE = (640, 260)


@dataclass(frozen=True, slots=True)
class Panel:
    workload: str
    svg: str


@dataclass(frozen=True, slots=True)
class Plot:
    """One question asked of every workload."""

    key: str
    title: str
    note: str  # how to read it, and what is left out
    panels: tuple[Panel, ...]


def plots_of(run: RunRecord) -> tuple[Plot, ...]:
    """All plots that need the run's log, in the page's order; without passes none."""
    if not run.passes:
        return ()
    return (
        _distributions(
            run,
            "ttft",
            "Wait for the first token",
            "Share of turns whose first token, of any kind, had come by this time. The figures at "
            "the curves are medians. Every panel has the same axis.",
            "time to first token, ms (log)",
            "share of turns",
            _waits,
        ),
        _distributions(
            run,
            "itl",
            "Time between tokens",
            "Share of tokens that followed the one before within this time; k tokens that came "
            "together after a gap g count k times with g/k. Up to "
            f"{100 * OFF_AXIS:g}\u00a0% of either end lies off the axis.",
            "time per token, ms (log)",
            "share of tokens",
            series.token_gaps,
        ),
        _panels(
            run,
            "throughput",
            "Output over time",
            "Output tokens per second, one line a pass, all lanes and fillers together. Faint: "
            "outside the measured window (the ramp, and what still ran after it).",
            timelines.throughput,
        ),
        _panels(
            run,
            "lanes",
            "Turns in flight over time",
            "From sending a turn to its last token, as the client saw it, averaged over short "
            "intervals. A bar at the foot is the measured window of one pass.",
            timelines.lanes,
        ),
        _panels(
            run,
            "acceptance",
            "Tokens per arrival, by turn of the session",
            "How many tokens came with one read, on average. It stands in for tokens per verify "
            "step as far as a client can see it: one read can carry several steps.",
            timelines.acceptance,
        ),
    )


def _waits(passes: Sequence[PassRecord]) -> Curve:
    values = series.first_token_times(passes)
    return values, np.ones(len(values))


def _size(run: RunRecord) -> tuple[int, int]:
    return PANEL if len(run.workloads) > 1 else LONE


def _panels(run: RunRecord, key: str, title: str, note: str, draw: timelines.Draw) -> Plot:
    panels: list[Panel] = []
    for number, workload in enumerate(run.workloads):
        with axes.drawing(*_size(run)) as (figure, ax):
            said = draw(ax, {arm: run.of(workload, arm) for arm in ARMS})
            text = axes.to_svg(figure, f"{key}{number}", f"{title}, {workload}. {said}")
        panels.append(Panel(workload, text))
    return Plot(key, title, note, tuple(panels))


def _distributions(
    run: RunRecord,
    key: str,
    title: str,
    note: str,
    unit: str,
    share_of: str,
    sample: Callable[[Sequence[PassRecord]], Curve],
) -> Plot:
    """Both arms' distributions, the same logarithmic axis in every panel."""
    samples = {
        workload: {arm: sample(run.of(workload, arm)) for arm in ARMS} for workload in run.workloads
    }
    limits = distributions.limits([c for arms in samples.values() for c in arms.values()])
    panels: list[Panel] = []
    for number, (workload, arms) in enumerate(samples.items()):
        with axes.drawing(*_size(run)) as (figure, ax):
            said = distributions.draw(ax, arms, limits, unit, share_of)
            text = axes.to_svg(figure, f"{key}{number}", f"{title}, {workload}. {said}")
        panels.append(Panel(workload, text))
    return Plot(key, title, note, tuple(panels))
