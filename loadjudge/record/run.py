"""A run read back from its log."""

import contextlib
import gc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from loadjudge.errors import JudgeError, Status
from loadjudge.record.codec import play_from_event, scored_from_event
from loadjudge.record.log import Event, read_events
from loadjudge.record.values import (
    Arm,
    FixedText,
    GreedyReply,
    MemoryPeak,
    PassRecord,
    RunRecord,
    ScoredReply,
)


def read_run(directory: Path) -> RunRecord:
    """The run in ``directory`` as far as its log goes.

    A pass counts from its end event on: what an unfinished pass played is passed over, because
    a pass is the unit of timing and ``--resume`` plays it again whole. A pass can end once.
    Raises JudgeError where there is no run, or its log is not as it should be.
    """
    try:
        with _collector_off():
            return _read(directory)
    except (KeyError, TypeError, ValueError, IndexError) as e:
        raise JudgeError(
            f"{directory}: the log is not as a judge writes it: {type(e).__name__}: {e}"
        ) from None


@contextlib.contextmanager
def _collector_off() -> Iterator[None]:
    """No garbage collection meanwhile. A log becomes millions of small values and no garbage;
    going through them again and again took half of the time that reading took."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _read(directory: Path) -> RunRecord:
    header: Event | None = None
    plays: dict[int, list[Event]] = {}
    starts: dict[int, Event] = {}
    ends: dict[int, Event] = {}
    ended: dict[tuple[str, int], int] = {}  # which attempt
    counts: dict[int, dict[str, Any]] = {}
    evidence: set[Arm] = set()
    texts: dict[tuple[str, str], FixedText] = {}
    greedy: dict[tuple[str, int, str], GreedyReply] = {}
    scored: dict[tuple[str, str, int, str, int], ScoredReply] = {}
    memory: dict[str, MemoryPeak] = {}
    engines: list[Event] = []
    notes: dict[str, None] = {}
    lanes: dict[str, Event] = {}
    extended: Counter[str] = Counter()
    unavailable: dict[str, str] = {}
    complete = False
    died: Event | None = None
    for event in read_events(directory):
        match event["event"]:
            case "run":
                header = header or event
            case "pass":
                starts[event["attempt"]] = event
                plays[event["attempt"]] = []
            case "play":
                plays[event["attempt"]].append(event)
            case "pass_end":
                attempt = event["attempt"]
                start = starts[attempt]
                key = (start["workload"], start["slot"])
                if key in ended:
                    raise JudgeError(
                        f"{directory}: pass {key[1]} of {key[0]} ends twice in the log", Status.RUN
                    )
                ended[key] = attempt
                ends[attempt] = event
                if event["counts"] is not None:
                    counts[attempt] = event["counts"]
            case "counts":
                counts[event["attempt"]] = event["counts"]
            case "evidence":
                evidence.add(event["arm"])
            case "text":
                text = FixedText(
                    arm=event["arm"],
                    id=event["id"],
                    token_ids=tuple(event["token_ids"]),
                    logprobs=tuple(event["logprobs"]),
                )
                texts[text.arm, text.id] = text
            case "greedy":
                reply = GreedyReply(
                    arm=event["arm"],
                    round=event["round"],
                    session=event["session"],
                    content=event["content"],
                    token_ids=None if event["token_ids"] is None else tuple(event["token_ids"]),
                )
                greedy[reply.arm, reply.round, reply.session] = reply
            case "scored":
                one = scored_from_event(event)
                scored[one.arm, one.workload, one.number, one.play, one.turn] = one
            case "memory":
                one_peak = MemoryPeak(event["arm"], event["peak_mib"], event["kind"])
                memory[event["arm"]] = _higher(memory.get(event["arm"]), one_peak)
            case "engine":
                engines.append(event)
            case "extend":
                extended.update(event["passes"])
            case "lanes":
                lanes[event["workload"]] = event
            case "note":
                notes[event["text"]] = None
            case "unavailable":
                unavailable[event["what"]] = event["why"]
            case "died":
                died = event
            case "resumed":
                died = None
            case "interrupted":
                pass
            case "end":
                complete = True
            case other:
                raise JudgeError(f"{directory}: the log holds an unknown event {other!r}")
    if header is None:
        raise JudgeError(f"{directory}: the log holds no run yet")
    passes = {a: _pass(starts[a], plays[a], ends[a], counts.get(a)) for a in ended.values()}
    return RunRecord(
        header=header,
        passes=tuple(passes.values()),
        evidence=frozenset(evidence),
        uncounted={a: one.measured for a, one in passes.items() if a not in counts},
        texts=tuple(texts.values()),
        greedy=tuple(greedy.values()),
        extended=dict(extended),
        scored=tuple(scored.values()),
        memory=tuple(memory.values()),
        engines=tuple(engines),
        notes=tuple(notes),
        lanes=lanes,
        unavailable=unavailable,
        complete=complete,
        died=died,
    )


def _higher(before: MemoryPeak | None, now: MemoryPeak) -> MemoryPeak:
    """The peak of the run. Once an engine was seen on a device, that is the memory that counts."""
    if before is None or before.kind != now.kind:
        return before if before is not None and before.kind == "device" else now
    return max(before, now, key=lambda one: one.peak_mib)


def _pass(
    start: Event, plays: list[Event], end: Event, counts: dict[str, Any] | None
) -> PassRecord:
    told = counts or {}
    return PassRecord(
        workload=start["workload"],
        arm=start["arm"],
        number=start["number"],
        slot=start["slot"],
        lanes=start["lanes"],
        plays=tuple(play_from_event(p, told.get(p["play"])) for p in plays),
        open_s=end["open_s"],
        close_s=end["close_s"],
        lag=end["lag"],
        cpu=end["cpu"],
        in_flight=end["in_flight"],
        counters=end["counters"],
        salt=start["salt"],
        cache_reset=start["cache_reset"],
    )
