"""Lanes against a server that is scripted in the test.

The server ends a reply only once all lanes are in flight, the oldest first: a lane that stayed
idle would bring the whole pass to a stop, so no test waits for time to go by.
"""

import asyncio
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import orjson
import pytest

from loadjudge.client.client import LoadClient
from loadjudge.client.connection import Timeouts
from loadjudge.errors import JudgeError, Status
from loadjudge.load.lanes import Lanes, Played, Progress, Requests
from loadjudge.load.plan import fillers, plays, ramp_fillers, request_seed
from loadjudge.record.values import PlayRecord
from loadjudge.sessions.model import Session, Turn
from loadjudge.wire.request import Sampling

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
SORRY = b"HTTP/1.1 500 No\r\nContent-Type: application/json\r\nContent-Length: 18\r\n\r\n"
SORRY += b'{"error": "sorry"}'


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(**choice: Any) -> bytes:
    choice = {"index": 0, "delta": {}, "finish_reason": None, **choice}
    return chunk(b"data: %b\n\n" % orjson.dumps({"id": "r", "choices": [choice]}))


class Server:
    """Replies "reply N" with ids [N, 0] to request N."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.requests: list[dict[str, Any]] = []
        self.in_flight = 0
        self.most = 0
        self.answer: Callable[[dict[str, Any]], str] = lambda _: "good"
        self._turn: list[asyncio.Event] = []  # of requests in flight, the oldest first
        self._handlers: set[asyncio.Task[None]] = set()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._handlers.add(task)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                body = orjson.loads(await reader.readexactly(length))
                number = len(self.requests)
                self.requests.append(body)
                await self._reply(writer, number, self.answer(body))
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            writer.close()
        finally:
            self._handlers.discard(task)

    async def _reply(self, writer: asyncio.StreamWriter, number: int, answer: str) -> None:
        if answer == "fail":
            writer.write(SORRY)
            return
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        mine = asyncio.Event()
        self._turn.append(mine)
        if self.in_flight >= self.lanes:
            self._turn[0].set()
        try:
            writer.write(HEAD)
            if answer == "stall":
                await asyncio.Future()
            writer.write(event(delta={"content": f"reply {number}"}, token_ids=[number]))
            if answer == "stand still":
                await asyncio.Future()
            await mine.wait()
        finally:  # before the client can know of it and send the next
            self._turn.remove(mine)
            self.in_flight -= 1
        writer.write(event(finish_reason="stop", token_ids=[0]))
        writer.write(chunk(b"data: [DONE]\n\n") + chunk(b""))

    async def stop(self) -> None:
        for task in self._handlers:
            task.cancel()
        await asyncio.gather(*self._handlers)


def session(name: str, turns: int = 1, wait_s: float = 0.0) -> Session:
    said = [
        Turn(({"role": "user", "content": f"{name} {i}"},), wait_s=wait_s) for i in range(turns)
    ]
    return Session(name, "chat", tuple(said))


POOL = [session(f"pool{i}", turns=1 + i % 3) for i in range(5)]


class Bench:
    """Plays sessions on a scripted server."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.plays: list[PlayRecord] = []
        self.progress = Progress()
        self.server = Server(1)

    async def run(
        self,
        sessions: list[Session],
        lanes: int = 1,
        *,
        ramp_s: float = 0.0,
        patience_s: float = 30.0,
        answer: Callable[[dict[str, Any]], str] | None = None,
        on_play: Callable[[PlayRecord], None] | None = None,
    ) -> Played:
        self.server = Server(lanes)
        if answer:
            self.server.answer = answer
        listening = await asyncio.start_unix_server(self.server.handle, self.path, backlog=256)
        timeouts = Timeouts(first_byte_s=patience_s, idle_s=patience_s)
        try:
            async with LoadClient(f"unix:{self.path}", timeouts=timeouts) as client:
                async with asyncio.timeout(20):
                    return await self.lanes(client, sessions, lanes, ramp_s, on_play).run()
        finally:
            listening.close()
            await self.server.stop()

    def lanes(
        self, client: LoadClient, sessions: list[Session], lanes: int, ramp_s: float, on_play: Any
    ) -> Lanes:
        requests = Requests(
            model="m", sampling=Sampling(temperature=0.5), max_tokens=9, want_ids=True, salt="salt",
            extra={}, history="own", keep_reasoning=True, seed=1, workload="team", number=2,
        )  # fmt: skip
        return Lanes(
            client, requests, lanes, plays(sessions), ramp_fillers(POOL, lanes, 1),
            fillers(POOL, 1), ramp_s, on_play or self.plays.append, self.progress,
        )  # fmt: skip

    @property
    def measured(self) -> list[PlayRecord]:
        return [p for p in self.plays if p.measured]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "s")


