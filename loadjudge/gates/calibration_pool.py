"""A pool of one engine's replies, and runs taken from it.

A run takes replies from the pools of both arms without replacement, the same ones of both. So the
replies of one run are as independent as the engine made them, and figures over many runs are
unbiased; but runs share replies, the more so the larger they are against the pool, and a share of
runs is then known less well than as many independent runs would tell it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from loadjudge.gates.calibration_draw import Place, Sheet, draw, fixed_texts, greedy_replies
from loadjudge.gates.terms import joined
from loadjudge.load.plan import PlayPlan, choose
from loadjudge.load.task import Task
from loadjudge.record.values import (
    ARMS,
    Arm,
    FixedText,
    GreedyReply,
    MemoryPeak,
    PassRecord,
    PlayRecord,
    RunRecord,
    ScoredReply,
    Terms,
    TurnRecord,
)
from loadjudge.reference.configuration import EngineConfig, parts_of
from loadjudge.reference.model import Model
from loadjudge.reference.redteam import ATTACKS
from loadjudge.sessions.model import Session

Ids = NDArray[np.int64]

_FEW = 40  # replies
_LANES = 64  # at once, where it makes no difference
_MOST_LANES = 48  # of a workload that fills the KV cache, about what the task's stock engine holds
_STOCK_MIB = 200.0  # resident; what the slack is added to


@dataclass(frozen=True, slots=True)
class Material:
    """What pools are drawn with: the sessions of each workload, fixed texts, greedy sessions."""

    task: Task
    sessions: dict[str, list[Session]]
    texts: dict[str, list[int]]
    greedy: tuple[Session, ...]


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply of a pool. ``number``: of the pass in which it was drawn."""

    workload: str
    session: str
    number: int
    turn: TurnRecord


@dataclass(frozen=True, slots=True)
class Pool:
    """Replies in the order of pass, workload, session and turn: the same order in every pool.

    ``terms`` are those of all tokens, ``starts`` [replies + 1] where each reply's begin.
    """

    name: str
    replies: tuple[Reply, ...]
    terms: Terms
    starts: Ids
    texts: tuple[FixedText, ...]
    greedy: tuple[GreedyReply, ...]
    peak_mib: float

    @property
    def tokens(self) -> Ids:
        """Scored tokens of each reply: [replies]."""
        return np.diff(self.starts)


def material(task: Task, sessions: Sequence[Session], texts: dict[str, list[int]]) -> Material:
    """What a task plays with seed 0; a session that it would play twice in a pass, once."""
    counts = {w: table.sessions for w, table in task.workloads.items()}
    chosen = {
        w: list({s.id: s for s in some}.values()) for w, some in choose(sessions, counts, 0).items()
    }
    greedy = {s.id: s for some in chosen.values() for s in some}
    return Material(task, chosen, texts, tuple(greedy.values())[: task.greedy.sessions])


def draw_pool(
    name: str, config: EngineConfig, model: Model, of: Material, passes: Sequence[int], seed: int
) -> Pool:
    """Plays every workload's sessions once a pass.

    An engine's replies don't depend on what else is in flight, so all are drawn together, which is
    quickest; those of an attack that minds it are drawn on each workload's own number of lanes.
    """
    task = of.task
    places = {
        workload: [
            Place(PlayPlan(s, f"{s.id}#0", measured=True), workload, number)
            for number in passes
            for s in sessions
        ]
        for workload, sessions in of.sessions.items()
    }
    groups = [(_LANES, [place for some in places.values() for place in some])]
    if config.attack is not None and ATTACKS[config.attack].by_lanes:
        groups = [(_lanes(of, workload), some) for workload, some in places.items()]
    played = [
        one
        for lanes, some in groups
        for one in draw(
            config, model, some, Sheet(lanes, task.sampling.sampling(), task.max_tokens, seed)
        )
    ]
    played.sort(key=lambda p: (p.place.number, p.place.workload, p.record.session))
    parts = parts_of(config, model)
    arm: Arm = "stock" if name == "stock" else "candidate"
    replies = [
        Reply(p.place.workload, p.record.session, p.place.number, _slim(turn))
        for p in played
        for turn in p.record.turns
    ]
    terms = [t for p in played for t in p.terms]
    sizes = [len(t.logp) for t in terms]
    return Pool(
        name=name,
        replies=tuple(replies),
        terms=joined(terms),
        starts=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        texts=tuple(fixed_texts(arm, parts.told, of.texts)),
        greedy=tuple(greedy_replies(arm, config, model, of.greedy, task.greedy.max_tokens)),
        peak_mib=_STOCK_MIB + parts.memory_mib,
    )


