"""Lanes in a closed loop: each plays one session after the other, never idle, never ahead.

Design: statistics, section 1. What is timed happens here, and little else: a reply's record is
made when it has ended, and nothing waits for it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from time import monotonic_ns
from typing import Any, Literal

from loadjudge.client.client import Call, LoadClient
from loadjudge.client.failures import CallError
from loadjudge.errors import JudgeError, Status
from loadjudge.load.history import History
from loadjudge.load.plan import PlayPlan, request_seed
from loadjudge.load.task import HistoryPolicy
from loadjudge.record.values import PlayRecord, TurnRecord
from loadjudge.sessions.model import Session, Turn
from loadjudge.wire.reply import Reply
from loadjudge.wire.request import Sampling, chat_body

# An endpoint that fails so often in a row is not there any more.
_FAILURES_IN_A_ROW = 5
_STALLS = ("first_byte_timeout", "idle_timeout")


@dataclass(frozen=True, slots=True)
class Requests:
    """What all requests of a pass share."""

    model: str
    sampling: Sampling
    max_tokens: int
    want_ids: bool
    salt: str | None  # of the prefix cache; fillers have their own
    extra: dict[str, Any]
    history: HistoryPolicy
    keep_reasoning: bool
    seed: int
    workload: str
    number: int
    neutral: Mapping[str, float] = field(default_factory=dict)  # of the engine's family

    def body(self, plan: PlayPlan, turn: int, messages: list[dict[str, Any]]) -> bytes:
        salt = self.salt if plan.measured or self.salt is None else f"{self.salt}-filler"
        return chat_body(
            self.model,
            messages,
            tools=plan.session.tools,
            sampling=self.sampling,
            max_tokens=plan.session.max_tokens or self.max_tokens,
            seed=request_seed(self.seed, self.workload, self.number, plan.play, turn),
            want_ids=self.want_ids,
            cache_salt=salt,
            neutral=self.neutral,
            extra=self.extra,
        )


@dataclass(slots=True)
class Progress:
    """A pass as it goes, for whoever watches."""

    in_flight: int = 0
    turns: int = 0
    tokens: int = 0  # as the engine sends ids, else as it reports
    steps: int = 0  # reads that brought tokens
    measured_done: int = 0
    measured: int = 0
    failures: int = 0
    ttft_s: deque[float] = field(default_factory=lambda: deque(maxlen=64))


@dataclass(frozen=True, slots=True)
class Played:
    """When the measured window of a pass was, in seconds from the pass's start."""

    open_s: float
    close_s: float


