"""The points of a sweep and the order in which their passes are played. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from loadjudge.errors import JudgeError, Status
from loadjudge.load.plan import PassPlan, order
from loadjudge.load.task import Lanes
from loadjudge.random import generator
from loadjudge.record.values import Arm

Order = Literal["alternate", "given", "shuffle"]
ORDERS: tuple[Order, ...] = ("alternate", "given", "shuffle")


@dataclass(frozen=True, slots=True)
class Point:
    """One load: lanes in a closed loop ("kv": as many as fill the cache), or a rate of arrival."""

    name: str  # what a run calls a workload
    lanes: Lanes | None
    rate: float | None = None  # sessions a second


def closed(lanes: Lanes) -> Point:
    return Point("busy" if lanes == "kv" else f"lanes-{lanes}", lanes)


def parse_concurrency(text: str) -> tuple[Point, ...]:
    """Points from ``1,2,4,busy``. Raises JudgeError (usage)."""
    points = []
    for word in text.split(","):
        word = word.strip()
        if word in ("busy", "kv"):
            points.append(closed("kv"))
        elif word.isdecimal() and int(word) > 0:
            points.append(closed(int(word)))
        else:
            raise JudgeError(
                f"--concurrency takes numbers of lanes or busy, as in 1,2,4,busy; not {word!r}",
                Status.USAGE,
            )
    return _different(points, "--concurrency")


def parse_rates(text: str) -> tuple[Point, ...]:
    """Points from ``0.5,1,2``, sessions a second. Raises JudgeError (usage)."""
    points = []
    for word in text.split(","):
        try:
            rate = float(word)
        except ValueError:
            rate = 0.0
        if not 0 < rate < float("inf"):
            raise JudgeError(
                f"--request-rate takes sessions a second, as in 0.5,1,2; not {word.strip()!r}",
                Status.USAGE,
            )
        points.append(Point(f"rate-{rate:g}", None, rate))
    return _different(points, "--request-rate")


def _different(points: Sequence[Point], flag: str) -> tuple[Point, ...]:
    names = [p.name for p in points]
    for name in names:
        if names.count(name) > 1:
            raise JudgeError(f"{flag} names {name.partition('-')[2] or name} twice", Status.USAGE)
    return tuple(points)


def play_order(
    points: Sequence[Point], passes: int, arms: Sequence[Arm], how: Order, seed: int
) -> list[PassPlan]:
    """All passes of a sweep: round after round over the points, the arms of a point side by side.

    ``alternate`` goes through the points as given and back again in turn, so that a steady
    drift meets all points alike where the rounds are even; ``shuffle`` draws an order for each
    round. Arms swap places from pass to pass, as in a run of the judge.
    """
    plan = []
    sides = order(passes)
    for number in range(passes):
        chosen = list(points)
        if how == "alternate" and number % 2:
            chosen.reverse()
        elif how == "shuffle":
            chosen = [points[i] for i in generator(seed, "points", number).permutation(len(points))]
        pair = [arm for arm in sides[2 * number : 2 * number + 2] if arm in arms]
        plan += [pass_of(point, arm, number) for point in chosen for arm in pair]
    return plan


def pass_of(point: Point, arm: Arm, number: int) -> PassPlan:
    """The ``number``th pass of an arm at a point."""
    return PassPlan(point.name, arm, number, slot=2 * number + (arm == "candidate"))