@pytest.mark.parametrize("lanes", [1, 8, 64])
async def test_so_many_lanes_so_many_requests_in_flight_and_each_session_whole(
    bench: Bench, lanes: int
) -> None:
    sessions = [session(f"s{i}", turns=1 + i % 3) for i in range(2 * lanes)]
    played = await bench.run(sessions, lanes)
    assert bench.server.most == lanes
    assert [p.play for p in sorted(bench.measured, key=lambda p: int(p.session[1:]))] == [
        f"{s.id}#0" for s in sessions
    ]
    assert {p.outcome for p in bench.measured} == {"done"}
    assert all(len(p.turns) == 1 + int(p.session[1:]) % 3 for p in bench.measured)
    assert {p.lane for p in bench.measured} == set(range(lanes))
    assert played.open_s <= min(p.turns[0].sent_s for p in bench.measured)
    assert played.close_s >= max(p.turns[-1].last_s or 0 for p in bench.measured)
    assert (bench.progress.measured_done, bench.progress.measured) == (2 * lanes, 2 * lanes)


async def test_fillers_go_on_until_the_last_measured_session_closes_and_are_cut(
    bench: Bench,
) -> None:
    await bench.run([session("long", 30), *(session(f"s{i}") for i in range(7))], 8)
    long_at = next(i for i, p in enumerate(bench.plays) if p.session == "long")
    before, after = bench.plays[:long_at], bench.plays[long_at + 1 :]
    assert len([p for p in before if p.play.startswith("filler")]) > 3 * 7
    assert {p.outcome for p in before} == {"done"}
    assert {(p.outcome, p.measured) for p in after} == {("cut", False)}
    assert {p.lane for p in after} >= set(range(8)) - {bench.plays[long_at].lane}
    assert bench.server.in_flight == 0
    assert bench.progress.in_flight == 0


async def test_the_ramp_comes_first_and_is_not_measured(bench: Bench) -> None:
    played = await bench.run([session("a"), session("b")], 4, ramp_s=0.1)
    assert played.open_s >= 0.1
    ramp = [p for p in bench.plays if p.play.startswith("ramp")]
    assert sorted(p.lane for p in ramp) == [0, 1, 2, 3]
    starts = [p.turns[0].sent_s for p in sorted(ramp, key=lambda p: p.lane)]
    assert all(s >= 0.1 * lane / 4 for lane, s in enumerate(starts))  # spread over it


async def test_one_lane_has_no_ramp_and_no_filler(bench: Bench) -> None:
    await bench.run([session("a"), session("b", 2)])
    assert [(p.play, p.outcome) for p in bench.plays if p.turns] == [
        ("a#0", "done"),
        ("b#0", "done"),
    ]


async def test_a_reply_is_recorded_as_it_came(bench: Bench) -> None:
    await bench.run([session("a", 2)])
    [play] = bench.measured
    second = play.turns[1]
    assert (second.index, second.content, second.token_ids) == (1, "reply 1", (1, 0))
    assert (second.finish_reason, second.error, second.tokens) == ("stop", None, None)
    assert sum(n or 0 for _, n, _ in second.arrivals) == 2
    assert second.scheduled_s <= second.sent_s <= (second.first_s or 0) <= second.done_s
    assert second.first_content_s == second.first_s


async def test_later_requests_carry_the_models_earlier_replies(bench: Bench) -> None:
    await bench.run([session("a", 3)])
    assert [m["content"] for m in bench.server.requests[2]["messages"]] == [
        "a 0", "reply 0", "a 1", "reply 1", "a 2"
    ]  # fmt: skip


