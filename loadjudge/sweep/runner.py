"""A sweep as it is played. ``Sweep.run`` reads as its story."""

import asyncio
import contextlib
from pathlib import Path

from loadjudge.errors import JudgeError, Status
from loadjudge.load.arm import Access, Arm, others_at_rest
from loadjudge.load.counting import Counter
from loadjudge.load.header import load_sessions
from loadjudge.load.kvlanes import lanes_event
from loadjudge.load.lanes import Progress
from loadjudge.load.live import Watcher
from loadjudge.load.passes import PassLoad, play_pass, warm_up
from loadjudge.load.plan import PassPlan, choose
from loadjudge.load.residency import Engines, cancel_on_sigterm
from loadjudge.load.scoreboard import Scoreboard
from loadjudge.load.task import WorkloadTable
from loadjudge.record.log import RunLog, read_events
from loadjudge.record.run import read_run
from loadjudge.record.values import ARMS, PlayRecord, RunRecord
from loadjudge.sweep.figures import search_step
from loadjudge.sweep.options import SweepOptions
from loadjudge.sweep.points import Point, closed, pass_of, play_order
from loadjudge.sweep.search import SearchResult

_OPEN_WARMUPS = 8  # sessions that end before an open loop's list opens, or a quarter of the list


class Sweep:
    """One sweep, in a directory of its own. Raises JudgeError; the log tells how far it got."""

    def __init__(
        self,
        options: SweepOptions,
        access: Access,
        directory: Path,
        watcher: Watcher,
        *,
        resume: bool,
    ) -> None:
        self._options = options
        self._directory = directory
        self._watcher = watcher
        self._resume = resume
        self._sessions = load_sessions(
            options.session_files, options.dataset_format, options.task.max_turns
        )
        self._points = {point.name: point for point in options.points}
        arms = options.arms
        self._plan = play_order(options.points, options.passes, arms, options.order, options.seed)
        self._done: set[PassPlan] = set()
        self._attempt = 0
        self._busy_lanes: int | None = None
        self._stock_plays: list[PlayRecord] = []
        title = " and ".join(options.engines[arm].name for arm in arms)
        self._board = Scoreboard(f"sweep of {title}", self._plan, watcher)
        self._arms = {
            arm: Arm(
                arm, options.engines[arm], options.model, access, directory / "logs" / f"{arm}.log"
            )
            for arm in arms
        }
        self._log: RunLog

    async def run(self) -> None:
        """Engines up, warm-ups, all passes, engines down."""
        (self._directory / "logs").mkdir(exist_ok=True)
        cancel_on_sigterm()
        with RunLog(self._directory) as self._log:
            engines = Engines(self._arms, "together", self._log.append)
            self._begin()
            try:
                self._board.phase("starting the engines")
                await engines.need(self._options.arms[0])
                await engines.watch(asyncio.create_task(self._story()))
            except asyncio.CancelledError:
                self._log.append({"event": "interrupted"})
                raise
            except JudgeError as error:
                if error.status == Status.RUN:
                    # The disk may be what failed; then the log can't say so.
                    with contextlib.suppress(JudgeError):
                        self._log.append({"event": "died", "sentence": error.sentence})
                raise
            finally:
                await engines.stop()
            self._log.append({"event": "end"})
            self._log.sync()

    def _begin(self) -> None:
        if not self._resume:
            self._log.append(self._options.event())
            return
        before = read_run(self._directory)
        for one in before.passes:
            if one.workload not in self._points:
                self._points[one.workload] = closed(one.lanes)
            plan = pass_of(self._points[one.workload], one.arm, one.number)
            self._done.add(plan)
        if self._options.search is not None:
            self._plan = list(self._done)
            self._board.replan(self._plan)
        self._attempt = sum(e["event"] == "pass" for e in read_events(self._directory))
        if "busy" in before.lanes:
            self._busy_lanes = int(before.lanes["busy"]["lanes"])
        self._stock_plays = [
            play for one in before.passes if one.arm == "stock" for play in one.measured
        ]
        self._board.resume(before.passes)
        self._log.append({"event": "resumed", "passes_done": len(self._done)})
        self._watcher.line(f"resumed: {len(self._done)} passes are done")

    async def _story(self) -> None:
        await self._warm_up()
        if self._options.search is not None:
            while (plan := self._searched()) is not None:
                self._plan.append(plan)
                self._board.replan(self._plan)
                await self._play(plan)
            return
        for plan in self._plan:
            if plan not in self._done:
                await self._play(plan)

    async def _warm_up(self) -> None:
        """Unmeasured sessions on each arm, for what engines do on their first requests."""
        sessions = self._sessions[: self._options.num_warmups]
        if not sessions:
            return
        self._board.phase("warming up")
        load = self._load(closed(len(sessions)), len(sessions))
        with self._board.looking(None, Progress()):
            for arm in self._arms.values():
                await warm_up(arm, load, sessions)

    def _searched(self) -> PassPlan | None:
        """The next pass of a search: of the arm that has played less, while it isn't done."""
        run = read_run(self._directory)
        waiting: list[tuple[int, PassPlan]] = []
        for arm in self._options.arms:
            step = search_step(run, arm)
            if isinstance(step, SearchResult):
                continue
            point = closed(step)
            self._points[point.name] = point
            number = len(run.of(point.name, arm))
            waiting.append((_played(run, arm), pass_of(point, arm, number)))
        return min(waiting, key=lambda x: (x[0], ARMS.index(x[1].arm)))[1] if waiting else None

    async def _play(self, plan: PassPlan) -> None:
        point = self._points[plan.workload]
        lanes = await self._lanes_of(point)
        load = self._load(point, lanes)
        progress = Progress()
        first = self._arms[self._options.arms[0]]
        counter = Counter(first.http, first.abilities)
        arm = self._arms[plan.arm]
        await others_at_rest(self._arms.values(), arm)
        with self._board.looking(plan, progress, lanes):
            finished = await play_pass(
                arm,
                plan,
                load,
                self._attempt,
                counter,
                self._log.append,
                progress,
            )
        self._attempt += 1
        self._log.sync()
        self._done.add(plan)
        if plan.arm == "stock":
            self._stock_plays += finished.plays
        self._board.finished(plan, finished, progress)

    def _load(self, point: Point, lanes: int) -> PassLoad:
        options = self._options
        count = max(options.num_sessions, lanes)
        sessions = choose(self._sessions, {point.name: count}, options.seed)[point.name]
        table = WorkloadTable(lanes=max(lanes, 1), sessions=count)
        return PassLoad(
            task=options.task.model_copy(update={"workloads": {point.name: table}}),
            sessions=sessions,
            pool=self._sessions,
            lanes=lanes,
            seed=options.seed,
            extra=options.extra,
            rate=point.rate,
            warmups=max(1, min(_OPEN_WARMUPS, count // 4)),
        )

    async def _lanes_of(self, point: Point) -> int:
        """A point's lanes: 0 in an open loop, for "busy" as many as fill the first arm's cache."""
        if point.lanes is None:
            return 0
        if point.lanes != "kv":
            return point.lanes
        if self._busy_lanes is None:
            self._board.phase("how many lanes fill the KV cache")
            arm, progress = self._arms[self._options.arms[0]], Progress()
            with self._board.looking(None, progress):
                found = await lanes_event(
                    arm, point.name, self._load(point, 1), self._stock_plays, progress
                )
            self._log.append(found)
            self._busy_lanes = found["lanes"]
        return self._busy_lanes


def _played(run: RunRecord, arm: str) -> int:
    return sum(one.arm == arm for one in run.passes)
