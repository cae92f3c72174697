"""Has timed replies of both arms scored by the target, and logs what it says of them.

The replies are those that were timed, so that an engine can't behave for the gates and cheat for
the clock, and the scorer is the target in the judge's hands. A candidate's reply is scored behind
the prompt ids that the candidate recorded; that these are what stock makes of the same messages
is the integrity gate's to check. Done outside timed windows.
"""

from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from loadjudge.gates.agreement import first_difference
from loadjudge.gates.gaps import GREEDY
from loadjudge.gates.scorers.scorer import Refused, Scorer, Unavailable
from loadjudge.gates.scorers.timed import Key, Pick, choose, tokens_to_score, unscorable
from loadjudge.load.together import together
from loadjudge.record.codec import scored_event
from loadjudge.record.log import Event
from loadjudge.record.values import ARMS, Arm, GreedyReply, PassRecord, ScoredReply, Terms
from loadjudge.wire.request import Sampling

_GREEDY = Sampling(temperature=0.0)

T = TypeVar("T")
Append = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class Scoring:
    """What one call scored: replies and tokens of each arm, and whether all terms are exact.

    ``left_out``: measured replies that can't be scored, by reason. ``unavailable``: why nothing
    more can be scored here.
    """

    replies: Mapping[Arm, int]
    tokens: Mapping[Arm, int]
    left_out: Mapping[Arm, Mapping[str, int]]
    exact: bool
    unavailable: str | None = None

    def describe(self) -> str:
        """For the log and the terminal."""
        words = [f"{self.tokens[a]:,} tokens of {self.replies[a]:,} {a} replies" for a in ARMS]
        said = f"scored {' and '.join(words)}" + ("" if self.exact else ", approximately")
        left = [f"{n} {a} ({why})" for a in ARMS for why, n in self.left_out[a].items()]
        return said + (f"; can't be scored: {', '.join(left)}" if left else "")


async def score_run(
    passes: Sequence[PassRecord],
    scorer: Scorer,
    append: Append,
    *,
    sampling: Sampling,
    tokens: int,
    seed: int,
    scored: Sequence[ScoredReply] = (),
) -> Scoring:
    """Scores measured replies up to about ``tokens`` tokens an arm, those ``scored`` included.

    ``sampling`` is ``sampling_of`` the run's header. Called again with more passes or more tokens,
    it goes on where it stopped. Where the scorer can't, it logs why under ``likelihood``, so that
    the gates are n/a with that reason.
    """
    before = {(r.arm, (r.workload, r.number, r.play, r.turn)) for r in scored}
    picks = choose(passes, tokens, seed, before)
    counted: dict[str, Counter[Arm]] = {"replies": Counter(), "tokens": Counter()}
    left_out = {arm: Counter(why) for arm, why in unscorable(passes).items()}
    exact, why = True, None

    async def one(pick: Pick) -> None:
        nonlocal exact
        reply = tokens_to_score(pick.turn, scorer.end_ids)
        try:
            terms, is_exact = await scorer.score(tuple(pick.turn.prompt_ids or ()), reply, sampling)
        except Refused:
            left_out[pick.arm]["the scorer refuses it"] += 1
            return
        exact = exact and is_exact
        counted["replies"][pick.arm] += 1
        counted["tokens"][pick.arm] += len(terms.logp)
        append(scored_event(_scored(pick.arm, pick.key, pick.session, terms, is_exact)))

    try:
        await _few_at_once(picks, one, scorer.at_once)
    except Unavailable as e:
        why = e.sentence
        append({"event": "unavailable", "what": "likelihood", "why": why})
    return Scoring(
        replies={arm: counted["replies"][arm] for arm in ARMS},
        tokens={arm: counted["tokens"][arm] for arm in ARMS},
        left_out=left_out,
        exact=exact,
        unavailable=why,
    )


async def score_greedy(
    greedy: Sequence[GreedyReply],
    prompts: Mapping[str, Sequence[int]],
    scorer: Scorer,
    append: Append,
) -> None:
    """Scores both arms' greedy replies to a session up to their first difference, for near ties.

    ``prompts``: prompt ids of sessions' first turns, by session; others are left out. Raises
    Unavailable.
    """
    first = {(g.arm, g.session): g.token_ids for g in greedy if g.round == 0}

    async def one(session: str) -> None:
        pair = [first.get((arm, session)) for arm in ARMS]
        if pair[0] is None or pair[1] is None:
            return
        end = first_difference(pair[0], pair[1]) + 1
        if end > min(map(len, (pair[0], pair[1]))):
            return
        for arm, ids in zip(ARMS, pair, strict=True):
            try:
                terms, exact = await scorer.score(
                    tuple(prompts[session]), (ids or ())[:end], _GREEDY
                )
            except Refused:
                continue
            key = (GREEDY, 0, session, 0)
            append(scored_event(_scored(arm, key, session, terms, exact)))

    sessions = dict.fromkeys(g.session for g in greedy if g.session in prompts)
    await _few_at_once(list(sessions), one, scorer.at_once)


def first_prompts(passes: Sequence[PassRecord]) -> dict[str, Sequence[int]]:
    """Prompt ids of sessions' first turns as stock made them, by session."""
    return {
        play.session: play.turns[0].prompt_ids
        for one in passes
        if one.arm == "stock"
        for play in one.plays
        if play.turns and play.turns[0].prompt_ids
    }


def _scored(arm: Arm, key: Key, session: str, terms: Terms, exact: bool) -> ScoredReply:
    workload, number, play, turn = key
    return ScoredReply(
        arm=arm,
        workload=workload,
        number=number,
        session=session,
        play=play,
        turn=turn,
        terms=terms,
        exact=exact,
    )


async def _few_at_once(
    items: Sequence[T], do: Callable[[T], Coroutine[Any, Any, None]], at_once: int
) -> None:
    """All of them in their order, ``at_once`` at a time."""
    left = iter(items)

    async def work() -> None:
        for item in left:
            await do(item)

    await together(work() for _ in range(at_once))
