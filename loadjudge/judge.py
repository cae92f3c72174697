"""A run of the judge. ``Judge.run`` reads as its story."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from loadjudge.deciding import Extension, score
from loadjudge.errors import JudgeError, Status
from loadjudge.load.arm import Access, Arm
from loadjudge.load.context import expected_context, kv_lanes, mean_live_context, mean_reply
from loadjudge.load.counting import Counter
from loadjudge.load.evidence import read_greedy, read_texts
from loadjudge.load.header import Options, header, load_sessions, shipped_or_given
from loadjudge.load.lanes import Progress
from loadjudge.load.live import Watcher
from loadjudge.load.passes import PassLoad, play_pass, probe
from loadjudge.load.plan import PassPlan, choose, schedule
from loadjudge.load.scoreboard import Scoreboard
from loadjudge.load.together import together
from loadjudge.random import generator
from loadjudge.record.log import RunLog, read_events
from loadjudge.record.run import read_run
from loadjudge.record.values import PlayRecord
from loadjudge.sessions.model import Session
from loadjudge.sessions.shipped import load_texts

# Lanes fail before the engine's end is seen; one that says that it isn't well takes its time.
_ENGINE_NOTICED_S = 3.0
_SICK_ENGINE_S = 30.0


class Judge:
    """One run, in a directory of its own. Raises JudgeError; the log tells how far it got."""

    def __init__(
        self, options: Options, access: Access, directory: Path, watcher: Watcher, *, resume: bool
    ) -> None:
        self._options = options
        self._task = options.task
        self._directory = directory
        self._watcher = watcher
        self._resume = resume
        self._sessions = load_sessions(
            options.session_files, options.dataset_format, options.task.max_turns
        )
        self._chosen = choose(
            self._sessions, {w: t.sessions for w, t in self._task.workloads.items()}, options.seed
        )
        self._passes = dict.fromkeys(self._task.workloads, self._task.passes)
        self._plan = schedule(self._passes)
        self._extension = Extension(options.budget)
        self._done: set[PassPlan] = set()
        self._attempt = 0
        self._lanes: dict[str, int] = {}
        self._stock_plays: list[PlayRecord] = []  # of this run's stock passes so far
        self._board = Scoreboard(
            f"{options.candidate.name} against {options.stock.name}", self._plan, watcher
        )
        logs = directory / "logs"
        self._stock = Arm("stock", options.stock, options.model, access, logs / "stock.log")
        self._candidate = Arm(
            "candidate", options.candidate, options.model, access, logs / "candidate.log"
        )
        self._log: RunLog

    async def run(self) -> None:
        """Engines up, evidence for the gates, all passes, engines down."""
        (self._directory / "logs").mkdir(exist_ok=True)
        _cancel_on_sigterm()
        with RunLog(self._directory) as self._log:
            self._begin()
            try:
                async with self._engines():
                    await self._while_engines_live()
            except asyncio.CancelledError:
                self._log.append({"event": "interrupted"})
                raise
            except JudgeError as error:
                if error.status == Status.RUN:
                    self._log_end_of(error)
                raise
            self._log.append({"event": "end"})
            self._log.sync()

    def _begin(self) -> None:
        if not self._resume:
            self._log.append(header(self._options, self._chosen))
            return
        before = read_run(self._directory)
        self._extend(before.extended)
        played = {(p.workload, p.slot) for p in before.passes}
        self._done = {p for p in self._plan if (p.workload, p.slot) in played}
        self._attempt = sum(e["event"] == "pass" for e in read_events(self._directory))
        self._lanes = {w: int(e["lanes"]) for w, e in before.lanes.items()}
        self._stock_plays = [
            play for one in before.passes if one.arm == "stock" for play in one.measured
        ]
        self._board.resume(before.passes)
        self._log.append({"event": "resumed", "passes_done": len(self._done)})
        self._watcher.line(f"resumed: {len(self._done)} of {len(self._plan)} passes are done")

    @contextlib.asynccontextmanager
    async def _engines(self) -> AsyncIterator[None]:
        arms = (self._stock, self._candidate)
        try:
            self._board.phase("starting the engines")
            ready = await together(arm.start() for arm in arms)
            for arm, seconds in zip(arms, ready, strict=True):
                self._log.append(
                    {
                        "event": "engine",
                        "arm": arm.name,
                        "state": "ready",
                        "seconds": seconds,
                        "url": arm.url,
                        "command": arm.process.command if arm.process else None,
                        "abilities": arm.abilities.describe(),
                    }
                )
            yield
        finally:
            await asyncio.gather(*(arm.stop() for arm in arms))

    async def _while_engines_live(self) -> None:
        """Runs the story; an engine that dies ends it, with the engine's own last words."""
        story = asyncio.create_task(self._story())
        deaths = [
            asyncio.create_task(arm.process.died())
            for arm in (self._stock, self._candidate)
            if arm.process is not None
        ]
        first = asyncio.FIRST_COMPLETED
        try:
            await asyncio.wait([story, *deaths], return_when=first)
            failed = story.done() and not story.cancelled() and story.exception() is not None
            if failed and deaths:
                patience_s = _ENGINE_NOTICED_S if await self._healthy() else _SICK_ENGINE_S
                await asyncio.wait(deaths, timeout=patience_s, return_when=first)
            for death in deaths:
                if death.done():
                    death.result()
            await story
        finally:
            for task in (story, *deaths):
                task.cancel()
            await asyncio.gather(story, *deaths, return_exceptions=True)

    async def _healthy(self) -> bool:
        """Whether each engine of the judge's own says that it is ready."""
        own = [arm for arm in (self._stock, self._candidate) if arm.process is not None]
        return all([await arm.http.health(arm.engine.ready_path) for arm in own])

    async def _story(self) -> None:
        if not self._done:
            await self._collect_evidence()
        await self._play_plan()
        await self._score()
        if self._task.rule == "decide" and not self._options.budget.nothing:
            await self._play_on()

    async def _play_plan(self) -> None:
        for plan in self._plan:
            if plan not in self._done:
                await self._play(plan)

    async def _score(self) -> None:
        self._board.phase("scoring the timed replies")
        with self._board.looking(None, Progress()):
            said = await score(self._directory, self._stock, self._options.seed, self._log.append)
        self._watcher.line(said)

    async def _play_on(self) -> None:
        """More passes while a gate is undecided and the budget lasts."""
        while True:
            decision = self._extension.look(self._directory, self._log.append)
            self._watcher.line(decision.reason)
            if decision.action == "stop":
                self._log.append({"event": "note", "text": f"decided: {decision.reason}"})
                return
            self._extension.begin()
            self._log.append({"event": "extend", "passes": decision.passes})
            self._extend(decision.passes)
            await self._play_plan()
            await self._score()

    def _extend(self, passes: Mapping[str, int]) -> None:
        for workload, more in passes.items():
            self._passes[workload] += more
        self._plan = schedule(self._passes)
        self._board.replan(self._plan)

    async def _collect_evidence(self) -> None:
        self._board.phase("fixed texts and greedy replies")
        task, seed = self._task, self._options.seed
        append = self._log.append
        with self._board.looking(None, Progress()):
            texts = load_texts(shipped_or_given(task.texts.file))[: task.texts.count]
            await read_texts(self._stock, self._candidate, texts, append)
            picked = generator(seed, "greedy").permutation(len(self._sessions))
            sessions = [self._sessions[i] for i in picked[: task.greedy.sessions]]
            await read_greedy(self._stock, self._candidate, sessions, task, append)
        self._watcher.line(f"{len(texts)} fixed texts and {len(sessions)} greedy replies read")

    async def _play(self, plan: PassPlan) -> None:
        arm = self._stock if plan.arm == "stock" else self._candidate
        load = PassLoad(
            task=self._task,
            sessions=self._chosen[plan.workload],
            pool=self._sessions,
            lanes=await self._lanes_of(plan.workload),
            seed=self._options.seed,
            extra=self._options.extra,
        )
        progress = Progress()
        counter = Counter(self._stock.http, self._stock.abilities)
        with self._board.looking(plan, progress, load.lanes):
            finished = await play_pass(
                arm, plan, load, self._attempt, counter, self._log.append, progress
            )
        self._attempt += 1
        self._log_memory()
        self._log.sync()
        self._done.add(plan)
        if plan.arm == "stock":
            self._stock_plays += finished.plays
        self._extension.add(finished.tokens)
        self._board.finished(plan, finished, progress)

    async def _lanes_of(self, workload: str) -> int:
        """The workload's lanes; "kv" from the stock's cache and what its sessions hold of it."""
        table = self._task.workloads[workload]
        if table.lanes != "kv":
            return table.lanes
        if workload not in self._lanes:
            context = await self._context_of(self._chosen[workload])
            kv_tokens = self._stock.abilities.kv_tokens
            lanes = kv_lanes(kv_tokens, context, table.fill)
            self._lanes[workload] = lanes
            self._log.append(
                {
                    "event": "lanes",
                    "workload": workload,
                    "lanes": lanes,
                    "kv_tokens": kv_tokens,
                    "mean_live_context": context,
                    "fill": table.fill,
                }
            )
            self._watcher.line(
                f"{workload}: {lanes} lanes fill {table.fill:.0%} of the stock's KV cache "
                f"({kv_tokens:,.0f} tokens, {context or 0:,.0f} a lane)"
            )
        return self._lanes[workload]

    async def _context_of(self, sessions: list[Session]) -> float | None:
        """What a lane holds of the KV cache with these sessions: counted, else probed."""
        abilities = self._stock.abilities
        context = await expected_context(
            self._stock.http, abilities.model, sessions, mean_reply(self._stock_plays)
        )
        if context is None:
            options = self._options
            load = PassLoad(self._task, sessions, sessions, 1, options.seed, options.extra)
            context = mean_live_context(await probe(self._stock, load))
        return context

    def _log_memory(self) -> None:
        for arm in (self._stock, self._candidate):
            peak = arm.peak_mib()
            if peak is not None:
                self._log.append(
                    {"event": "memory", "arm": arm.name, "peak_mib": peak, "kind": "rss"}
                )

    def _log_end_of(self, error: JudgeError) -> None:
        # The disk may be what failed; then the log can't say so, and the sentence must do.
        with contextlib.suppress(JudgeError):
            self._log.append({"event": "died", "sentence": error.sentence})


def _cancel_on_sigterm() -> None:
    """SIGTERM ends a run as Ctrl-C does: engines are stopped, and it can be resumed."""
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
