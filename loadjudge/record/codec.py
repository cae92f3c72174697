"""Plays and turns as events and back.

The prompt of a turn nearly always begins with the one before it and its reply, so an event
keeps how many ids the two share and the rest only: a session's ids grow linearly, not
quadratically, with its turns.
"""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from loadjudge.record.prompt import PromptIds
from loadjudge.record.values import PlayRecord, ScoredReply, Terms, TurnRecord


def play_event(play: PlayRecord) -> dict[str, Any]:
    """A play as the body of an event. Trusted counts come later, with the pass's end."""
    turns = []
    before: tuple[int, ...] = ()
    for turn in play.turns:
        event = _turn_event(turn, before)
        turns.append(event)
        before = (*(turn.prompt_ids or ()), *(turn.token_ids or ()))
    return {
        "session": play.session,
        "play": play.play,
        "measured": play.measured,
        "lane": play.lane,
        "outcome": play.outcome,
        "waited_s": play.waited_s,
        "turns": turns,
    }


def _turn_event(turn: TurnRecord, before: tuple[int, ...]) -> dict[str, Any]:
    prompt: dict[str, Any] | None = None
    if turn.prompt_ids is not None:
        ids = tuple(turn.prompt_ids)
        shared = _shared(before, ids)
        prompt = {"shared": shared, "ids": ids[shared:]}
    return {
        "index": turn.index,
        "scheduled_s": turn.scheduled_s,
        "sent_s": turn.sent_s,
        "done_s": turn.done_s,
        "arrivals": turn.arrivals,
        "first_content_s": turn.first_content_s,
        "finish_reason": turn.finish_reason,
        "reported_tokens": turn.reported_tokens,
        "prompt_tokens": turn.prompt_tokens,
        "cached_tokens": turn.cached_tokens,
        "content": turn.content,
        "reasoning": turn.reasoning,
        "tool_calls": turn.tool_calls,
        "token_ids": turn.token_ids,
        "prompt_ids": prompt,
        "error": turn.error,
        "converted_results": turn.converted_results,
        "repaired_calls": turn.repaired_calls,
        "unanswered_calls": turn.unanswered_calls,
        "connected": turn.connected,
        "resends": turn.resends,
    }


def _shared(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    if a == b[: len(a)]:
        return len(a)
    for i, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return i
    return min(len(a), len(b))


def play_from_event(event: dict[str, Any], counts: list[list[Any]] | None) -> PlayRecord:
    """The play of an event; ``counts`` holds (tokens, source) for each of its turns."""
    turns: list[TurnRecord] = []
    before: Sequence[int] = ()
    reply: tuple[int, ...] = ()
    for i, values in enumerate(event["turns"]):
        tokens, source = counts[i] if counts else (None, None)
        prompt = values["prompt_ids"]
        prompt_ids = None
        if prompt is not None:
            prompt_ids = PromptIds(before, reply, prompt["shared"], prompt["ids"])
        token_ids = None if values["token_ids"] is None else tuple(values["token_ids"])
        turns.append(
            TurnRecord(
                **{
                    **values,
                    "arrivals": tuple(map(tuple, values["arrivals"])),
                    "tool_calls": tuple(values["tool_calls"]),
                    "token_ids": token_ids,
                    "prompt_ids": prompt_ids,
                    "error": tuple(values["error"]) if values["error"] else None,
                    "tokens": tokens,
                    "source": source,
                }
            )
        )
        before, reply = prompt_ids or (), token_ids or ()
    return PlayRecord(
        session=event["session"],
        play=event["play"],
        measured=event["measured"],
        lane=event["lane"],
        turns=tuple(turns),
        outcome=event["outcome"],
        waited_s=event["waited_s"],
    )


def scored_event(scored: ScoredReply) -> dict[str, Any]:
    """A scored reply as an event. Seven digits are kept: far below any sampling error."""
    return {
        "event": "scored",
        **{f.name: getattr(scored, f.name) for f in fields(ScoredReply) if f.name != "terms"},
        "terms": {
            f.name: [float(f"{x:.7g}") for x in getattr(scored.terms, f.name)]
            for f in fields(Terms)
        },
    }


def scored_from_event(event: dict[str, Any]) -> ScoredReply:
    """Logs from before the copies were kept have none of them: nothing was proposed."""
    terms = {k: np.asarray(v, np.float64) for k, v in event["terms"].items()}
    none = np.zeros(len(terms["logp"]))
    return ScoredReply(
        **{f.name: event[f.name] for f in fields(ScoredReply) if f.name != "terms"},
        terms=Terms(**{"is_copy": none, "q_copy": none, **terms}),
    )
