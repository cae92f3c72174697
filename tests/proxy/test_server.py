"""The page, the state, and what observers are told."""

import asyncio

import orjson
import pytest

from loadjudge.proxy.live import Incidents
from loadjudge.proxy.options import parse_split
from tests.proxy.conftest import Make, Peer, post


async def replies(peer: Peer) -> None:
    while True:
        await peer.request()
        peer.reply("a", "b")


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: me\r\nConnection: close\r\n\r\n".encode()


async def test_the_page_is_one_file_that_needs_nothing_else(bench: Make) -> None:
    made = await bench(replies)
    head, _, page = (await made.exchange(get("/loadjudge"))).partition(b"\r\n\r\n")
    assert b"text/html; charset=utf-8" in head
    assert b"prefers-color-scheme: dark" in page
    for link in (b"http://", b"https://", b"//cdn", b"@import", b"src="):
        assert link not in page.replace(b"http://www.w3.org/2000/svg", b"")
    assert b"innerHTML" not in page  # what comes from elsewhere goes in as text
    assert (await made.exchange(post(b"", path="/loadjudge"))).startswith(b"HTTP/1.1 405")


async def test_the_json_beside_it(bench: Make) -> None:
    made = await bench(replies)
    for _ in range(3):
        await made.exchange(post(b"{}"))
        await made.told.next()
    body = (await made.exchange(get("/loadjudge.json"))).partition(b"\r\n\r\n")[2]
    state = orjson.loads(body)
    (arm,) = state["arms"]
    assert (arm["arm"], arm["requests"], arm["errors"]) == ("stock", 3, {})
    assert arm["statuses"] == {"2xx": 3}
    assert arm["paths"] == {"/v1/chat/completions": 3}
    assert arm["latencies"]["ttft_s"]["n"] == 3
    assert state["requests"] == 3
    assert state["recording"] is None
    assert state["split_sessions"] is None


async def test_it_stops_at_once_where_only_idle_connections_are_left(bench: Make) -> None:
    made = await bench(replies)
    reader, writer = await made.dial()
    writer.write(post(b"{}", close=False))
    await reader.readuntil(b"0\r\n\r\n")
    await asyncio.wait_for(made.proxy.stop(), 2)
    assert await reader.read(-1) == b""
    writer.close()


def test_what_goes_wrong_often_is_said_now_and_then() -> None:
    said: list[str] = []
    incidents = Incidents(said.append, every_s=60)
    for number in range(100):
        incidents.tell("cut", f"the {number}th")
    incidents.tell("reset", "another")
    assert said == ["cut: the 0th", "reset: another"]
    assert {i["kind"]: i["count"] for i in incidents.listed()} == {"cut": 100, "reset": 1}
    for number in range(100):
        incidents.tell(f"kind {number}", "x")
    assert len(incidents.listed()) <= 30


@pytest.mark.parametrize(
    ("text", "share", "url"),
    [("10:http://b:8000/v1", 0.1, "http://b:8000/v1"), ("0.5:unix:/s", 0.005, "unix:/s")],
)
def test_a_share_and_where_it_goes(text: str, share: float, url: str) -> None:
    assert parse_split(text) == (pytest.approx(share), url)