class Lanes:
    """Plays one pass: ``run`` reads as its life."""

    def __init__(
        self,
        client: LoadClient,
        requests: Requests,
        lanes: int,
        measured: list[PlayPlan],
        ramp: list[PlayPlan],
        fillers: Iterator[PlayPlan],
        ramp_s: float,
        on_play: Callable[[PlayRecord], None],
        progress: Progress,
    ) -> None:
        self._client = client
        self._requests = requests
        self._lanes = lanes
        self._waiting = deque(measured)
        self._unfinished = len(measured)
        self._ramp = ramp
        self._fillers = fillers
        self._ramp_s = ramp_s
        self._on_play = on_play
        self._progress = progress
        self.opened = asyncio.Event()  # the ramp is over
        self._start_ns = 0
        self._open_s = 0.0
        self._all_closed = asyncio.Event()
        self._failures_in_a_row = 0
        progress.measured = len(measured)

    async def run(self) -> Played:
        """Ramp, measured list, fillers until the last measured session closes."""
        await self._client.open(self._lanes)
        self._start_ns = monotonic_ns()
        opener = asyncio.create_task(self._open_list())
        lanes = [asyncio.create_task(self._lane(i)) for i in range(self._lanes)]
        closed = asyncio.create_task(self._all_closed.wait())
        try:
            await asyncio.wait([closed, *lanes], return_when=asyncio.FIRST_COMPLETED)
            close_s = self._now_s()
        finally:
            for task in (opener, closed, *lanes):
                task.cancel()
            results = await asyncio.gather(*lanes, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result
        return Played(self._open_s, close_s)

    @property
    def measuring(self) -> bool:
        """The ramp is over and a measured session is open."""
        return self.opened.is_set() and not self._all_closed.is_set()

    async def _open_list(self) -> None:
        await asyncio.sleep(self._ramp_s)
        self._open_s = self._now_s()
        self.opened.set()

    async def _lane(self, lane: int) -> None:
        if self._lanes > 1:
            await asyncio.sleep(self._ramp_s * lane / self._lanes)
            await self._play(self._ramp[lane], lane)
        else:  # one lane has nobody to fall out of step with
            await self.opened.wait()
        while True:
            measured = self.opened.is_set() and self._waiting
            await self._play(self._waiting.popleft() if measured else next(self._fillers), lane)

    async def _play(self, plan: PlayPlan, lane: int) -> None:
        """Plays one session to its end, a failure, or the end of the pass."""
        history = History(plan.session, self._requests.history, self._requests.keep_reasoning)
        turns: list[TurnRecord] = []
        outcome: Literal["done", "failed", "cut"] = "cut"
        waited_s = 0.0
        try:
            for index, turn in enumerate(plan.session.turns[: plan.turns]):
                if turn.wait_s:
                    began_ns = monotonic_ns()
                    await asyncio.sleep(turn.wait_s)
                    # The wait before the first turn is no part of the lane's time.
                    waited_s += (monotonic_ns() - began_ns) / 1e9 if index else 0.0
                record = await self._turn(plan, index, turn, history)
                turns.append(record)
                if record.error:
                    outcome = "failed"
                    break
            else:
                outcome = "done"
        finally:
            self._on_play(
                PlayRecord(
                    session=plan.session.id,
                    play=plan.play,
                    measured=plan.measured,
                    lane=lane,
                    turns=tuple(turns),
                    outcome=outcome,
                    waited_s=waited_s,
                )
            )
            if plan.measured:
                self._progress.measured_done += 1
                self._unfinished -= 1
                if not self._unfinished:
                    self._all_closed.set()

    async def _turn(self, plan: PlayPlan, index: int, turn: Turn, history: History) -> TurnRecord:
        scheduled_ns = monotonic_ns()
        body = self._requests.body(plan, index, history.begin(turn))
        self._progress.in_flight += 1
        try:
            call = await self._client.chat(body, t_scheduled_ns=scheduled_ns)
        except CallError as error:
            self._count_failure(error, plan.session, index)
            return self._failed(index, error, history)
        finally:
            self._progress.in_flight -= 1
        self._failures_in_a_row = 0
        history.end(turn, call.reply)
        self._count(call)
        return self._finished(index, call, history)

    def _count(self, call: Call) -> None:
        reply, progress = call.reply, self._progress
        progress.turns += 1
        reported = reply.usage.completion_tokens if reply.usage else None
        progress.tokens += len(reply.token_ids) if reply.token_ids is not None else reported or 0
        progress.steps += len(reply.arrivals)
        if reply.arrivals:
            progress.ttft_s.append((reply.arrivals[0].t_ns - call.t_sent_ns) / 1e9)

    def _count_failure(self, error: CallError, session: Session, index: int) -> None:
        self._progress.failures += 1
        self._failures_in_a_row += 1
        where = f"session {session.id}, turn {index + 1}"
        if error.kind in _STALLS:
            raise JudgeError(
                f"the endpoint {self._client.endpoint.url} stalled: {error.message} ({where})",
                Status.RUN,
            ) from error
        if self._failures_in_a_row >= _FAILURES_IN_A_ROW:
            raise JudgeError(
                f"the endpoint {self._client.endpoint.url} failed {self._failures_in_a_row} calls "
                f"in a row, the last with {error} ({where})",
                Status.RUN,
            ) from error

    def _finished(self, index: int, call: Call, history: History) -> TurnRecord:
        reply = call.reply
        return TurnRecord(
            index=index,
            scheduled_s=self._s(call.t_scheduled_ns),
            sent_s=self._s(call.t_sent_ns),
            done_s=self._s(call.t_done_ns),
            first_content_s=(
                None if reply.t_first_content_ns is None else self._s(reply.t_first_content_ns)
            ),
            connected=call.connected,
            resends=call.retries,
            error=None,
            converted_results=history.converted_results,
            repaired_calls=history.repaired_calls,
            unanswered_calls=history.unanswered_calls,
            **self._said(reply),
        )

    def _failed(self, index: int, error: CallError, history: History) -> TurnRecord:
        sent_ns = error.t_sent_ns or error.t_scheduled_ns
        reply = error.reply_so_far or _NOTHING
        return TurnRecord(
            index=index,
            scheduled_s=self._s(error.t_scheduled_ns),
            sent_s=self._s(sent_ns),
            done_s=self._s(error.t_failed_ns),
            first_content_s=None,
            connected=False,
            resends=error.retries,
            error=(error.kind, error.message),
            converted_results=history.converted_results,
            repaired_calls=0,
            unanswered_calls=history.unanswered_calls,
            **self._said(reply),
        )

    def _said(self, reply: Reply) -> dict[str, Any]:
        usage = reply.usage
        return {
            "arrivals": tuple((self._s(a.t_ns), a.tokens, a.chars) for a in reply.arrivals),
            "finish_reason": reply.finish_reason,
            "tokens": None,  # counted when the window is over
            "source": None,
            "reported_tokens": usage.completion_tokens if usage else None,
            "prompt_tokens": usage.prompt_tokens if usage else None,
            "cached_tokens": usage.cached_tokens if usage else None,
            "content": reply.content,
            "reasoning": reply.reasoning,
            "tool_calls": tuple(
                {"id": c.id, "name": c.name, "arguments": c.arguments} for c in reply.tool_calls
            ),
            "token_ids": reply.token_ids,
            "prompt_ids": reply.prompt_token_ids,
        }

    def _now_s(self) -> float:
        return self._s(monotonic_ns())

    def _s(self, t_ns: int) -> float:
        return (t_ns - self._start_ns) / 1e9


_NOTHING = Reply(
    content="",
    reasoning="",
    reasoning_field=None,
    tool_calls=(),
    finish_reason=None,
    token_ids=None,
    prompt_token_ids=None,
    usage=None,
    arrivals=(),
    t_first_content_ns=None,
    done=False,
)