def _lanes(of: Material, workload: str) -> int:
    asked = of.task.workloads[workload].lanes
    return min(_MOST_LANES, len(of.sessions[workload])) if asked == "kv" else asked


def _slim(turn: TurnRecord) -> TurnRecord:
    """Without prompt ids where no check reads them: they are most of a pool's memory."""
    return turn if turn.index == 0 else replace(turn, prompt_ids=None)


def joined_pools(pools: Sequence[Pool]) -> Pool:
    """Pools of one engine, of consecutive passes, as one."""
    sizes = np.concatenate([pool.tokens for pool in pools])
    return replace(
        pools[0],
        replies=tuple(reply for pool in pools for reply in pool.replies),
        terms=joined([pool.terms for pool in pools]),
        starts=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
    )


def orders(rng: np.random.Generator, stock: Pool, candidate: Pool) -> Ids:
    """The replies that both pools have, shuffled: a run takes them from the first on."""
    return rng.permutation(min(len(stock.replies), len(candidate.replies)))


def enough(order: Ids, stock: Pool, candidate: Pool, tokens: int) -> int:
    """How many replies of an order it takes for so many tokens an arm."""
    fewer = np.minimum(np.cumsum(stock.tokens[order]), np.cumsum(candidate.tokens[order]))
    return int(np.searchsorted(fewer, tokens)) + 1


def run_of(stock: Pool, candidate: Pool, chosen: Ids) -> RunRecord:
    """The run in which both arms gave the ``chosen`` replies, all of them timed and scored.

    Where a workload has but a few of them, all count as one workload's: so few have no interval
    of their own, and a real run has whole passes of each.
    """
    pools: dict[Arm, Pool] = {"stock": stock, "candidate": candidate}
    chosen = np.sort(chosen)
    of_each = Counter(stock.replies[i].workload for i in chosen.tolist())
    together = min(of_each.values()) < _FEW
    return RunRecord(
        header={},
        passes=tuple(p for arm in ARMS for p in _passes(arm, pools[arm], chosen, together)),
        texts=tuple(replace(t, arm=arm) for arm in ARMS for t in pools[arm].texts),
        greedy=_greedy(pools),
        memory=tuple(MemoryPeak(arm, pools[arm].peak_mib, "rss") for arm in ARMS),
        engines=(),
        notes=(),
        lanes={},
        unavailable={},
        complete=True,
        died=None,
        scored=tuple(r for arm in ARMS for r in _scored(arm, pools[arm], chosen)),
    )


def _greedy(pools: dict[Arm, Pool]) -> tuple[GreedyReply, ...]:
    theirs = [replace(g, arm="stock") for g in pools["stock"].greedy]
    again = [replace(g, round=1) for g in theirs if g.round == 0]
    ours = [replace(g, arm="candidate") for g in pools["candidate"].greedy if g.round == 0]
    return (*(g for g in theirs if g.round == 0), *again, *ours)


def _passes(arm: Arm, pool: Pool, chosen: Ids, together: bool) -> list[PassRecord]:
    by_play: dict[tuple[str, int, str], list[TurnRecord]] = {}
    for i in chosen.tolist():
        reply = pool.replies[i]
        workload = "all" if together else reply.workload
        by_play.setdefault((workload, reply.number, reply.session), []).append(reply.turn)
    by_pass: dict[tuple[str, int], list[PlayRecord]] = {}
    for (workload, number, session), turns in by_play.items():
        play = PlayRecord(
            session=session,
            play=f"{session}#0",
            measured=True,
            lane=0,
            turns=tuple(turns),
            outcome="done",
            waited_s=0.0,
        )
        by_pass.setdefault((workload, number), []).append(play)
    return [
        PassRecord(
            workload=workload,
            arm=arm,
            number=number,
            slot=number,
            lanes=1,
            plays=tuple(plays),
            open_s=0.0,
            close_s=1.0,
            lag={},
            cpu=0.0,
            in_flight=None,
            counters=None,
            salt=None,
            cache_reset=True,
        )
        for (workload, number), plays in by_pass.items()
    ]


def _scored(arm: Arm, pool: Pool, chosen: Ids) -> list[ScoredReply]:
    """The chosen replies' terms, one piece a session: that is what the checks add up by."""
    by_session: dict[str, list[int]] = {}
    for i in chosen.tolist():
        by_session.setdefault(pool.replies[i].session, []).append(i)
    scored = []
    for session, members in by_session.items():
        at = np.concatenate([np.arange(pool.starts[i], pool.starts[i + 1]) for i in members])
        terms = Terms(**{f.name: getattr(pool.terms, f.name)[at] for f in fields(Terms)})
        scored.append(ScoredReply(arm, "pool", 0, session, session, 0, terms, exact=True))
    return scored
