"""Replies of the embedded engines, drawn by their own scheduler, without HTTP and without a clock.

Every play of a pool is a session played as the judge plays it: the same messages, lanes and
seeds. Replies are scored by the exact model, as the judge's own scorer would.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from loadjudge.gates.lookup import proposals
from loadjudge.gates.scorers.timed import tokens_to_score
from loadjudge.gates.terms import joined, terms
from loadjudge.load.counting import decodes_to, spoken
from loadjudge.load.history import History
from loadjudge.load.plan import PlayPlan, request_seed
from loadjudge.record.values import (
    Arm,
    CountSource,
    FixedText,
    GreedyReply,
    PlayRecord,
    Terms,
    TurnRecord,
)
from loadjudge.reference.chat import ReplyParser, render
from loadjudge.reference.configuration import EngineConfig, parts_of, scheduler_of
from loadjudge.reference.logprobs import LEAST
from loadjudge.reference.model import Model
from loadjudge.reference.redteam import Parts
from loadjudge.reference.request import Output, Request
from loadjudge.reference.sampling import Sampling as Drawing
from loadjudge.reference.sampling import top_ids
from loadjudge.reference.tokenizer import END
from loadjudge.sessions.model import Session
from loadjudge.wire.reply import Reply, ToolCall
from loadjudge.wire.request import Sampling

ENDS = (END,)


@dataclass(frozen=True, slots=True)
class Sheet:
    """What sessions are played with: how many at once, how replies are drawn, and how long they
    get."""

    lanes: int
    sampling: Sampling
    max_tokens: int
    seed: int


@dataclass(frozen=True, slots=True)
class Place:
    """A play, and the workload and the pass that it belongs to, which make its seeds."""

    plan: PlayPlan
    workload: str
    number: int = 0


@dataclass(frozen=True, slots=True)
class Played:
    """One session's play, and what the target says of each of its replies."""

    place: Place
    record: PlayRecord
    terms: tuple[Terms, ...]


def draw(config: EngineConfig, model: Model, plays: Iterable[Place], sheet: Sheet) -> list[Played]:
    """Plays sessions on an engine and scores every reply with ``model``, the true target."""
    return [
        Played(place, record, tuple(score(model, t, sheet.sampling) for t in record.turns))
        for place, record in _Engine(config, model, sheet).play(plays)
    ]


def score(model: Model, turn: TurnRecord, sampling: Sampling) -> Terms:
    """The terms of one reply, as the exact scorer gives them.

    Where top k bounds what can be drawn, its k log-probabilities are all that q needs.
    """
    prompt = list(turn.prompt_ids or ())
    reply = tokens_to_score(turn, ENDS)
    ids = [*prompt, *reply]
    copies = proposals(prompt, reply)
    parts = []
    for at, p in model.score(ids, len(prompt)):
        own = np.asarray(ids[at : at + len(p)])
        rows = np.arange(len(own))
        columns = top_ids(p, sampling.top_k) if sampling.top_k else None
        kept = p if columns is None else np.take_along_axis(p, columns, axis=1)
        with np.errstate(divide="ignore"):
            logp = np.maximum(np.log(kept.astype(np.float64)), LEAST)
            of_own = np.maximum(np.log(p[rows, own].astype(np.float64)), LEAST)
        some = copies[at - len(prompt) : at - len(prompt) + len(p)]
        parts.append(terms(logp, columns, own.tolist(), sampling, ENDS, of_own, some))
    return joined(parts)


def fixed_texts(arm: Arm, told: Model, texts: Mapping[str, Sequence[int]]) -> list[FixedText]:
    """What an engine says of fixed texts' tokens."""
    found = []
    for name, ids in texts.items():
        logs: list[float] = []
        for at, p in told.score(ids, 1):
            own = p[np.arange(len(p)), np.asarray(ids[at : at + len(p)])].astype(np.float64)
            with np.errstate(divide="ignore"):
                logs += np.maximum(np.log(own), LEAST).tolist()
        found.append(FixedText(arm, name, tuple(ids), tuple(logs)))
    return found


def greedy_replies(
    arm: Arm, config: EngineConfig, model: Model, sessions: Sequence[Session], max_tokens: int
) -> list[GreedyReply]:
    """Temperature-0 replies to the sessions' first turns; stock gives them twice."""
    sheet = Sheet(len(sessions), Sampling(temperature=0.0), max_tokens, 0)
    plays = [Place(PlayPlan(s, s.id, True, turns=1), "greedy") for s in sessions]
    records = [r for _, r in _Engine(config, model, sheet).play(plays)]
    return [
        GreedyReply(arm, round, r.session, spoken(r.turns[0]), r.turns[0].token_ids)
        for round in range(2 if arm == "stock" else 1)
        for r in records
    ]


