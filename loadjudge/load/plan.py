"""Which passes are played, in which order, with which sessions. Pure; the same on both arms.

Design: statistics, section 1.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from loadjudge.errors import JudgeError, Status
from loadjudge.load.task import Residency
from loadjudge.random import derive, generator
from loadjudge.record.values import Arm
from loadjudge.sessions.model import Session


@dataclass(frozen=True, slots=True)
class PassPlan:
    """One pass to play."""

    workload: str
    arm: Arm
    number: int  # among the arm's passes at this workload
    slot: int  # place in the order of play


@dataclass(frozen=True, slots=True)
class PlayPlan:
    """One session to play; ``play`` is unique in its pass. ``turns`` cuts a ramp filler short."""

    session: Session
    play: str
    measured: bool
    turns: int | None = None


def order(passes: int) -> list[Arm]:
    """S C C S S C …: neighbours swap places, so a steady drift meets both arms alike."""
    arms: list[Arm] = []
    for i in range(passes):
        arms += ["stock", "candidate"] if i % 2 == 0 else ["candidate", "stock"]
    return arms


def schedule(passes: Mapping[str, int], residency: Residency = "together") -> list[PassPlan]:
    """All passes of a run; ``passes`` of each arm, by workload.

    With both engines up, workload after workload. With one at a time, slot after slot, all
    workloads in each: every workload still has the order S C C S S C, and the engines change
    places as often as one workload alone would have it. More passes only add to the end of a
    workload's, so a run that goes on keeps what it has.
    """
    plan = []
    for workload, count in passes.items():
        played: dict[Arm, int] = {"stock": 0, "candidate": 0}
        for slot, arm in enumerate(order(count)):
            plan.append(PassPlan(workload, arm, played[arm], slot))
            played[arm] += 1
    if residency == "exclusive":
        plan.sort(key=lambda one: one.slot)
    return plan


def choose(
    sessions: Sequence[Session], counts: Mapping[str, int], seed: int
) -> dict[str, list[Session]]:
    """Which sessions each workload measures.

    Where there are enough, no session is measured at two workloads: their figures are then
    independent evidence. Otherwise each workload goes round the shuffled file; a session that
    comes up again is played again (intervals treat all plays of a session as one cluster).
    """
    if not sessions:
        raise JudgeError("there are no sessions to play", Status.SETUP)
    shuffled = [sessions[i] for i in generator(seed, "sessions of").permutation(len(sessions))]
    disjoint = sum(counts.values()) <= len(sessions)
    chosen: dict[str, list[Session]] = {}
    start = 0
    for workload, count in counts.items():
        round_trip = itertools.cycle(shuffled)
        chosen[workload] = list(itertools.islice(round_trip, start, start + count))
        start += count if disjoint else 0
    return chosen


def plays(sessions: Sequence[Session]) -> list[PlayPlan]:
    """The measured plays of a pass, in order; repetitions are numbered."""
    seen: dict[str, int] = {}
    planned = []
    for session in sessions:
        repetition = seen.get(session.id, 0)
        seen[session.id] = repetition + 1
        planned.append(PlayPlan(session, f"{session.id}#{repetition}", measured=True))
    return planned


def fillers(sessions: Sequence[Session], seed: int) -> Iterator[PlayPlan]:
    """Sessions that keep lanes busy and are not measured, without end."""
    for i, session in enumerate(_rounds(sessions, seed, "filler")):
        yield PlayPlan(session, f"filler-{i}", measured=False)


def ramp_fillers(sessions: Sequence[Session], lanes: int, seed: int) -> list[PlayPlan]:
    """What each lane plays first: the beginning of a session, cut after a random turn.

    Lanes then come to the measured list at different moments, as they do in the steady state,
    and not all at their first turn.
    """
    rng = generator(seed, "ramp")
    return [
        PlayPlan(s, f"ramp-{lane}", measured=False, turns=1 + int(rng.integers(len(s.turns))))
        for lane, s in zip(range(lanes), _rounds(sessions, seed, "ramp sessions"), strict=False)
    ]


def _rounds(sessions: Sequence[Session], seed: int, what: str) -> Iterator[Session]:
    for round in itertools.count():
        for i in generator(seed, what, round).permutation(len(sessions)):
            yield sessions[i]


def request_seed(seed: int, workload: str, number: int, play: str, turn: int) -> int:
    """The sampling seed of one request: the same on both arms, new for each pass (31 bits)."""
    return derive(seed, "request", workload, number, play, turn) & 0x7FFFFFFF
