"""A proxy in this process before an upstream that each test scripts, byte for byte."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
import uvloop

from loadjudge.proxy.exchange import Exchange
from loadjudge.proxy.options import Options
from loadjudge.proxy.server import Proxy

STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that the proxy runs on."""
    return {"uvloop": uvloop.new_event_loop}


class Peer:
    """One connection, as the upstream sees it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.raw = b""  # the head of the last request

    async def request(self) -> tuple[bytes, list[tuple[bytes, bytes]], bytes]:
        """Request line, fields in order, body. Raises IncompleteReadError at the end."""
        line, fields = await self.head()
        named = {k.lower(): v for k, v in fields}
        if named.get(b"transfer-encoding", b"").lower() == b"chunked":
            body = b""
            while size := int(await self.reader.readuntil(b"\r\n"), 16):
                body += (await self.reader.readexactly(size + 2))[:-2]
            while await self.reader.readuntil(b"\r\n") != b"\r\n":
                pass
            return line, fields, body
        return line, fields, await self.reader.readexactly(int(named.get(b"content-length", 0)))

    async def head(self) -> tuple[bytes, list[tuple[bytes, bytes]]]:
        self.raw = await self.reader.readuntil(b"\r\n\r\n")
        line, *rest = self.raw[:-4].split(b"\r\n")
        return line, [tuple(field.split(b": ", 1)) for field in rest]  # type: ignore[misc]

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def chunk(self, data: bytes) -> None:
        self.send(b"%x\r\n%b\r\n" % (len(data), data))

    def event(self, text: str) -> None:
        self.chunk(f"data: {text}\n\n".encode())

    def token(self, text: str) -> None:
        self.event(f'{{"choices":[{{"index":0,"delta":{{"content":"{text}"}}}}]}}')

    def reply(self, *tokens: str) -> None:
        """A whole streamed answer."""
        self.send(STREAM)
        for token in tokens or ("a", "b"):
            self.token(token)
        self.event('{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}')
        self.event("[DONE]")
        self.send(END)

    def plain(self, body: bytes, status: bytes = b"200 OK", *fields: bytes) -> None:
        """An answer with a length."""
        head = b"".join(field + b"\r\n" for field in (b"content-type: application/json", *fields))
        self.send(
            b"HTTP/1.1 %b\r\ncontent-length: %d\r\n%b\r\n%b" % (status, len(body), head, body)
        )

    def close(self) -> None:
        self.writer.close()

    async def gone(self) -> None:
        """Until the other side has closed."""
        try:
            while await self.reader.read(1 << 16):
                pass
        except ConnectionError:
            pass


Script = Callable[[Peer], Awaitable[None]]


class Told:
    """What observers were told; ``next`` waits for it."""

    def __init__(self) -> None:
        self.all: list[Exchange] = []
        self._queue: asyncio.Queue[Exchange] = asyncio.Queue()

    def __call__(self, exchange: Exchange) -> None:
        self.all.append(exchange)
        self._queue.put_nowait(exchange)

    async def next(self) -> Exchange:
        return await asyncio.wait_for(self._queue.get(), 30)


class Bench:
    """A proxy, its upstream's port, and what was said."""

    def __init__(self, proxy: Proxy, port: int, upstream_port: int, told: Told) -> None:
        self.proxy = proxy
        self.port = port
        self.upstream_port = upstream_port
        self.told = told
        self.said: list[str] = []
        self.url = f"http://127.0.0.1:{port}"

    async def dial(
        self, port: int | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", port or self.port)

    async def exchange(self, request: bytes, port: int | None = None) -> bytes:
        """What comes back until the connection ends; the request must ask for that."""
        reader, writer = await self.dial(port)
        writer.write(request)
        try:
            return await asyncio.wait_for(reader.read(-1), 60)
        finally:
            writer.close()


@asynccontextmanager
async def upstream(script: Script) -> AsyncIterator[int]:
    """Serves connections by a script, which is run for each."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await script(Peer(reader, writer))
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 22)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


Make = Callable[..., Awaitable[Bench]]


@pytest.fixture
async def bench() -> AsyncIterator[Make]:
    """Makes a proxy before a scripted upstream; keywords are its options."""
    async with AsyncExitStack() as stack:

        async def make(script: Script, **options: Any) -> Bench:
            port = await stack.enter_async_context(upstream(script))
            told = Told()
            said: list[str] = []
            proxy = Proxy(
                Options(f"http://127.0.0.1:{port}", port=0, **options), [told], said.append
            )
            address = await proxy.start()
            stack.push_async_callback(proxy.stop)
            made = Bench(proxy, int(address.rpartition(":")[2]), port, told)
            made.said = said
            return made

        yield make


def post(
    body: bytes, *fields: str, path: str = "/v1/chat/completions", close: bool = True
) -> bytes:
    """A chat request as it goes over the wire."""
    lines = [f"POST {path} HTTP/1.1", "Host: me", f"Content-Length: {len(body)}", *fields]
    if close:
        lines.append("Connection: close")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
