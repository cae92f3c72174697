"""Whether a run can be trusted: reasons why not. Pure. Design: statistics, section 1.

The judge had rather call a run invalid than score one whose client was the bottleneck.
"""

from collections.abc import Iterable

import numpy as np

from loadjudge.record.values import PassRecord
from loadjudge.score.latency import time_per_output_token

LAG_SHARE = 0.05  # of the median time between token-bearing reads
FAILED_SHARE = 0.01  # of turns
LANES_SHARE = 0.9  # of the lanes, in flight at the server in the mean
_LOOKS = 4  # fewer looks at the server's gauges say nothing about a mean
_CPU_SHARE = 0.95  # of one core
_WORKING = 0.5  # of one core


def median_tpot(one: PassRecord) -> float | None:
    """Median inter-token time of a pass's measured turns, in seconds."""
    values = [
        v
        for play in one.measured
        for turn in play.turns
        if turn.error is None and (v := time_per_output_token(turn)) is not None
    ]
    return float(np.median(values)) if values else None


def own_lag_s(one: PassRecord) -> float:
    """The client's own event-loop lag in a pass, in seconds.

    A client that works half of the time or more makes its own queue: its mean lag counts. One
    that mostly sleeps can be late only because the machine woke it late, now and then by
    milliseconds; that comes to both arms alike, as noise, and A/A and intervals show it. Its
    typical lag, the median, tells whether the client itself is in time.
    """
    return one.lag["mean"] if one.cpu >= _WORKING else one.lag["p50"]


def median_gap(one: PassRecord) -> float | None:
    """Median time between reads that brought tokens, in seconds.

    It is what lateness has to be held against: k tokens of one verify step share one stamp, and
    their share of the gap, a k-th, says nothing of how well that stamp is known. Without
    speculation it is the time between tokens.
    """
    gaps = [
        now - before
        for play in one.measured
        for turn in play.turns
        if turn.error is None and turn.tokens is not None
        for (before, _, _), (now, _, _) in zip(turn.arrivals, turn.arrivals[1:], strict=False)
    ]
    return float(np.median(gaps)) if gaps else None


def lag_share(one: PassRecord) -> float | None:
    """The client's own lag over the median time between reads."""
    gap = median_gap(one)
    return own_lag_s(one) / gap if gap else None


def noisy(passes: Iterable[PassRecord]) -> list[PassRecord]:
    """Passes in which the machine kept the client waiting: mean lag above the limit."""
    return [p for p in passes if (gap := median_gap(p)) and p.lag["mean"] > LAG_SHARE * gap]


def reasons(passes: Iterable[PassRecord], *, failures: bool = True) -> list[str]:
    """Why a run is invalid; empty where it can be trusted.

    ``failures``: whether turns that failed are a reason. They are none where each counts against
    the endpoint anyway, as in a search.
    """
    found: list[str] = []
    turns = failed = 0
    for one in passes:
        name = f"{one.workload} pass {one.number + 1} of {one.arm}"
        share = lag_share(one)
        if share is not None and share > LAG_SHARE:
            found.append(
                f"the client was late in {name}: its event loop lagged "
                f"{own_lag_s(one) * 1e3:.2f} ms, {share:.0%} of the median time between reads "
                f"(limit {LAG_SHARE:.0%})"
            )
        if one.cpu > _CPU_SHARE:
            found.append(
                f"the client used {one.cpu:.0%} of a core in {name} (limit {_CPU_SHARE:.0%})"
            )
        seen = one.in_flight
        if one.rate is None and seen and seen["samples"] >= _LOOKS:
            # A lane that waits, as its session scripts, has nothing in flight.
            waits = any(play.waited_s for play in one.plays)
            low = 0.0 if waits else LANES_SHARE * one.lanes - 1
            if seen["mean"] < low or seen["max"] > one.lanes:
                found.append(
                    f"the server saw {seen['mean']:.1f} requests in flight in the mean and "
                    f"{seen['max']:.0f} at most in {name}, not the {one.lanes} lanes"
                )
        for play in one.measured:
            turns += len(play.turns)
            failed += sum(t.error is not None for t in play.turns)
            if play.outcome == "cut":
                found.append(f"session {play.session} was cut in {name}")
    if failures and turns and failed > FAILED_SHARE * turns:
        found.append(
            f"{failed} of {turns} measured turns failed "
            f"({failed / turns:.1%}; limit {FAILED_SHARE:.0%})"
        )
    if not turns:
        found.append("no measured turn was played")
    return found
