"""One row a workload: the figures that the terminal and the page share."""

from dataclasses import dataclass

from loadjudge.record.evaluation import ArmFigures, Evaluation, KvFill, Latency, Pooled, Ratio
from loadjudge.record.values import Arm
from loadjudge.report import formats

DESCRIPTIONS = {
    "solo": "one lane",
    "team": "a few lanes",
    "busy": "KV cache nearly full",
}


@dataclass(frozen=True, slots=True)
class Row:
    """A workload's figures; None where the record has none."""

    workload: str
    ratio: Ratio
    pooled: Pooled | None
    control: Ratio | None  # A/A: stock against stock
    control_pooled: Pooled | None
    lanes: int | None
    arms: dict[str, ArmFigures]
    acceptance: float | None  # the candidate's
    stock_acceptance: float | None
    kv: KvFill | None = None  # of lanes that are to fill the KV cache

    @property
    def description(self) -> str:
        """What the workload is, in words."""
        known = DESCRIPTIONS.get(self.workload)
        if self.lanes is None:
            return known or "lanes not recorded"
        lanes = formats.plural(self.lanes, "lane")
        if self.kv is not None and not self.kv.reached:
            known = "KV cache not shown to be full"
        return f"{lanes}, {known}" if known and "lane" not in known else lanes

    def latency(self, arm: Arm, name: str) -> Latency | None:
        """Latency ``name`` (ttft, ttfot, itl, tpot, e2el, queue) of an arm."""
        figures = self.arms.get(arm)
        return figures.latencies.get(name) if figures else None


def rows_of(evaluation: Evaluation) -> tuple[Row, ...]:
    """The record's workloads in its own order."""
    return tuple(_row(evaluation, workload) for workload in evaluation.ratios)


def _row(evaluation: Evaluation, workload: str) -> Row:
    control = evaluation.control
    figures = (evaluation.workloads or {}).get(workload)
    arms = figures.arms if figures else {}
    candidate, stock = arms.get("candidate"), arms.get("stock")
    acceptance = (evaluation.acceptance or {}).get(workload)
    return Row(
        workload=workload,
        ratio=evaluation.ratios[workload],
        pooled=(evaluation.pooled or {}).get(workload),
        control=control.ratios.get(workload) if control else None,
        control_pooled=control.pooled.get(workload) if control else None,
        lanes=figures.lanes if figures else None,
        arms=arms,
        acceptance=candidate.acceptance if candidate and acceptance is None else acceptance,
        stock_acceptance=stock.acceptance if stock else None,
        kv=figures.kv if figures else None,
    )
