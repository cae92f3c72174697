"""Which timed replies are scored, and which tokens of them. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadjudge.gates.scorers.scorer import Unavailable
from loadjudge.random import generator
from loadjudge.record.values import ARMS, Arm, PassRecord, TurnRecord
from loadjudge.wire.request import Sampling

# Of --extra-body: what makes another distribution of p, which nothing here knows of.
_RESHAPING = frozenset(
    (
        *("min_p", "typical_p", "logit_bias", "allowed_token_ids", "bad_words", "min_tokens"),
        *("presence_penalty", "frequency_penalty", "repetition_penalty", "length_penalty"),
        *("ignore_eos", "stop", "stop_token_ids", "use_beam_search", "logits_processors"),
        *("response_format", "structured_outputs", "guided_json", "guided_regex"),
        *("guided_choice", "guided_grammar"),
    )
)
_DRAWING = ("temperature", "top_p", "top_k")

_MOST_ENDS = 4  # Qwen has 2, Llama 3.1 has 3

Key = tuple[str, int, str, int]  # workload, pass, play, turn: what both arms have one reply of


@dataclass(frozen=True, slots=True)
class Pick:
    """A measured reply that can be scored."""

    arm: Arm
    key: Key
    session: str
    turn: TurnRecord

    @property
    def tokens(self) -> int:
        return len(self.turn.token_ids or ())


def sampling_of(header: Mapping[str, Any]) -> Sampling:
    """How the timed replies of a run were drawn: its task's sampling and its extra body.

    Raises Unavailable where the extra body changes the distribution in another way.
    """
    extra: Mapping[str, Any] = header.get("extra_body") or {}
    beyond = sorted(_RESHAPING & extra.keys())
    if beyond:
        raise Unavailable(
            f"the extra body sets {', '.join(beyond)}, and what that makes of the target's "
            "distribution is not known"
        )
    asked: dict[str, Any] = dict((header.get("task") or {}).get("sampling") or {})
    asked |= {name: extra[name] for name in _DRAWING if extra.get(name) is not None}
    return Sampling(**{name: asked[name] for name in _DRAWING if name in asked})


def choose(
    passes: Sequence[PassRecord],
    tokens: int,
    seed: int,
    scored: Collection[tuple[Arm, Key]] = (),
) -> list[Pick]:
    """Whole replies of about ``tokens`` tokens an arm, less those that are ``scored`` already.

    Workloads take turns, and in a workload its sessions; which of a session's replies comes when
    is drawn. Where both arms have a reply in the same place both are taken, next to each other,
    so that what is scored is balanced whenever it ends; what only one arm has comes last, as many
    of the one as of the other.
    """
    replies: dict[Arm, dict[Key, Pick]] = {arm: {} for arm in ARMS}
    for pick in _scorable(passes):
        replies[pick.arm][pick.key] = pick
    stock, candidate = (replies[arm] for arm in ARMS)
    paired = [(stock[k], candidate[k]) for k in _in_turn(stock, seed) if k in candidate]
    alone = zip(
        (stock[k] for k in _in_turn(stock, seed) if k not in candidate),
        (candidate[k] for k in _in_turn(candidate, seed) if k not in stock),
        strict=False,
    )
    taken = Counter(dict.fromkeys(ARMS, 0))
    for arm, key in scored:
        taken[arm] += replies[arm][key].tokens if key in replies[arm] else 0
    chosen: list[Pick] = []
    for pair in (*paired, *alone):
        if min(taken.values()) >= tokens:
            break
        for pick in pair:
            if (pick.arm, pick.key) not in scored:
                chosen.append(pick)
                taken[pick.arm] += pick.tokens
    return chosen


def unscorable(passes: Sequence[PassRecord]) -> dict[Arm, dict[str, int]]:
    """How many measured replies of an arm can't be scored, by reason."""
    why: dict[Arm, Counter[str]] = {arm: Counter() for arm in ARMS}
    for arm, _, _, turn in _measured(passes):
        reason = _reason(turn)
        if reason is not None:
            why[arm][reason] += 1
    return {arm: dict(counted) for arm, counted in why.items()}


def tokens_to_score(turn: TurnRecord, end_ids: Sequence[int]) -> tuple[int, ...]:
    """A reply's tokens; one that ended by itself is scored with its end.

    vLLM's and the embedded engine's ids hold the end token. Where an engine's don't, or a
    candidate leaves it out, it is added: a reply that was cut short and called ended shows there.
    """
    ids = turn.token_ids or ()
    ended = turn.finish_reason in ("stop", "tool_calls")
    if ended and ids and end_ids and ids[-1] not in end_ids:
        return (*ids, end_ids[0])
    return ids


def learn_end_ids(passes: Sequence[PassRecord]) -> tuple[int, ...]:
    """The end tokens, as the stock engine's own replies show them, the usual one first.

    They are few, end every reply that ended by itself, and stand nowhere else. Empty where there
    are no such tokens: then the engine's ids don't hold the end.
    """
    last: Counter[int] = Counter()
    inside: set[int] = set()
    for arm, _, _, turn in _measured(passes):
        if arm != "stock" or not turn.token_ids or turn.error is not None:
            continue
        if turn.finish_reason in ("stop", "tool_calls"):
            last[turn.token_ids[-1]] += 1
            inside.update(turn.token_ids[:-1])
        else:
            inside.update(turn.token_ids)
    if len(last) > _MOST_ENDS or inside & last.keys():
        return ()
    return tuple(token for token, _ in last.most_common())


def _measured(
    passes: Iterable[PassRecord],
) -> Iterator[tuple[Arm, Key, str, TurnRecord]]:
    for one in passes:
        for play in one.measured:
            for turn in play.turns:
                key = (one.workload, one.number, play.play, turn.index)
                yield one.arm, key, play.session, turn


def _scorable(passes: Iterable[PassRecord]) -> Iterator[Pick]:
    for arm, key, session, turn in _measured(passes):
        if _reason(turn) is None:
            yield Pick(arm, key, session, turn)


def _reason(turn: TurnRecord) -> str | None:
    """Why a reply can't be scored."""
    if turn.error is not None:
        return "failed"
    if turn.token_ids is None:
        return "no token ids"
    if not turn.token_ids:
        return "empty"
    if turn.source != "ids":
        return "token ids that are not its text"
    return None if turn.prompt_ids else "no prompt ids"


def _in_turn(replies: Mapping[Key, Pick], seed: int) -> Iterator[Key]:
    """Keys in the order in which they are scored."""
    by_workload: dict[str, dict[str, list[Key]]] = {}
    for key in sorted(replies):
        by_workload.setdefault(key[0], {}).setdefault(replies[key].session, []).append(key)
    return _round_robin(
        [
            _round_robin(_shuffled([_shuffled(k, seed, w, s) for s, k in some.items()], seed, w))
            for w, some in by_workload.items()
        ]
    )


def _shuffled(items: list[Any], seed: int, *names: str) -> list[Any]:
    order = generator(seed, "scored", *names).permutation(len(items))
    return [items[i] for i in order]


def _round_robin(queues: Iterable[Iterable[Key]]) -> Iterator[Key]:
    """The first of each, the second of each, and so on."""
    waiting = [iter(queue) for queue in queues]
    while waiting:
        left = []
        for queue in waiting:
            for key in queue:
                left.append(queue)
                yield key
                break
        waiting = left
