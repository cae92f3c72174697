"""How many lanes fill the KV cache: what a lane holds of it, and how much there is."""

from collections.abc import Mapping, Sequence
from typing import Any

from loadjudge.client.http import PlainClient
from loadjudge.errors import JudgeError
from loadjudge.load.task import HistoryPolicy
from loadjudge.load.together import together
from loadjudge.record.values import PlayRecord
from loadjudge.sessions.model import Session

_AT_ONCE = 8
ENOUGH_LOOKS = 4
SLACK = 0.05  # of the cache: what its mean use may differ by from the share that is meant
_WAITING_SHARE = 0.1  # of the lanes
_MOST_TIMES = 4  # by which a probe may raise the estimate
_UNKNOWN_REPLY = 128.0  # tokens, where no reply has been seen yet


def mean_reply(played: Sequence[PlayRecord]) -> float:
    """Mean reply of played sessions, in tokens."""
    replies = [t.reported_tokens for p in played for t in p.turns if t.reported_tokens]
    return sum(replies) / len(replies) if replies else _UNKNOWN_REPLY


async def expected_context(
    http: PlainClient,
    model: str,
    sessions: Sequence[Session],
    reply: float,
    history: HistoryPolicy = "own",
) -> float | None:
    """Tokens that a lane holds on average while it plays these sessions.

    Each turn's prompt is counted by the engine's own tokenizer and template, a mean reply
    standing for each of the model's own, which may be far shorter than those of the file; half
    of one comes on top. Turns weigh alike, as a turn's time goes by its reply. It is asked of the
    workload's own sessions: their prompts differ by a hundred times, and a probe of a few would
    miss that. None where the endpoint can't count messages.
    """
    unique = list({s.id: s for s in sessions}.values())
    contexts: list[float] = []

    async def one(session: Session) -> None:
        messages: list[dict[str, Any]] = []
        missing = 0.0
        for turn in session.turns:
            messages += turn.messages
            ids = await http.tokenize(model, messages=messages, tools=session.tools)
            if ids is None:
                raise _NoCount
            contexts.append(len(ids) + missing + reply / 2)
            recorded = turn.recorded
            # Calls stay: the results that follow belong to them.
            if recorded is None or (history == "own" and not recorded.get("tool_calls")):
                missing += reply
                messages.append({"role": "assistant", "content": "…"})
            else:
                messages.append(recorded)

    try:
        for start in range(0, len(unique), _AT_ONCE):
            await together(one(s) for s in unique[start : start + _AT_ONCE])
    except (_NoCount, JudgeError):  # it refuses messages or tools: then it can't count them
        return None
    return sum(contexts) / len(contexts) if contexts else None


class _NoCount(Exception):
    pass


def mean_live_context(played: Sequence[PlayRecord]) -> float | None:
    """Tokens that a lane held in the KV cache, averaged over the time that it was busy.

    A turn holds its prompt and, on average, half of its reply. None where the endpoint reports
    no prompt tokens.
    """
    held = busy = 0.0
    for play in played:
        for turn in play.turns:
            if turn.prompt_tokens is not None and turn.last_s is not None:
                seconds = turn.last_s - turn.sent_s
                held += seconds * (turn.prompt_tokens + (turn.reported_tokens or 0) / 2)
                busy += seconds
    return held / busy if busy else None


def far_off(lanes: int, corrected: int) -> bool:
    """Whether an estimate was too far off for one probe to show what the corrected one holds."""
    return abs(corrected - lanes) > lanes / 4


def kv_lanes(kv_tokens: float | None, context: float | None, fill: float) -> int:
    """How many lanes fill the share ``fill`` of the stock's KV cache, to a first estimate.

    Both arms get this number: a draft that takes room from the cache must show in the
    candidate's speed, not in fewer lanes. Raises JudgeError where a figure is unknown.
    """
    if kv_tokens is None or context is None:
        unknown = "the size of its KV cache" if kv_tokens is None else "its prompts' tokens"
        raise JudgeError(
            f'lanes = "kv" can\'t be worked out: the stock engine does not tell {unknown}; '
            f"give the workload a number of lanes"
        )
    return max(1, int(kv_tokens * fill / context))


def corrected_lanes(lanes: int, fill: float, seen: Mapping[str, float] | None) -> int:
    """The lanes that fill ``fill`` of the cache, by what ``lanes`` held of it in a probe.

    ``seen``: mean in_flight, kv_usage and waiting of the looks at it. Sessions share prefixes, and
    long turns hold more for longer: a count of tokens knows neither, the engine's own use of its
    cache both. Unchanged where the use is within ``SLACK`` of what is meant, where the engine
    doesn't tell it or was looked at too seldom, or where requests waited though there was room:
    then something else bounds what runs at once, and more lanes would only wait.
    """
    if seen is None or seen["samples"] < ENOUGH_LOOKS or not seen.get("kv_usage_mean"):
        return lanes
    use = seen["kv_usage_mean"]
    if abs(use - fill) <= SLACK:
        return lanes
    if use < fill and seen.get("waiting_mean", 0.0) > _WAITING_SHARE * lanes:
        return lanes
    wanted = round(lanes * fill / use)
    return max(1, min(wanted, _MOST_TIMES * lanes))
