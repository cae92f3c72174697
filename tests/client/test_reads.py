"""Reads are stamped before any of their turn is parsed, and never out of order."""

import asyncio

import pytest

from loadjudge.client import connection
from loadjudge.client.client import LoadClient
from loadjudge.client.reads import Reads
from loadjudge.wire.request import chat_body

from .conftest import HEAD, Peer, Serve


class Noting:
    def __init__(self) -> None:
        self.seen: list[tuple[int, bytes]] = []

    def parse(self, t_ns: int, data: bytes) -> None:
        self.seen.append((t_ns, data))


async def test_reads_wait_for_the_end_of_the_turn() -> None:
    reads, reader = Reads(), Noting()
    reads.add(reader, 1, b"a")
    reads.add(reader, 2, b"b")
    assert reader.seen == []
    await asyncio.sleep(0)
    assert reader.seen == [(1, b"a"), (2, b"b")]
    reads.add(reader, 3, b"c")
    reads.parse()
    assert reader.seen[2:] == [(3, b"c")]
    await asyncio.sleep(0)
    assert len(reader.seen) == 3


async def test_bytes_that_come_with_the_end_are_parsed_before_it(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(HEAD)
        peer.event('{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}')
        peer.event("[DONE]")  # and closes: data and end may be there in one turn

    ends: list[int] = []
    whole_end = connection.Connection._end

    def end(self: connection.Connection, error: Exception | None) -> None:
        ends.append(self._bytes_in)
        whole_end(self, error)

    monkeypatch.setattr(connection.Connection, "_end", end)
    server = await serve(script)
    body = chat_body("m", [{"role": "user", "content": "hi"}])
    async with LoadClient(server.url) as client:
        call = await client.chat(body)
    assert call.reply.content == "a"
    assert ends[0] == call.bytes_in
