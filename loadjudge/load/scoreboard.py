"""What a run shows of itself while it goes: rates, speedups so far, time left."""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from statistics import median
from time import monotonic

from loadjudge.load.lanes import Progress
from loadjudge.load.live import ArmView, View, Watcher
from loadjudge.load.passes import Finished
from loadjudge.load.plan import PassPlan
from loadjudge.record.values import PassRecord

LOOK_S = 0.25


class Scoreboard:
    """Follows a run for a watcher. It reads; what it shows is not what is recorded."""

    def __init__(self, title: str, plan: Sequence[PassPlan], watcher: Watcher) -> None:
        self._plan = plan
        self._watcher = watcher
        self._began = monotonic()
        self._rates: dict[tuple[str, int, str], float] = {}  # tokens a lane second
        self._seconds: dict[PassPlan, float] = {}
        self._view = View(title, passes_planned=len(plan))

    def resume(self, passes: Sequence[PassRecord]) -> None:
        """Takes over what an earlier start of the run has finished."""
        for one in passes:
            done = [p for p in one.measured if p.outcome == "done"]
            lane_s = sum(p.lane_s for p in done)
            if lane_s:
                rate = sum(p.tokens for p in done) / lane_s
                self._rates[one.workload, one.number, one.arm] = rate
            self._arm(one.arm).passes += 1
        self._view.passes = len(passes)
        self._view.speedups = self._speedups()

    def replan(self, plan: Sequence[PassPlan]) -> None:
        """The run goes on for longer than was planned."""
        self._plan = plan
        self._view.passes_planned = len(plan)

    def phase(self, text: str) -> None:
        self._view.phase = text
        self._watcher.show(self._view)

    @contextlib.contextmanager
    def looking(self, plan: PassPlan | None, progress: Progress, lanes: int = 0) -> Iterator[None]:
        """Shows a pass as it goes."""
        if plan is not None:
            self._view.phase = f"{plan.workload}, pass {plan.number + 1} of {plan.arm}"
            self._view.workload, self._view.lanes = plan.workload, lanes
            arm = self._arm(plan.arm)
            arm.active, arm.number, arm.counters = True, plan.number, None
        began = monotonic()
        task = asyncio.create_task(self._look(plan, progress, began))
        try:
            yield
        finally:
            task.cancel()
            if plan is not None:
                self._seconds[plan] = monotonic() - began
                arm = self._arm(plan.arm)
                arm.active, arm.in_flight = False, 0

    async def _look(self, plan: PassPlan | None, progress: Progress, began: float) -> None:
        view = self._view
        while True:
            await asyncio.sleep(LOOK_S)
            view.elapsed_s = monotonic() - self._began
            view.left_s = self._left_s(plan, monotonic() - began)
            view.measured_done, view.measured = progress.measured_done, progress.measured
            view.turns = progress.turns
            if progress.probe is not None:
                view.lag_s, view.cpu = progress.probe.recent()
            if plan is not None:
                _fill(self._arm(plan.arm), progress, monotonic() - began)
            self._watcher.show(view)

    def finished(self, plan: PassPlan, finished: Finished, progress: Progress) -> None:
        """A pass is done: a line of its own, and the speedups so far."""
        rate = finished.tokens / finished.lane_s if finished.lane_s else 0.0
        self._rates[plan.workload, plan.number, plan.arm] = rate
        arm = self._arm(plan.arm)
        arm.passes += 1
        self._view.passes += 1
        self._view.speedups = self._speedups()
        ttft = f", TTFT {median(progress.ttft_s) * 1e3:,.0f} ms" if progress.ttft_s else ""
        speedup = self._view.speedups.get(plan.workload)
        so_far = f"; {plan.workload} so far {speedup:.2f}×" if speedup else ""
        failures = f", {progress.failures} failed turns" if progress.failures else ""
        self._watcher.line(
            f"[{self._view.passes}/{len(self._plan)}] {plan.workload} {plan.arm}: "
            f"{_lanes(self._view.lanes)}"
            f"{finished.tokens:,} tokens, {rate:,.1f} tokens/s a lane{ttft}{failures}{so_far}"
        )

    def _speedups(self) -> dict[str, float]:
        """The median over the pairs of passes that are complete, for each workload."""
        pairs: dict[str, list[float]] = {}
        for (workload, number, arm), rate in self._rates.items():
            stock = self._rates.get((workload, number, "stock"))
            if arm == "candidate" and stock:
                pairs.setdefault(workload, []).append(rate / stock)
        return {w: median(ratios) for w, ratios in pairs.items()}

    def _left_s(self, now: PassPlan | None, gone_s: float) -> float | None:
        """Time left from what passes took so far; None until one is done."""
        if not self._seconds:
            return None
        left = 0.0
        for plan in self._plan[self._view.passes :]:
            same = [s for p, s in self._seconds.items() if p.workload == plan.workload]
            same_arm = [
                s
                for p, s in self._seconds.items()
                if (p.workload, p.arm) == (plan.workload, plan.arm)
            ]
            left += median(same_arm or same or list(self._seconds.values()))
        return max(0.0, left - (gone_s if now else 0.0))

    def _arm(self, name: str) -> ArmView:
        return self._view.stock if name == "stock" else self._view.candidate


def _lanes(lanes: int) -> str:
    """Nothing in an open loop, which has none."""
    return f"{lanes} lane{'s' if lanes > 1 else ''}, " if lanes else ""


def _fill(arm: ArmView, progress: Progress, seconds: float) -> None:
    arm.in_flight = progress.in_flight
    arm.tokens_per_s = progress.tokens / seconds if progress.tokens else None
    arm.ttft_s = median(progress.ttft_s) if progress.ttft_s else None
    arm.per_step = progress.tokens / progress.steps if progress.steps else None
    arm.counters, arm.load = progress.counters, progress.load
