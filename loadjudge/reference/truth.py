"""What is true of an engine: its speed in virtual time, and in closed form at one lane.

The simulation runs the server's own scheduler, model, sampler and cost model, without HTTP and
without sleeping, under the plan of statistics.md section 1: every lane first plays one session
that isn't measured, its start spread over the ramp; then lanes take measured sessions off the
list, then fillers until the last measured session has closed. The client has no latency of its
own: a turn is sent the moment the one before it is complete (or after the wait that the session
scripts), and, as on the real engine, joins the first step that starts after that moment.
"""

import heapq
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from loadjudge.reference.chat import ReplyParser, render
from loadjudge.reference.configuration import EngineConfig, scheduler_of
from loadjudge.reference.cost import Load
from loadjudge.reference.model import Model
from loadjudge.reference.request import Output, Request
from loadjudge.reference.sampling import Sampling
from loadjudge.reference.scheduler import Scheduler
from loadjudge.sessions.model import Session, Turn

SeedOf = Callable[[int, int], int]  # (place of the measured session, turn) to seed


@dataclass(frozen=True, slots=True)
class TurnTruth:
    """One measured turn. ``computed`` and ``cached`` prompt tokens; the reply's tokens, and the
    verify steps that they took after the first token; ``ttft_s`` from sending to the first token,
    ``e2e_s`` to the last."""

    computed: int
    cached: int
    reply: int
    steps: int
    ttft_s: float
    e2e_s: float


@dataclass(frozen=True, slots=True)
class PassTruth:
    """Sums over the measured sessions of one pass, and the engine's means over all its steps.

    ``lane_seconds``: from sending each session's first turn to its last token, waits excluded.
    ``acceptance``: tokens a verify step, 1 + accepted / drafts, as the counters tell it; 1 where
    nothing was drafted. ``kv_usage``: peak share of the KV blocks.
    """

    tokens: int
    lane_seconds: float
    turns: tuple[TurnTruth, ...]
    acceptance: float
    mean_step_s: float
    kv_usage: float
    preemptions: int

    @property
    def speed(self) -> float:
        """Tokens a lane-second."""
        return self.tokens / self.lane_seconds


@dataclass(frozen=True, slots=True)
class Speedup:
    """Ratio of the arms' tokens a lane-second, pooled over seeds; ``se`` by the jackknife over
    seeds, on the ratio's own scale."""

    ratio: float
    se: float
    stock: tuple[PassTruth, ...]
    candidate: tuple[PassTruth, ...]


def simulate_pass(
    config: EngineConfig,
    sessions: Sequence[Session],
    lanes: int,
    seed: int,
    sampling: Sampling,
    max_tokens: int,
    *,
    model: Model,
    ramp_s: float = 2.0,
    seed_of: SeedOf | None = None,
) -> PassTruth:
    """Plays ``sessions`` on ``lanes`` lanes in virtual time. Equal arguments, equal figures.

    ``seed_of`` gives the sampling seed of a measured session (by its place among ``sessions``)
    and turn. With the seeds of a real pass the very same replies are drawn, as they depend on
    nothing but prompt, seed and drafter: what then differs is timing alone.
    """
    playing = _Pass(config, sessions, lanes, seed, sampling, max_tokens, model, seed_of)
    return playing.run(ramp_s)


def expected_speedup(
    stock: EngineConfig,
    candidate: EngineConfig,
    sessions: Sequence[Session],
    lanes: int,
    seeds: Sequence[int],
    sampling: Sampling,
    max_tokens: int,
    *,
    model: Model,
) -> Speedup:
    """The speedup that a judge with enough passes would find."""
    arms = [
        tuple(
            simulate_pass(config, sessions, lanes, seed, sampling, max_tokens, model=model)
            for seed in seeds
        )
        for config in (stock, candidate)
    ]
    ratio = _pooled(arms[1]) / _pooled(arms[0])
    n = len(seeds)
    if n < 2:
        return Speedup(ratio, math.nan, arms[0], arms[1])
    without = np.array(
        [
            _pooled(arms[1][:i] + arms[1][i + 1 :]) / _pooled(arms[0][:i] + arms[0][i + 1 :])
            for i in range(n)
        ]
    )
    se = math.sqrt((n - 1) / n * float(((without - without.mean()) ** 2).sum()))
    return Speedup(ratio, se, arms[0], arms[1])


