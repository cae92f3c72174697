"""One pass: a clean prefix cache, the lanes, and what is to be known of the window beside them."""

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from loadjudge.client.lag import LagProbe
from loadjudge.errors import JudgeError, Status
from loadjudge.load.arm import Arm
from loadjudge.load.counting import Counter
from loadjudge.load.lanes import Arrivals, Lanes, Progress, Requests
from loadjudge.load.plan import PassPlan, fillers, plays, poisson_gaps, ramp_fillers
from loadjudge.load.task import Task
from loadjudge.random import derive
from loadjudge.record.codec import play_event
from loadjudge.record.log import Event
from loadjudge.record.values import PlayRecord
from loadjudge.servers.counters import Counters, Load, counters, increase, load_of
from loadjudge.servers.endpoint import reset_prefix_cache
from loadjudge.servers.families import FAMILIES
from loadjudge.sessions.model import Session

LOOK_EVERY_S = 0.5
_RAMP_S_PER_LANE = 0.1
_RAMP_S_AT_MOST = 10.0
_PROBE_SESSIONS = 8
_PROBE_LANES = 4


@dataclass(frozen=True, slots=True)
class PassLoad:
    """What a pass plays."""

    task: Task
    sessions: list[Session]  # measured, in order
    pool: list[Session]  # all there are, for fillers
    lanes: int
    seed: int
    extra: dict[str, Any]
    rate: float | None = None  # sessions a second in an open loop; ``lanes`` is 0 then
    warmups: int = 1  # sessions that end before an open loop's list opens


@dataclass(frozen=True, slots=True)
class Finished:
    """A pass that was played and logged: its measured sessions."""

    plays: list[PlayRecord]
    tokens: int  # by trusted count, where there was a counter
    lane_s: float
    window_s: float
    looks: dict[str, float] | None  # at the engine's gauges in the measured window


def salt_of(seed: int, plan: PassPlan) -> str:
    """New for each pass and the same on both arms."""
    return f"{derive(seed, 'salt', plan.workload, plan.number):016x}"


async def play_pass(
    arm: Arm,
    plan: PassPlan,
    load: PassLoad,
    attempt: int,
    counter: Counter | None,
    append: Callable[[Event], None],
    progress: Progress,
) -> Finished:
    """Plays one pass and logs it.

    Without a counter, as no stock engine is up whose tokenizer could count, its counts are left
    to a later event and its tokens are, for now, as the engine tells them.
    """
    task = load.task
    family = FAMILIES[arm.abilities.family]
    reset = arm.abilities.prefix_reset and await reset_prefix_cache(arm.http, arm.abilities.family)
    salt = salt_of(load.seed, plan) if family.salts else None
    append(
        {
            "event": "pass",
            "attempt": attempt,
            "workload": plan.workload,
            "arm": plan.arm,
            "number": plan.number,
            "slot": plan.slot,
            "lanes": load.lanes,
            "rate": load.rate,
            "salt": salt,
            "cache_reset": reset,
        }
    )
    played: list[PlayRecord] = []

    def on_play(play: PlayRecord) -> None:
        played.append(play)
        append({"event": "play", "attempt": attempt, **play_event(play)})

    progress.probe = probe = LagProbe()
    before = await _counters(arm)
    async with arm.load_client() as client:
        lanes = Lanes(
            client,
            _requests(arm, plan, load, salt),
            load.lanes,
            plays(load.sessions),
            ramp_fillers(unmeasured(load), load.lanes, derive(load.seed, plan.workload)),
            fillers(unmeasured(load), derive(load.seed, plan.workload, plan.number)),
            _ramp_s(task, plan.workload, load.lanes),
            on_play,
            progress,
            _arrivals(plan, load),
        )
        looks: list[Load] = []
        probe.start()
        looking = asyncio.create_task(_look(arm, lanes, looks, before, progress))
        try:
            window = await lanes.run()
        finally:
            looking.cancel()
            lag = probe.window()
            probe.stop()
            await asyncio.gather(looking, return_exceptions=True)
    if any(turn.error for play in played for turn in play.turns):
        await arm.settled()  # a pass in which the engine died never ends: it is played again
    after = await _counters(arm)
    summary = _summary(looks)
    measured = [p for p in played if p.measured]
    counts = await counter.count(measured) if counter else None
    append(
        {
            "event": "pass_end",
            "attempt": attempt,
            "open_s": window.open_s,
            "close_s": window.close_s,
            "lag": {
                "n": lag.n,
                "mean": lag.mean_s,
                "p50": lag.p50_s,
                "p99": lag.p99_s,
                "max": lag.max_s,
            },
            "cpu": lag.cpu_share,
            "in_flight": summary,
            "counters": increase(before, after) if before and after else None,
            "counts": counts,
        }
    )
    done = [p for p in measured if p.outcome == "done"]
    told = counts or {p.play: [(t.reported_tokens, None) for t in p.turns] for p in done}
    return Finished(
        plays=measured,
        tokens=sum(n or 0 for p in done for n, _ in told[p.play]),
        lane_s=sum(p.lane_s for p in done),
        window_s=window.close_s - window.open_s,
        looks=summary,
    )


