"""A run of the judge. ``Judge.run`` reads as its story."""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from loadjudge.deciding import Extension, score
from loadjudge.errors import JudgeError, Status
from loadjudge.load.arm import Access, Arm, others_at_rest, watch_devices
from loadjudge.load.counting import Counter
from loadjudge.load.evidence import read_greedy, read_texts, text_ids
from loadjudge.load.header import Options, header, load_sessions, shipped_or_given
from loadjudge.load.kvlanes import lanes_event
from loadjudge.load.lanes import Progress
from loadjudge.load.live import Watcher
from loadjudge.load.passes import PassLoad, play_pass, probe, unmeasured
from loadjudge.load.plan import PassPlan, choose, schedule
from loadjudge.load.residency import Engines, cancel_on_sigterm
from loadjudge.load.scoreboard import Scoreboard
from loadjudge.random import generator
from loadjudge.record.log import RunLog, read_events
from loadjudge.record.run import read_run
from loadjudge.record.values import ARMS, PlayRecord
from loadjudge.record.values import Arm as ArmName
from loadjudge.sessions.shipped import load_texts

_WARM_UP_SESSIONS = 4


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
        self._plan = schedule(self._passes, options.task.residency)
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
        self._arms: dict[ArmName, Arm] = {"stock": self._stock, "candidate": self._candidate}
        self._evidence: set[ArmName] = set()  # arms whose evidence is logged
        self._text_ids: dict[str, tuple[int, ...]] = {}  # of the fixed texts, by stock's tokenizer
        self._uncounted: dict[int, tuple[PlayRecord, ...]] = {}  # played while stock was not up
        self._engines: Engines
        self._log: RunLog

    async def run(self) -> None:
        """Engines up, evidence for the gates, all passes, engines down."""
        (self._directory / "logs").mkdir(exist_ok=True)
        cancel_on_sigterm()
        with RunLog(self._directory) as self._log:
            self._engines = Engines(self._arms, self._task.residency, self._log.append)
            self._begin()
            devices = asyncio.create_task(watch_devices((self._stock, self._candidate)))
            try:
                await self._engines.watch(asyncio.create_task(self._story()))
            except asyncio.CancelledError:
                self._log.append({"event": "interrupted"})
                raise
            except JudgeError as error:
                if error.status == Status.RUN:
                    self._log_end_of(error)
                raise
            finally:
                devices.cancel()
                await self._engines.stop()
                await asyncio.gather(devices, return_exceptions=True)
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
        self._evidence = set(before.evidence)
        self._text_ids = {text.id: text.token_ids for text in before.texts if text.arm == "stock"}
        self._uncounted = dict(before.uncounted)
        self._stock_plays = [
            play for one in before.passes if one.arm == "stock" for play in one.measured
        ]
        self._board.resume(before.passes)
        self._log.append({"event": "resumed", "passes_done": len(self._done)})
        self._watcher.line(f"resumed: {len(self._done)} of {len(self._plan)} passes are done")

    async def _story(self) -> None:
        if self._task.residency == "together":
            for name in ARMS:
                await self._up(name)
        await self._play_plan()
        await self._score()
        if self._task.rule == "decide" and not self._options.budget.nothing:
            await self._play_on()

    async def _up(self, name: ArmName) -> Arm:
        """The arm, with its engine up, its evidence taken, and warm."""
        arm = self._arms[name]
        if not arm.up:
            self._log_memory()  # of an engine that may be stopped for this one
            self._board.phase("starting the engines")
            for started in await self._engines.need(name):
                if started in self._evidence:
                    await self._warm_up(self._arms[started])
        if name not in self._evidence:
            await self._collect_evidence(arm)
        if name == "stock":
            await self._count_what_waited()
        return arm

    async def _warm_up(self, arm: Arm) -> None:
        """First requests compile kernels and fill pools: they are no part of a pass."""
        load = self._load(next(iter(self._task.workloads)), lanes=1)
        await probe(arm, replace(load, sessions=unmeasured(load)[:_WARM_UP_SESSIONS]), turns=1)

    async def _count_what_waited(self) -> None:
        """Counts replies that were played while stock's tokenizer was not there to count them."""
        counter = Counter(self._stock.http, self._stock.abilities)
        for attempt in list(self._uncounted):
            counts = await counter.count(self._uncounted[attempt])
            self._log.append({"event": "counts", "attempt": attempt, "counts": counts})
            del self._uncounted[attempt]

    async def _play_plan(self) -> None:
        for plan in self._plan:
            if plan not in self._done:
                await self._play(plan)

    async def _score(self) -> None:
        await self._up("stock")
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
        self._plan = schedule(self._passes, self._task.residency)
        self._board.replan(self._plan)

    async def _collect_evidence(self, arm: Arm) -> None:
        """What the gates need of the arm beside timed replies: it warms the engine up as well."""
        self._board.phase(f"fixed texts and greedy replies of {arm.name}")
        task, seed = self._task, self._options.seed
        append = self._log.append
        with self._board.looking(None, Progress()):
            texts = load_texts(shipped_or_given(task.texts.file))[: task.texts.count]
            if arm.name == "stock":
                self._text_ids = await text_ids(arm, texts)
            if texts:
                await read_texts(arm, self._text_ids, append)
            picked = generator(seed, "greedy").permutation(len(self._sessions))
            sessions = [self._sessions[i] for i in picked[: task.greedy.sessions]]
            await read_greedy(arm, sessions, task, append)
        append({"event": "evidence", "arm": arm.name})
        self._evidence.add(arm.name)
        self._watcher.line(
            f"{len(texts)} fixed texts and {len(sessions)} greedy replies of {arm.name} read"
        )

    def _load(self, workload: str, lanes: int) -> PassLoad:
        return PassLoad(
            task=self._task,
            sessions=self._chosen[workload],
            pool=self._sessions,
            lanes=lanes,
            seed=self._options.seed,
            extra=self._options.extra,
        )

    async def _play(self, plan: PassPlan) -> None:
        arm = await self._up(plan.arm)
        load = self._load(plan.workload, await self._lanes_of(plan.workload))
        progress = Progress()
        counter = Counter(self._stock.http, self._stock.abilities) if self._stock.up else None
        await others_at_rest(self._arms.values(), arm)
        with self._board.looking(plan, progress, load.lanes):
            finished = await play_pass(
                arm, plan, load, self._attempt, counter, self._log.append, progress
            )
        if counter is None:
            self._uncounted[self._attempt] = tuple(finished.plays)
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
            self._board.phase(f"how many lanes of {workload} fill the KV cache")
            progress = Progress()
            with self._board.looking(None, progress):
                load = self._load(workload, lanes=1)
                found = await lanes_event(self._stock, workload, load, self._stock_plays, progress)
            self._log.append(found)
            self._lanes[workload] = found["lanes"]
            self._watcher.line(
                f"{workload}: {found['lanes']} lanes to fill {table.fill:.0%} of stock's KV cache "
                f"({found['kv_tokens']:,.0f} tokens, {found['mean_live_context']:,.0f} a lane)"
            )
        return self._lanes[workload]

    def _log_memory(self) -> None:
        for arm in (self._stock, self._candidate):
            peak = arm.peak()
            if peak is not None:
                mib, kind = peak
                self._log.append(
                    {"event": "memory", "arm": arm.name, "peak_mib": mib, "kind": kind}
                )
            if arm.unlisted:
                self._log.append(
                    {
                        "event": "note",
                        "text": f"the driver lists no process of {arm.name}'s engine on a device: "
                        f"its resident memory stands",
                    }
                )

    def _log_end_of(self, error: JudgeError) -> None:
        # The disk may be what failed; then the log can't say so, and the sentence must do.
        with contextlib.suppress(JudgeError):
            self._log.append({"event": "died", "sentence": error.sentence})
