"""A sweep's record so far, as values for the exporter; its points are a run's workloads."""

from loadjudge.load.guard import lag_share
from loadjudge.metrics.values import Client, Rates, SloState, Speculation, Speedup, Value
from loadjudge.record.values import RunRecord
from loadjudge.sweep.figures import sweep_record
from loadjudge.sweep.record import ArmPoint


def sweep_standings(run: RunRecord) -> list[Value]:
    """Throughput, goodput, objectives and speedups of all points that have been played."""
    values: list[Value] = []
    for point in sweep_record(run).points:
        for arm, its in point.arms.items():
            values += _figures(arm, point.point, its)
        if point.speedup is not None:
            by = point.speedup
            values.append(Speedup(point.point, by.ratio, by.low, by.high))
    shares = [share for one in run.passes if (share := lag_share(one)) is not None]
    return [*values, Client(lag_share=max(shares, default=None))]


def _figures(arm: str, point: str, its: ArmPoint) -> list[Value]:
    goodput = None if its.goodput is None else its.goodput.value
    slos: list[Value] = [
        SloState(
            arm,
            point,
            f"{one.slo.metric}:{one.slo.stat}:{one.slo.limit_ms:g}",
            one.verdict,
            None if one.figure_ms is None else one.figure_ms / 1e3,
            one.slo.limit_ms / 1e3,
        )
        for one in its.slos
    ]
    return [
        Rates(arm, point, its.total.value, its.per_user.value, goodput),
        Speculation(arm, point, tokens_per_step=its.figures.acceptance),
        *slos,
    ]
