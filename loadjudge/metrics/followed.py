"""What the log of a judge or a sweep and its looks say, as values for the exporter.

Replies, tokens and errors are those of measured sessions, as in the record; they come as a
session ends. Tokens per verify step take in the pass in progress; as passes end they become the
record's own figure (``standings``).
"""

from collections import defaultdict
from threading import Lock
from typing import Any

from loadjudge.metrics.values import (
    Client,
    EngineLoad,
    Lanes,
    Look,
    Memory,
    Reply,
    Run,
    RunProgress,
    RunState,
    Speculation,
    Takes,
)
from loadjudge.record.codec import play_from_event
from loadjudge.record.log import Event
from loadjudge.record.values import PlayRecord, TurnRecord
from loadjudge.score.latency import inter_token, time_per_output_token
from loadjudge.score.speculation import tokens_per_step
from loadjudge.sweep.options import is_sweep
from loadjudge.sweep.slo import good_turn

_MIB = 1 << 20
_STATES: dict[str, RunState] = {
    "run": "starting",
    "resumed": "starting",
    "engine": "evidence",
    "pass": "playing",
    "end": "done",
    "died": "died",
    "interrupted": "interrupted",
}
_STATES_OF_SWEEP: dict[str, RunState] = {**_STATES, "engine": "starting"}  # it warms up next
_AT = "accepted_at_"
Name = tuple[str, str]  # arm, workload


class Followed:
    """A run as far as it was followed. Events and looks may come from two threads."""

    def __init__(self, name: str, to: Takes) -> None:
        self._name = name
        self._to = to
        self._lock = Lock()
        self._state: RunState = "starting"
        self._sweeps = False
        self._planned: int | None = None  # passes; a search does not know
        self._done = 0
        self._goodput: dict[str, float] = {}  # limits in ms
        self._passes: dict[int, Event] = {}  # that have begun, by attempt
        self._ended: set[tuple[str, str, int]] = set()
        self._counters: dict[Name, list[dict[str, float]]] = defaultdict(list)  # of ended passes
        self._live: dict[Name, dict[str, float]] = {}
        self._told: dict[Name, dict[str, float]] = defaultdict(dict)
        self._last_look: Look | None = None

    @property
    def over(self) -> bool:
        return self._state in ("done", "died", "interrupted")

    def event(self, event: Event) -> None:
        with self._lock:
            states = _STATES_OF_SWEEP if self._sweeps else _STATES
            self._state = states.get(event["event"], self._state)
            match event["event"]:
                case "run":
                    self._begun(event)
                case "extend":
                    assert self._planned is not None
                    self._planned += 2 * sum(event["passes"].values())
                case "pass":
                    self._pass_begun(event)
                case "play" if event["measured"]:
                    for reply in replies(*self._name_of(event), event, self._goodput):
                        self._to.take(reply)
                case "pass_end":
                    self._pass_ended(event)
                case "memory":
                    peak = event["peak_mib"] * _MIB
                    self._to.take(Memory(event["arm"], peak, event["kind"]))
            if self._state == "playing" and self._done == self._planned and not self._sweeps:
                self._state = "scoring"
            self._to.take(RunProgress(self._state, self._done, self._planned))

    def look(self, look: Look) -> None:
        """A pass as it goes; one that has ended is passed over, its end knows more."""
        with self._lock:
            name = look.arm, look.workload
            self._to.take(Client(lag_s=look.lag_s, cpu=look.cpu))
            if (*name, look.number) in self._ended:
                return
            # An open loop has no lanes; its rate was told as the pass began.
            self._to.take(Lanes(*name, in_flight=look.in_flight, wanted=look.lanes or None))
            if look.load is not None:
                self._to.take(EngineLoad(look.arm, *look.load))
            if look.counters is not None:
                self._live[name] = look.counters
                self._tell_speculation(name)
            last, self._last_look = self._last_look, look
            moved = (last.turns, last.counters) != (look.turns, look.counters) if last else True
            self._to.take(RunProgress(self._state, self._done, self._planned, moved))

    def lost(self) -> None:
        """Whoever wrote the log is gone."""
        with self._lock:
            if not self.over:
                self._state = "unknown"
                self._to.take(RunProgress("unknown", self._done, self._planned, moved=False))

    def _begun(self, event: Event) -> None:
        engines = tuple((arm, event["engines"][arm]["name"]) for arm in event["engines"])
        self._sweeps = is_sweep(event)
        if self._sweeps:
            self._goodput = event["goodput"]
            if event["search"] is None:
                self._planned = event["passes"] * len(event["points"]) * len(engines)
        else:
            task = event["task"]
            self._planned = 2 * task["passes"] * len(task["workloads"])
        self._to.take(Run(self._name, "sweep" if self._sweeps else "judge", engines))

    def _pass_begun(self, event: Event) -> None:
        self._passes[event["attempt"]] = event
        name = self._name_of(event)
        self._live.pop(name, None)  # of a pass that was cut
        self._to.take(_wanted(name, event, 1))

    def _pass_ended(self, event: Event) -> None:
        name = self._name_of(event)
        self._done += 1
        self._ended.add((*name, self._passes[event["attempt"]]["number"]))
        self._live.pop(name, None)
        if event["counters"]:
            self._counters[name].append(event["counters"])
            self._tell_speculation(name)
        self._to.take(_wanted(name, self._passes[event["attempt"]], 0))

    def _name_of(self, event: Event) -> Name:
        begun = self._passes[event["attempt"]]
        return begun["arm"], begun["workload"]

    def _tell_speculation(self, name: Name) -> None:
        """Tells what the counters gained since they were told last. What a pass gained that was
        cut was told and can't be taken back; it is no part of the figure."""
        windows = [*self._counters[name], *([self._live[name]] if name in self._live else [])]
        told, gained = self._told[name], {}
        for key in {k for window in windows for k in window}:
            total = sum(window.get(key, 0.0) for window in windows)
            gained[key] = max(0.0, total - told.get(key, 0.0))
            told[key] = max(total, told.get(key, 0.0))
        positions = sorted(int(k.rpartition("_")[2]) for k in gained if k.startswith(_AT))
        self._to.take(
            Speculation(
                *name,
                drafts=gained.get("drafts"),
                drafted=gained.get("draft_tokens"),
                accepted=gained.get("accepted"),
                accepted_at=tuple(
                    gained.get(f"{_AT}{i}", 0.0) for i in range(max(positions, default=-1) + 1)
                ),
                tokens_per_step=tokens_per_step(windows),
            )
        )