async def test_requests_have_their_seeds_and_fillers_a_salt_of_their_own(bench: Bench) -> None:
    await bench.run([session("a", 2)], 2)
    mine = [r for r in bench.server.requests if r["messages"][0]["content"] == "a 0"]
    assert [r["seed"] for r in mine] == [request_seed(1, "team", 2, "a#0", i) for i in (0, 1)]
    assert {r["cache_salt"] for r in mine} == {"salt"}
    others = [r for r in bench.server.requests if r not in mine]
    assert {r["cache_salt"] for r in others} == {"salt-filler"}
    assert all((r["max_tokens"], r["temperature"]) == (9, 0.5) for r in mine)


async def test_a_failed_turn_ends_its_session_and_the_lane_goes_on(bench: Bench) -> None:
    def answer(body: dict[str, Any]) -> str:
        return "fail" if body["messages"][-1]["content"] == "bad 1" else "good"

    await bench.run([session("a"), session("bad", 3), session("c")], answer=answer)
    assert [(p.session, p.outcome, len(p.turns)) for p in bench.measured] == [
        ("a", "done", 1), ("bad", "failed", 2), ("c", "done", 1)
    ]  # fmt: skip
    failed = bench.measured[1].turns[1]
    assert failed.error == ("http", "status 500: sorry")
    assert (failed.tokens, failed.arrivals, failed.content) == (None, (), "")
    assert bench.progress.failures == 1


async def test_five_failures_in_a_row_are_the_end(bench: Bench) -> None:
    with pytest.raises(JudgeError, match=r"failed 5 calls in a row, .*500: sorry \(session") as e:
        await bench.run([session(f"s{i}") for i in range(9)], answer=lambda _: "fail")
    assert e.value.status == Status.RUN
    assert len(bench.server.requests) == 5


async def test_failures_between_good_calls_are_not_in_a_row(bench: Bench) -> None:
    numbers = count()
    await bench.run(
        [session(f"s{i}") for i in range(20)],
        answer=lambda _: "good" if next(numbers) % 5 == 4 else "fail",
    )
    assert [p.outcome for p in bench.measured] == (["failed"] * 4 + ["done"]) * 4


async def test_an_end_in_the_ramp_does_not_wait_for_the_ramp(bench: Bench) -> None:
    """It was told only when the ramp was over."""
    async with asyncio.timeout(10):
        with pytest.raises(JudgeError, match="in a row"):
            await bench.run([session("a")], 2, ramp_s=60, answer=lambda _: "fail")


@pytest.mark.parametrize(
    ("answer", "why"),
    [("stall", "nothing came in 0.1 s"), ("stand still", "the stream stood still for 0.1 s")],
)
async def test_a_stall_is_the_end_at_once(bench: Bench, answer: str, why: str) -> None:
    with pytest.raises(JudgeError, match=rf"stalled: {why} \(session a, turn 1\)") as e:
        await bench.run([session("a")], patience_s=0.1, answer=lambda _: answer)
    assert e.value.status == Status.RUN
    assert len(bench.server.requests) == 1


async def test_scripted_waits_are_no_lane_time(bench: Bench) -> None:
    await bench.run([session("a", 3, wait_s=0.1)])
    [play] = bench.measured
    first, second, third = play.turns
    assert second.sent_s - first.done_s >= 0.1
    assert third.sent_s - second.done_s >= 0.1
    assert play.waited_s >= 0.2
    assert play.waited_s < 0.3  # the wait before the first turn comes before its time
    assert play.lane_s == (third.last_s or 0) - first.sent_s - play.waited_s
    assert first.sent_s - first.scheduled_s < 0.1  # a wait is no queue either


async def test_a_log_that_cannot_be_written_is_the_end(bench: Bench) -> None:
    def full(_: PlayRecord) -> None:
        raise JudgeError("the log can't be written", Status.RUN)

    with pytest.raises(JudgeError, match="the log can't be written"):
        await bench.run([session("a"), session("b")], 2, on_play=full)
    assert bench.server.in_flight == 0


async def test_an_interrupted_pass_tells_of_what_was_in_play(bench: Bench) -> None:
    reached = asyncio.Event()

    def answer(body: dict[str, Any]) -> str:
        if body["messages"][-1]["content"] != "a 1":
            return "good"
        reached.set()
        return "stand still"

    run = asyncio.create_task(bench.run([session("a", 2)], answer=answer))
    await reached.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert [(p.session, p.outcome, len(p.turns)) for p in bench.plays] == [("a", "cut", 1)]
