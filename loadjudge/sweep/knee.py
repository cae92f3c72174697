"""The knee of a throughput–latency curve. Pure.

By power, throughput over response time (Kleinrock 1979, "Power and deterministic rules of thumb
for probabilistic problems in computer communications"): here the output tokens a second of all
users together times those of one user, and the knee is the point where it is largest. As long as
doubling the lanes brings at least √2 times the tokens, power grows; beyond the knee users pay more
in speed than the engine gains. Unlike methods that scale the curve to its ends, this one does not
move where points are added beyond the knee.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from loadjudge.record.evaluation import Model


@dataclass(frozen=True, slots=True)
class Power:
    """A point's tokens/s of all users and of one, and the half width of the latter's log."""

    point: str
    total: float
    per_user: float
    half_width: float


class Knee(Model):
    """``alike``: further points whose power can't be told from the knee's at 95 %.

    ``at_end``: it is the heaviest load that was tried, so the knee may lie beyond.
    """

    point: str
    at_end: bool
    alike: list[str]


def knee(points: Sequence[Power]) -> Knee | None:
    """The knee of points in the order of their load; None with fewer than three."""
    usable = [p for p in points if p.total > 0 and p.per_user > 0]
    if len(usable) < 3:
        return None
    best = max(usable, key=lambda p: p.total * p.per_user)

    def alike(other: Power) -> bool:
        # Both factors of power move with the per-user rate, so its log's error counts twice.
        half = 2 * math.hypot(best.half_width, other.half_width)
        gap = math.log(best.total * best.per_user / (other.total * other.per_user))
        return gap <= half

    return Knee(
        point=best.point,
        at_end=best is usable[-1],
        alike=[p.point for p in usable if p is not best and alike(p)],
    )