def tokens_per_step(turns: Sequence[TurnTruth]) -> float:
    """Mean tokens of a verify step, those without a draft included; prefill steps are not."""
    return sum(t.reply - 1 for t in turns) / max(1, sum(t.steps for t in turns))


def solo_speed(config: EngineConfig, turns: Sequence[TurnTruth], per_step: float) -> float:
    """Tokens a lane-second at one lane, in closed form from the cost model and ``per_step``.

    At one lane no step is shared. A turn that computes P prompt tokens after C cached ones, and
    whose reply has R tokens, first takes the prefill, whose last step gives the first token, then
    (R - 1) / a verify steps, where a = ``per_step``. A verify step's draft fits in the small
    batch, so that it runs at memory speed, reading C + P + R / 2 tokens of context on average:

        D = prefill(P, C) + (R - 1) / a * (overhead + weights + kv (C + P + R / 2) + draft)

    and the speed is the sum of R over the sum of D. The ratio of two arms with the same turns and
    short prefills is close to their a's ratio, less what prefill and drafting take.
    """
    cost = config.cost
    modelled = config.speculate == "draft"
    draft = Load(0, 0, 0, int(config.speculate != "none"), config.tokens if modelled else 0)
    total = 0.0
    for turn in turns:
        total += _prefill_s(config, turn)
        context = turn.cached + turn.computed + turn.reply / 2
        verify = cost.overhead_s + cost.weights_s + cost.kv_token_s * context
        total += (turn.reply - 1) / per_step * (verify + cost.draft_s(draft))
    return sum(t.reply for t in turns) / total


def _prefill_s(config: EngineConfig, turn: TurnTruth) -> float:
    chunk = config.limits.max_num_batched_tokens
    starts = range(0, turn.computed, chunk)
    return sum(
        config.cost.step_s(Load(min(chunk, turn.computed - at), 1, turn.cached + at))
        for at in starts
    )


def _pooled(passes: Sequence[PassTruth]) -> float:
    return sum(p.tokens for p in passes) / sum(p.lane_seconds for p in passes)


class _Lane:
    """One lane: the session that it plays, and where it is in it."""

    def __init__(self) -> None:
        self.session: Session | None = None
        self.measured = False
        self.place = -1  # of a measured session among them
        self.turn = 0
        self.messages: list[Mapping[str, Any]] = []
        self.calls: list[tuple[str, str]] = []  # of the last reply
        self.sent = 0.0  # virtual time at which the turn went out
        self.first = 0.0  # and at which its first token came
        self.prompt_tokens = 0
        self.reply: ReplyParser
        self.outputs: list[Output] = []


