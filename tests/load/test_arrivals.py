"""An open loop: sessions come when they come, whether or not those before them have ended."""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadjudge.client.client import LoadClient
from loadjudge.client.connection import Timeouts
from loadjudge.errors import JudgeError, Status
from loadjudge.load.lanes import Arrivals, Lanes, Played, Progress, Requests
from loadjudge.load.plan import fillers, plays, poisson_gaps
from loadjudge.record.values import PlayRecord
from loadjudge.sessions.model import Session
from loadjudge.wire.request import Sampling
from tests.load.test_lanes import POOL, Server, session


async def play(
    path: Path,
    sessions: list[Session],
    gaps_s: Iterator[float],
    *,
    warmups: int = 1,
    at_once: int = 1,
    patience_s: float = 30.0,
    answer: Callable[[dict[str, Any]], str] | None = None,
) -> tuple[Played, list[PlayRecord], Server]:
    """``at_once``: the server ends a reply when so many are in flight, the oldest first."""
    server = Server(at_once)
    if answer:
        server.answer = answer
    listening = await asyncio.start_unix_server(server.handle, path, backlog=256)
    played: list[PlayRecord] = []
    timeouts = Timeouts(first_byte_s=patience_s, idle_s=patience_s)
    try:
        async with LoadClient(f"unix:{path}", timeouts=timeouts) as client:
            requests = Requests(
                model="m",
                sampling=Sampling(temperature=0),
                max_tokens=9,
                want_ids=True,
                salt=None,
                extra={},
                history="own",
                keep_reasoning=True,
                seed=1,
                workload="rate-1",
                number=0,
            )
            lanes = Lanes(
                client,
                requests,
                0,
                plays(sessions),
                [],
                fillers(POOL, 1),
                0.0,
                played.append,
                Progress(),
                Arrivals(gaps_s, warmups),
            )
            async with asyncio.timeout(20):
                window = await lanes.run()
    finally:
        listening.close()
        await server.stop()
    return window, played, server


async def test_arrivals_do_not_wait_for_replies(tmp_path: Path) -> None:
    # The server ends no reply before three are in flight: a closed loop of fewer would stand.
    sessions = [session(f"s{i}") for i in range(6)]
    _, played, server = await play(tmp_path / "s", sessions, itertools.repeat(0.001), at_once=3)
    assert server.most >= 3
    measured = [p for p in played if p.measured]
    assert sorted(p.session for p in measured) == [s.id for s in sessions]
    assert {p.outcome for p in measured} == {"done"}


async def test_the_list_opens_when_warm_ups_have_ended(tmp_path: Path) -> None:
    sessions = [session(f"s{i}") for i in range(4)]
    window, played, _ = await play(tmp_path / "s", sessions, itertools.repeat(0.002), warmups=5)
    ended = [p for p in played if p.outcome == "done"]
    before = [p for p in ended if not p.measured and p.turns[-1].done_s <= window.open_s]
    assert len(before) >= 5
    first = min(p.turns[0].sent_s for p in played if p.measured)
    assert first >= window.open_s
    last = max(p.turns[-1].done_s for p in played if p.measured)
    assert window.close_s >= last


async def test_a_stall_in_one_session_ends_the_pass(tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match="stalled") as told:
        await play(
            tmp_path / "s",
            [session("s")],
            itertools.repeat(0.005),
            patience_s=0.2,
            answer=lambda _: "stall",
        )
    assert told.value.status == Status.RUN


def test_gaps_are_of_a_poisson_process() -> None:
    gaps = np.array(list(itertools.islice(poisson_gaps(4.0, 1), 20_000)))
    assert gaps.mean() == pytest.approx(0.25, rel=0.03)
    # Of an exponential the standard deviation is the mean, and e⁻¹ of it lies above.
    assert gaps.std() == pytest.approx(0.25, rel=0.04)
    assert (gaps > 0.25).mean() == pytest.approx(np.exp(-1), abs=0.015)
    again = list(itertools.islice(poisson_gaps(4.0, 1), 5))
    assert again == list(gaps[:5])
    assert again != list(itertools.islice(poisson_gaps(4.0, 2), 5))
