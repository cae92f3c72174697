"""A run's record so far, as values for the exporter: the record's own figures, no others."""

from dataclasses import replace

from loadjudge.evaluate import evaluate
from loadjudge.metrics.sweeping import sweep_standings
from loadjudge.metrics.values import (
    Client,
    GateState,
    Rates,
    Speculation,
    Speedup,
    Value,
    Verdict,
)
from loadjudge.record.evaluation import Control, Evaluation, Pooled, SpecScoreInterval
from loadjudge.record.values import RunRecord
from loadjudge.sweep.options import is_sweep

ALL = "all"  # workloads together: SpecScore


def standings(run: RunRecord) -> list[Value]:
    """Speedups, A/A, gates and verdict of a run as if it ended here; a sweep's figures by point."""
    if not run.passes:
        return []
    if is_sweep(run.header):
        return sweep_standings(run)
    evaluation = evaluate(run if run.died else replace(run, complete=True))
    values: list[Value] = [Verdict(evaluation.verdict)]
    values += _speedups(evaluation.pooled or {}, evaluation.specscore_interval, control=False)
    control: Control | None = evaluation.control
    if control is not None:
        values += _speedups(control.pooled, control.specscore, control=True)
    return values + _gates(evaluation) + _workloads(evaluation)


def _speedups(
    pooled: dict[str, Pooled], together: SpecScoreInterval | None, *, control: bool
) -> list[Value]:
    values: list[Value] = [Speedup(w, p.ratio, p.low, p.high, control) for w, p in pooled.items()]
    if together is not None:
        values.append(Speedup(ALL, together.specscore, together.low, together.high, control))
    return values


def _gates(evaluation: Evaluation) -> list[Value]:
    return [
        GateState(
            name,
            gate.verdict,
            figure=gate.figure,
            low=gate.low,
            high=gate.high,
            bound_low=gate.bound_low,
            bound_high=gate.bound_high,
        )
        for name, gate in (evaluation.gates or {}).items()
    ]


def _workloads(evaluation: Evaluation) -> list[Value]:
    workloads = evaluation.workloads or {}
    values: list[Value] = []
    for workload, its in workloads.items():
        for arm, figures in its.arms.items():
            values += [
                Rates(arm, workload, figures.tokens_per_s, figures.tokens_per_s_per_lane),
                Speculation(arm, workload, tokens_per_step=figures.acceptance),
            ]
    lag = max((its.lag_share for its in workloads.values()), default=None)
    return [*values, Client(lag_share=lag)]
