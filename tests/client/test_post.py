"""Calls whose answer is one large body."""

import asyncio

import pytest

from loadjudge.client import connection
from loadjudge.client.client import LoadClient
from loadjudge.client.connection import Timeouts
from loadjudge.client.failures import CallError
from loadjudge.client.http import PlainClient
from loadjudge.errors import JudgeError

from .conftest import Peer, Script, Serve

LARGE = bytes(range(256)) * (5 << 12)  # 5 MiB
JSON = b"content-type: application/json"


def says(status: str, body: bytes, *headers: bytes) -> Script:
    """Answers every request so."""

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            peer.plain(status, body, *headers)

    return script


async def chunked(peer: Peer) -> None:
    while True:
        await peer.request()
        peer.send(b"HTTP/1.1 200 OK\r\n%b\r\ntransfer-encoding: chunked\r\n\r\n" % JSON)
        for start in range(0, len(LARGE), 1 << 20):
            peer.chunk(LARGE[start : start + (1 << 20)])
        peer.send(b"0\r\n\r\n")


async def until_closed(peer: Peer) -> None:
    await peer.request()
    peer.send(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" + LARGE)
    await peer.drained()


@pytest.mark.parametrize(
    ("script", "connections"),
    [(says("200 OK", LARGE, JSON), 1), (says("200 OK", LARGE), 1), (chunked, 1), (until_closed, 3)],
    ids=["length", "no type", "chunked", "until closed"],
)
@pytest.mark.parametrize("unix", [False, True])
async def test_a_large_body_comes_whole(
    serve: Serve, script: Script, connections: int, unix: bool
) -> None:
    server = await serve(script, unix=unix)
    async with LoadClient(server.url) as client:
        for _ in range(3):
            assert await client.post("/completions", b"{}") == (200, LARGE)
    assert server.connections == connections


async def test_the_request_is_as_it_should_be(serve: Serve) -> None:
    seen = []

    async def script(peer: Peer) -> None:
        seen.append(await peer.request())
        peer.plain("200 OK", b"{}")
        await peer.gone()

    server = await serve(script)
    async with LoadClient(server.url, api_key="sk-1") as client:
        assert await client.post("/completions", b'{"n":1}') == (200, b"{}")
    [(line, headers, body)] = seen
    assert line == "POST /v1/completions HTTP/1.1"
    assert (headers["authorization"], headers["accept"]) == ("Bearer sk-1", "application/json")
    assert body == b'{"n":1}'


async def test_many_at_once(serve: Serve) -> None:
    server = await serve(chunked)
    async with LoadClient(server.url) as client:
        answers = await asyncio.gather(*(client.post("/x", b"{}") for _ in range(8)))
    assert answers == [(200, LARGE)] * 8


async def test_a_refusal_comes_with_its_body(serve: Serve) -> None:
    server = await serve(says("400 Bad Request", LARGE, JSON))
    async with LoadClient(server.url) as client:
        assert await client.post("/completions", b"{}") == (400, LARGE)


async def test_a_body_that_is_cut_is_a_failure(serve: Serve) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 9999999\r\n\r\n" + LARGE)
        await peer.drained()

    server = await serve(script)
    async with LoadClient(server.url) as client:
        with pytest.raises(CallError, match="closed the connection in the middle") as caught:
            await client.post("/completions", b"{}")
    assert caught.value.kind == "cut"


async def test_an_endless_body_is_given_up(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while not peer.writer.is_closing():
            peer.chunk(LARGE)
            await peer.writer.drain()

    monkeypatch.setattr(connection, "WHOLE_BODY", 8 << 20)
    server = await serve(script)
    async with LoadClient(server.url) as client:
        with pytest.raises(CallError, match="larger than 8 MiB"):
            await client.post("/completions", b"{}")
        assert client.idle == 0


async def test_a_body_that_stands_still_is_a_failure(serve: Serve) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc")
        await peer.gone()

    server = await serve(script)
    async with LoadClient(server.url, timeouts=Timeouts(idle_s=0.05)) as client:
        with pytest.raises(CallError) as caught:
            await client.post("/completions", b"{}")
    assert caught.value.kind == "idle_timeout"


async def test_what_goes_wrong_is_one_sentence(serve: Serve) -> None:
    async def silent(peer: Peer) -> None:
        await peer.gone()

    refuses, waits = await serve(says("401 No", b"")), await serve(silent)
    for url, said in (
        (refuses.url, r"refused the key \(401\): set OPENAI_API_KEY or --api-key"),
        (waits.url, "did not answer in time: is it still loading"),
        ("http://127.0.0.1:1", r"can't be reached \(.*refused\): is the server up"),
    ):
        async with PlainClient(url, timeout_s=0.05) as client:
            with pytest.raises(JudgeError, match=said):
                await client.completions_as_sent({"model": "m"})