async def probe(arm: Arm, load: PassLoad, *, turns: int | None = None) -> list[PlayRecord]:
    """A short unmeasured play of a workload's first sessions, or their first ``turns``.

    Nothing of it is logged.
    """
    sessions = [replace(s, turns=s.turns[:turns]) for s in load.sessions[:_PROBE_SESSIONS]]
    return await _rehearse(arm, load, sessions, min(_PROBE_LANES, len(sessions)))


async def warm_up(arm: Arm, load: PassLoad, sessions: list[Session]) -> None:
    """Plays sessions at once, unmeasured and not logged. Raises JudgeError where all fail."""
    played = await _rehearse(arm, load, sessions, len(sessions))
    failures = [t.error for p in played for t in p.turns if t.error is not None]
    if len(failures) == len(played):
        raise JudgeError(
            f"the endpoint {arm.url} failed all of {len(played)} warm-up sessions, the last with "
            f"{failures[-1][1]}",
            Status.RUN,
        )


async def _rehearse(
    arm: Arm, load: PassLoad, sessions: list[Session], lanes: int
) -> list[PlayRecord]:
    played: list[PlayRecord] = []
    plan = PassPlan("probe", arm.name, 0, 0)
    async with arm.load_client() as client:
        await Lanes(
            client,
            _requests(arm, plan, load, None),
            lanes,
            plays(sessions),
            ramp_fillers(sessions, lanes, load.seed),
            fillers(sessions, load.seed),
            0.0,
            played.append,
            Progress(),
        ).run()
    return [p for p in played if p.measured]


def _requests(arm: Arm, plan: PassPlan, load: PassLoad, salt: str | None) -> Requests:
    return Requests(
        model=arm.abilities.model,
        sampling=load.task.sampling.sampling(),
        max_tokens=load.task.max_tokens,
        want_ids=arm.abilities.token_ids,
        salt=salt,
        extra=load.extra,
        history=load.task.history,
        keep_reasoning=load.task.keep_reasoning,
        seed=load.seed,
        workload=plan.workload,
        number=plan.number,
        neutral=FAMILIES[arm.abilities.family].neutral,
    )


def _arrivals(plan: PassPlan, load: PassLoad) -> Arrivals | None:
    """When sessions come in an open loop: new for each pass and the same on both arms."""
    if load.rate is None:
        return None
    seed = derive(load.seed, "arrivals of", plan.workload, plan.number)
    return Arrivals(poisson_gaps(load.rate, seed), load.warmups)


def unmeasured(load: PassLoad) -> list[Session]:
    """Fillers come from sessions that aren't measured, where there are such: a filler that
    shared its first prompt with a measured session would warm the prefix cache for it."""
    measured = {s.id for s in load.sessions}
    return [s for s in load.pool if s.id not in measured] or load.pool


def _ramp_s(task: Task, workload: str, lanes: int) -> float:
    if lanes == 1:
        return 0.0
    given = task.workloads[workload].ramp_s
    return min(_RAMP_S_PER_LANE * lanes, _RAMP_S_AT_MOST) if given is None else given


async def _counters(arm: Arm) -> Counters | None:
    """A scrape; None where the endpoint gives none, or refuses it as a gateway may."""
    family = FAMILIES[arm.abilities.family]
    try:
        text = await arm.http.metrics_text(family.metrics_path)
    except JudgeError:
        return None
    return None if text is None else counters(family, text)


async def _look(
    arm: Arm, lanes: Lanes, looks: list[Load], before: Counters | None, progress: Progress
) -> None:
    """Looks at the engine's gauges now and then in the measured window, until cancelled; at its
    counters too, for whoever watches."""
    family = FAMILIES[arm.abilities.family]
    if family.running is None:
        return
    for _ in itertools.count():
        await asyncio.sleep(LOOK_EVERY_S)
        text = await arm.http.metrics_text(family.metrics_path) if lanes.measuring else None
        if text is not None and lanes.measuring:
            progress.load = load_of(family, text)
            looks.append(progress.load)
            if before is not None:
                progress.counters = increase(before, counters(family, text))


def _summary(looks: list[Load]) -> dict[str, float] | None:
    seen = [x.in_flight for x in looks if x.in_flight is not None]
    if not seen:
        return None
    summary = {"mean": sum(seen) / len(seen), "max": max(seen), "samples": float(len(seen))}
    for name, values in {
        "kv_usage": [x.kv_usage for x in looks if x.kv_usage is not None],
        "waiting": [x.waiting for x in looks if x.waiting is not None],
        "accept_length": [x.accept_length for x in looks if x.accept_length is not None],
    }.items():
        if values:
            summary[f"{name}_mean"] = sum(values) / len(values)
            summary[f"{name}_max"] = max(values)
    return summary
