"""How much all lanes, or all sessions that come, are served a second. Pure.

A closed loop's lanes are never idle but while a session waits by its script, so lanes times what
one lane gets is what all get. Counting what came in the window instead would miss the turns that
were in flight when the window closed: they are cut and not recorded, and in a short window they
are several per cent.

An open loop has no lanes. There what came is counted up to the longest turn before the window's
end: whatever was in flight then has ended by the window's close.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from loadjudge.record.values import PassRecord, TurnRecord
from loadjudge.score.bootstrap import Floats
from loadjudge.score.speed import counted

_LEAST = 0.25  # of an open loop's window has to be left


@dataclass(frozen=True, slots=True)
class Flow:
    """``turns`` that went well and the seconds in which as many were served by all lanes."""

    turns: tuple[TurnRecord, ...]
    seconds: float
    busy_s: float  # the turns' own time, all together: what is in flight, by the seconds

    @property
    def turns_per_s(self) -> float:
        return len(self.turns) / self.seconds if self.seconds else 0.0

    @property
    def tokens_per_s(self) -> float:
        tokens = sum(tokens_of(turn) or 0 for turn in self.turns)
        return tokens / self.seconds if self.seconds else 0.0

    @property
    def in_flight(self) -> float:
        return self.busy_s / self.seconds if self.seconds else 0.0


def flow_of(passes: Sequence[PassRecord]) -> Flow:
    """What passes at one load were served. Failed turns bring nothing."""
    if not passes or passes[0].rate is None:
        return _closed(passes)
    return _open(passes)


def tokens_of(turn: TurnRecord) -> int | None:
    """A turn's tokens: by trusted count, which fillers have none of, else as reported."""
    return turn.tokens if turn.tokens is not None else turn.reported_tokens


def lane_seconds(passes: Sequence[PassRecord], sessions: Sequence[str]) -> Floats:
    """Lane time of each session's counted plays with the waits that it scripts."""
    column = {session: i for i, session in enumerate(sessions)}
    seconds = np.zeros(len(sessions))
    for one in passes:
        for play in counted(one).values():
            seconds[column[play.session]] += play.lane_s + play.waited_s
    return seconds


def _closed(passes: Sequence[PassRecord]) -> Flow:
    turns: list[TurnRecord] = []
    seconds = busy = 0.0
    for one in passes:
        for play in counted(one).values():
            turns += [t for t in play.turns if t.error is None]
            seconds += (play.lane_s + play.waited_s) / one.lanes
            busy += sum(t.done_s - t.sent_s for t in play.turns)
    return Flow(tuple(turns), seconds, busy)


def _open(passes: Sequence[PassRecord]) -> Flow:
    turns: list[TurnRecord] = []
    seconds = busy = 0.0
    for one in passes:
        all_turns = [turn for play in one.plays for turn in play.turns]
        end = steady_end(one)
        seconds += end - one.open_s
        busy += busy_s(one, one.open_s, end)
        turns += [t for t in all_turns if t.error is None and one.open_s <= t.done_s <= end]
    return Flow(tuple(turns), seconds, busy)


def steady_end(one: PassRecord) -> float:
    """Up to when all that was in flight in an open loop's window is recorded."""
    longest = max((t.done_s - t.sent_s for p in one.plays for t in p.turns), default=0.0)
    window = one.close_s - one.open_s
    return one.close_s - min(longest, (1 - _LEAST) * window)


def busy_s(one: PassRecord, start: float, end: float) -> float:
    """Seconds of a pass's turns between two times, added up."""
    return sum(
        max(0.0, min(turn.done_s, end) - max(turn.sent_s, start))
        for play in one.plays
        for turn in play.turns
    )