def _wanted(name: Name, begun: Event, times: int) -> Lanes:
    """What a pass wants while it plays (``times`` 1), and when it is over (0)."""
    rate = begun.get("rate")
    if rate is None:
        return Lanes(*name, in_flight=0, wanted=times * begun["lanes"])
    return Lanes(*name, in_flight=0, rate=times * rate)


def replies(arm: str, workload: str, play: Event, goodput: dict[str, float]) -> list[Reply]:
    """The replies of a play's event. Trusted counts come with the pass's end: until then, tokens
    are the ids that the engine sent, else what it reports. ``goodput``: limits in ms."""
    counts: list[list[Any]] = [
        [t["reported_tokens"], "usage"] if t["token_ids"] is None else [len(t["token_ids"]), "ids"]
        for t in play["turns"]
    ]
    played: PlayRecord = play_from_event(play, counts)
    return [
        _reply(arm, workload, turn, good_turn(turn, goodput) if goodput else None)
        for turn in played.turns
    ]


def _reply(arm: str, workload: str, turn: TurnRecord, good: bool | None) -> Reply:
    if turn.error is not None:
        return Reply(arm, workload, error=turn.error[0], good=good)
    gaps, weights = inter_token(turn)
    return Reply(
        arm,
        workload,
        ttft_s=_since(turn, turn.first_s),
        ttfot_s=_since(turn, turn.first_content_s),
        tpot_s=time_per_output_token(turn),
        e2el_s=_since(turn, turn.last_s),
        itl=tuple((gap, max(1, round(k))) for gap, k in zip(gaps, weights, strict=True)),
        prompt_tokens=turn.prompt_tokens,
        output_tokens=turn.tokens,
        cached_tokens=turn.cached_tokens,
        good=good,
    )


def _since(turn: TurnRecord, moment_s: float | None) -> float | None:
    return None if moment_s is None else moment_s - turn.sent_s
