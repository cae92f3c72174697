"""Small runs made by hand. Each folder's conftest.py gives these as the fixture ``make``."""

from collections.abc import Sequence
from typing import Any

from loadjudge.record.values import (
    Arm,
    FixedText,
    GreedyReply,
    MemoryPeak,
    PassRecord,
    PlayRecord,
    RunRecord,
    TurnRecord,
)


def turn(
    tokens: int | None = 10, *, sent_s: float = 0.0, seconds: float = 1.0, **changes: Any
) -> TurnRecord:
    """A turn whose first token comes after a tenth of its seconds and the rest at their end."""
    n = 10 if tokens is None else tokens
    arrivals = ((sent_s + seconds / 10, 1, 4), (sent_s + seconds, n - 1, 4 * (n - 1)))
    values: dict[str, Any] = {
        "index": 0,
        "scheduled_s": sent_s,
        "sent_s": sent_s,
        "done_s": sent_s + seconds,
        "arrivals": arrivals if n > 1 else ((sent_s + seconds, n, 4 * n),),
        "first_content_s": sent_s + seconds / 10,
        "finish_reason": "stop",
        "tokens": tokens,
        "source": None if tokens is None else "ids",
        "reported_tokens": n,
        "prompt_tokens": 20,
        "cached_tokens": 0,
        "content": "word " * n,
        "reasoning": "",
        "tool_calls": (),
        "token_ids": tuple(range(n)),
        "prompt_ids": None,
        "error": None,
        "converted_results": 0,
        "repaired_calls": 0,
        "connected": False,
        "resends": 0,
    }
    return TurnRecord(**{**values, **changes})


def failed_turn(*, sent_s: float = 0.0, kind: str = "http") -> TurnRecord:
    return turn(None, sent_s=sent_s, arrivals=(), reported_tokens=None, error=(kind, "status 500"))


def play(
    session: str, tokens: int | None = 100, seconds: float = 1.0, **changes: Any
) -> PlayRecord:
    """A session of one turn."""
    values: dict[str, Any] = {
        "session": session,
        "play": f"{session}#0",
        "measured": True,
        "lane": 0,
        "turns": (turn(tokens, seconds=seconds),),
        "outcome": "done",
        "waited_s": 0.0,
    }
    return PlayRecord(**{**values, **changes})


def failed_play(session: str, **changes: Any) -> PlayRecord:
    return play(session, turns=(failed_turn(),), outcome="failed", **changes)


def one_pass(
    arm: Arm, number: int, plays: Sequence[PlayRecord], *, workload: str = "solo", **changes: Any
) -> PassRecord:
    pair = (0, 1) if arm == "stock" else (1, 0)
    values: dict[str, Any] = {
        "workload": workload,
        "arm": arm,
        "number": number,
        "slot": 2 * number + pair[number % 2],
        "lanes": 1,
        "plays": tuple(plays),
        "open_s": 0.0,
        "close_s": 1.0,
        "lag": {"n": 100, "mean": 1e-5, "p50": 1e-5, "p99": 2e-5, "max": 1e-4},
        "cpu": 0.1,
        "in_flight": {"mean": 1.0, "max": 1.0, "samples": 10.0},
        "counters": None,
        "salt": "salt",
        "cache_reset": True,
    }
    return PassRecord(**{**values, **changes})


def passes(
    arm: Arm,
    rates: Sequence[float],
    *,
    sessions: int = 8,
    tokens: int = 100,
    workload: str = "solo",
) -> list[PassRecord]:
    """Passes at these rates in tokens per lane second; every session says as much."""
    return [
        one_pass(
            arm,
            number,
            [play(f"s{i}", tokens, tokens / rate) for i in range(sessions)],
            workload=workload,
        )
        for number, rate in enumerate(rates)
    ]


LIMITS = {
    "memory_slack_mib": 256,
    "fidelity_ceiling": 1e-3,
    "greedy_agreement_floor": 0.9,
    "length_margin": 0.1,
}


def run(
    played: Sequence[PassRecord], *, limits: Any = None, rule: str = "decide", **changes: Any
) -> RunRecord:
    """A complete run of these passes whose evidence passes every gate."""
    header = {
        "event": "run",
        "seed": 1,
        "task": {"limits": LIMITS if limits is None else limits, "rule": rule},
    }
    arms: tuple[Arm, Arm] = ("stock", "candidate")
    values: dict[str, Any] = {
        "header": header,
        "passes": tuple(played),
        "texts": tuple(text(arm) for arm in arms),
        "greedy": (greedy("stock"), greedy("stock", round=1), greedy("candidate")),
        "memory": tuple(MemoryPeak(arm, 1000.0, "rss") for arm in arms),
        "engines": (),
        "notes": (),
        "lanes": {},
        "unavailable": {},
        "complete": True,
        "died": None,
    }
    return RunRecord(**{**values, **changes})


def text(arm: Arm, logprobs: Sequence[float] = (-1.0, -2.0), id: str = "t1") -> FixedText:
    return FixedText(arm, id, tuple(range(len(logprobs) + 1)), tuple(logprobs))


def greedy(
    arm: Arm,
    content: str = "abcd",
    ids: tuple[int, ...] | None = (1, 2, 3, 4),
    *,
    round: int = 0,
    session: str = "s0",
) -> GreedyReply:
    return GreedyReply(arm, round, session, content, ids)
