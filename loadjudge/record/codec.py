"""Plays and turns as events and back.

The prompt of a turn nearly always begins with the one before it and its reply, so an event
keeps how many ids the two share and the rest only: a session's ids grow linearly, not
quadratically, with its turns.
"""

from typing import Any

from loadjudge.record.values import PlayRecord, TurnRecord


def play_event(play: PlayRecord) -> dict[str, Any]:
    """A play as the body of an event. Trusted counts come later, with the pass's end."""
    turns = []
    before: tuple[int, ...] = ()
    for turn in play.turns:
        event = _turn_event(turn, before)
        turns.append(event)
        before = (turn.prompt_ids or ()) + (turn.token_ids or ())
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
        shared = _shared(before, turn.prompt_ids)
        prompt = {"shared": shared, "ids": turn.prompt_ids[shared:]}
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
    before: tuple[int, ...] = ()
    for i, values in enumerate(event["turns"]):
        tokens, source = counts[i] if counts else (None, None)
        prompt = values["prompt_ids"]
        prompt_ids = None
        if prompt is not None:
            prompt_ids = before[: prompt["shared"]] + tuple(prompt["ids"])
        token_ids = _tuple(values["token_ids"])
        turns.append(
            TurnRecord(
                **{
                    **values,
                    "arrivals": tuple((t, n, c) for t, n, c in values["arrivals"]),
                    "tool_calls": tuple(values["tool_calls"]),
                    "token_ids": token_ids,
                    "prompt_ids": prompt_ids,
                    "error": tuple(values["error"]) if values["error"] else None,
                    "tokens": tokens,
                    "source": source,
                }
            )
        )
        before = (prompt_ids or ()) + (token_ids or ())
    return PlayRecord(
        session=event["session"],
        play=event["play"],
        measured=event["measured"],
        lane=event["lane"],
        turns=tuple(turns),
        outcome=event["outcome"],
        waited_s=event["waited_s"],
    )


def _tuple(ids: list[int] | None) -> tuple[int, ...] | None:
    return None if ids is None else tuple(ids)