class _Lane:
    """One lane: the play that it is at."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.plan = place.plan
        self.history = History(place.plan.session, "own", keep_reasoning=True)
        self.turns: list[TurnRecord] = []
        self.prompt: list[int] = []
        self.sent = 0.0
        self.parser: ReplyParser
        self.ids: list[int] = []
        self.arrivals: list[tuple[float, int | None, int]] = []

    @property
    def over(self) -> bool:
        turns = self.plan.session.turns
        return len(self.turns) == min(len(turns), self.plan.turns or len(turns))


class _Engine:
    """A scheduler and the lanes that it serves, in the virtual time of its own steps."""

    def __init__(self, config: EngineConfig, model: Model, sheet: Sheet) -> None:
        self._parts: Parts = parts_of(config, model)
        self._scheduler = scheduler_of(config, model, self._parts)
        self._tokenizer = model.tokenizer
        self._sheet = sheet
        sampling = sheet.sampling
        self._sampling = Drawing(sampling.temperature, sampling.top_k or 0, sampling.top_p)
        self._lanes: dict[str, _Lane] = {}
        self._now = 0.0

    def play(self, plays: Iterable[Place]) -> list[tuple[Place, PlayRecord]]:
        """All plays, a lane each as lanes get free; in the order in which they close."""
        waiting = deque(plays)
        closed: list[tuple[Place, PlayRecord]] = []
        while waiting or self._lanes:
            while waiting and len(self._lanes) < self._sheet.lanes:
                self._send(_Lane(waiting.popleft()))
            result = self._scheduler.step()
            self._now += result.duration_s
            for output in result.outputs:
                lane = self._lanes[output.id]
                self._receive(lane, output)
                if output.finish is None:
                    continue
                del self._lanes[output.id]
                if lane.over:
                    closed.append((lane.place, _record(lane)))
                else:
                    self._send(lane)
        return closed

    def _send(self, lane: _Lane) -> None:
        session, turn = lane.plan.session, len(lane.turns)
        sheet = self._sheet
        messages = lane.history.begin(session.turns[turn])
        lane.prompt = render(self._tokenizer, messages, session.tools)
        lane.parser = ReplyParser(self._tokenizer)
        lane.ids, lane.arrivals, lane.sent = [], [], self._now
        place, play = lane.place, lane.plan.play
        name = f"{place.workload}/{place.number}/{play}/{turn}"
        self._lanes[name] = lane
        self._scheduler.add(
            Request(
                id=name,
                prompt=tuple(lane.prompt),
                sampling=self._sampling,
                seed=request_seed(sheet.seed, place.workload, place.number, play, turn),
                max_tokens=session.max_tokens or sheet.max_tokens,
            )
        )

    def _receive(self, lane: _Lane, output: Output) -> None:
        delta = lane.parser.feed(output.tokens, last=output.finish is not None)
        ids = self._parts.report.ids(output.tokens)
        characters = len(delta.content) + sum(
            len(c.arguments) + len(c.name or "") for c in delta.calls
        )
        lane.ids += ids
        lane.arrivals.append((self._now, len(ids), characters))
        if output.finish is None:
            return
        turn = self._turn(lane, output)
        lane.history.end(lane.plan.session.turns[len(lane.turns)], _reply(turn))
        lane.turns.append(turn)

    def _turn(self, lane: _Lane, output: Output) -> TurnRecord:
        calls = tuple(
            {"id": f"call-{len(lane.turns)}-{i}", "name": n, "arguments": a}
            for i, (n, a) in enumerate(lane.parser.calls)
        )
        finish = "tool_calls" if calls and output.finish == "stop" else output.finish
        turn = TurnRecord(
            index=len(lane.turns),
            scheduled_s=lane.sent,
            sent_s=lane.sent,
            done_s=self._now,
            arrivals=tuple(lane.arrivals),
            first_content_s=lane.arrivals[0][0],
            finish_reason=finish,
            tokens=len(lane.ids),
            source="ids",
            reported_tokens=self._parts.report.usage(len(lane.ids)),
            prompt_tokens=len(lane.prompt),
            cached_tokens=output.cached,
            content=lane.parser.content,
            reasoning="",
            tool_calls=calls,
            token_ids=tuple(lane.ids),
            prompt_ids=tuple(lane.prompt),
            error=None,
            converted_results=lane.history.converted_results,
            repaired_calls=lane.history.repaired_calls,
            connected=False,
            resends=0,
        )
        return self._counted(turn)

    def _counted(self, turn: TurnRecord) -> TurnRecord:
        """With its trusted count (statistics, section 4)."""
        if decodes_to(self._tokenizer.decode(turn.token_ids or ()), turn):
            return turn
        counted = len(self._tokenizer.encode(spoken(turn))) + (turn.finish_reason != "length")
        source: CountSource = "tokenizer"
        return replace(turn, tokens=counted, source=source)


def _reply(turn: TurnRecord) -> Reply:
    """The part of a streamed reply that goes into the history."""
    return Reply(
        content=turn.content,
        reasoning="",
        reasoning_field=None,
        tool_calls=tuple(ToolCall(**call) for call in turn.tool_calls),
        finish_reason=turn.finish_reason,
        token_ids=turn.token_ids,
        prompt_token_ids=None,
        usage=None,
        arrivals=(),
        t_first_content_ns=None,
        done=True,
    )


def _record(lane: _Lane) -> PlayRecord:
    return PlayRecord(
        session=lane.plan.session.id,
        play=lane.plan.play,
        measured=True,
        lane=0,
        turns=tuple(lane.turns),
        outcome="done",
        waited_s=0.0,
    )