class _Pass:
    def __init__(
        self,
        config: EngineConfig,
        sessions: Sequence[Session],
        lanes: int,
        seed: int,
        sampling: Sampling,
        max_tokens: int,
        model: Model,
        seed_of: SeedOf | None,
    ) -> None:
        self._seed_of = seed_of
        self._scheduler: Scheduler = scheduler_of(config, model)
        self._sampling = sampling
        self._max_tokens = max_tokens
        self._model = model
        self._seed = seed
        self._measured = iter(enumerate(sessions))
        self._open = len(sessions)  # measured sessions not yet closed
        self._fillers = _fillers(sessions, seed)
        self._lanes = [_Lane() for _ in range(lanes)]
        self._numbers = itertools.count()
        self._arrivals: list[tuple[float, int, int]] = []  # (time, tie-break, lane)
        self._talking: dict[str, int] = {}  # request to lane
        self._lane_seconds = 0.0
        self._turns: list[TurnTruth] = []

    def run(self, ramp_s: float) -> PassTruth:
        scheduler = self._scheduler
        now = busy = usage = 0.0
        for i, lane in enumerate(self._lanes):
            lane.session = next(self._fillers)
            self._send_at(i * ramp_s / len(self._lanes), i)
        while self._open:
            if not scheduler.has_work():
                now = max(now, self._arrivals[0][0])
                self._take_arrivals(now)
            result = scheduler.step()
            usage = max(usage, scheduler.pool.usage)
            busy += result.duration_s
            # What arrives while the step runs waits for its end; the next step starts there,
            # before the clients can answer to what it gave them.
            before, now = now, now + result.duration_s
            self._take_arrivals(math.nextafter(now, before))
            for output in result.outputs:
                self._receive(output, now)
        counters = scheduler.counters
        return PassTruth(
            tokens=sum(turn.reply for turn in self._turns),
            lane_seconds=self._lane_seconds,
            turns=tuple(self._turns),
            acceptance=1 + counters.accepted / counters.drafts if counters.drafts else 1.0,
            mean_step_s=busy / counters.steps,
            kv_usage=usage,
            preemptions=counters.preemptions,
        )

    def _send_at(self, when: float, lane: int) -> None:
        heapq.heappush(self._arrivals, (when, next(self._numbers), lane))

    def _take_arrivals(self, until: float) -> None:
        while self._arrivals and self._arrivals[0][0] <= until:
            when, _, number = heapq.heappop(self._arrivals)
            self._send(when, number)

    def _send(self, when: float, number: int) -> None:
        lane = self._lanes[number]
        session = lane.session
        assert session is not None
        lane.sent = when
        lane.messages += _answered(session.turns[lane.turn], lane.calls)
        prompt = render(self._model.tokenizer, lane.messages, session.tools)
        count = next(self._numbers)
        request = Request(
            id=str(count),
            prompt=tuple(prompt),
            sampling=self._sampling,
            seed=self._request_seed(lane, count),
            max_tokens=session.max_tokens or self._max_tokens,
        )
        lane.prompt_tokens = len(prompt)
        lane.reply, lane.outputs = ReplyParser(self._model.tokenizer), []
        self._talking[request.id] = number
        self._scheduler.add(request)

    def _request_seed(self, lane: _Lane, count: int) -> int:
        if lane.measured and self._seed_of is not None:
            return self._seed_of(lane.place, lane.turn)
        return hash((self._seed, count)) % 2**64

    def _receive(self, output: Output, now: float) -> None:
        number = self._talking[output.id]
        lane = self._lanes[number]
        lane.reply.feed(output.tokens, last=output.finish is not None)
        if not lane.outputs:
            lane.first = now
        lane.outputs.append(output)
        if output.finish is None:
            return
        del self._talking[output.id]
        self._close_turn(lane, now)
        session = lane.session
        assert session is not None
        lane.turn += 1
        if lane.turn == len(session.turns):
            self._next_session(lane)
            session = lane.session
            assert session is not None
        self._send_at(now + session.turns[lane.turn].wait_s, number)

    def _close_turn(self, lane: _Lane, now: float) -> None:
        calls = [{"function": {"name": n, "arguments": a}} for n, a in lane.reply.calls]
        lane.calls = list(lane.reply.calls)
        lane.messages.append(
            {"role": "assistant", "content": lane.reply.content, "tool_calls": calls}
        )
        if not lane.measured:
            return
        # The next turn goes out at once, so a session's lane time is the sum of its turns'.
        self._lane_seconds += now - lane.sent
        cached = lane.outputs[0].cached
        self._turns.append(
            TurnTruth(
                computed=lane.prompt_tokens - cached,
                cached=cached,
                reply=sum(len(o.tokens) for o in lane.outputs),
                steps=len(lane.outputs) - 1,
                ttft_s=lane.first - lane.sent,
                e2e_s=now - lane.sent,
            )
        )

    def _next_session(self, lane: _Lane) -> None:
        if lane.measured:
            self._open -= 1
        place, session = next(self._measured, (-1, None))
        lane.measured, lane.place = session is not None, place
        lane.session = session or next(self._fillers)
        lane.turn, lane.messages, lane.calls = 0, [], []


def _fillers(sessions: Sequence[Session], seed: int) -> Iterator[Session]:
    """Sessions without end, in a seeded order."""
    rng = np.random.default_rng(seed)
    while True:
        for i in rng.permutation(len(sessions)).tolist():
            yield sessions[i]


def _answered(turn: Turn, calls: Sequence[tuple[str, str]]) -> list[Mapping[str, Any]]:
    """A turn's messages; a tool message goes in as the user's where the reply made no such call."""
    messages: list[Mapping[str, Any]] = []
    answered = 0
    for message in turn.messages:
        if message.get("role") == "tool":
            answered += 1
            if answered > len(calls):
                message = {"role": "user", "content": message.get("content")}
        messages.append(message)
    return messages
