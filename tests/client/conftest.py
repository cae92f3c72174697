"""A small raw HTTP server whose answers each test scripts."""

import asyncio
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import uvloop

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


class Peer:
    """One connection, as the server sees it."""

    def __init__(
        self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.number = number  # of the connection, from 1
        self.calls = 0  # requests read on it
        self.reader = reader
        self.writer = writer

    async def request(self) -> tuple[str, dict[str, str], bytes]:
        """Request line, headers, body. Raises IncompleteReadError at the end."""
        line, *fields = (await self.reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
        headers = {k.lower(): v.strip() for k, v in (field.split(":", 1) for field in fields)}
        self.calls += 1
        return line, headers, await self.reader.readexactly(int(headers.get("content-length", 0)))

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def chunk(self, data: bytes) -> None:
        """One chunk of a chunked body."""
        self.send(b"%x\r\n%b\r\n" % (len(data), data))

    def event(self, text: str) -> None:
        self.chunk(b"data: " + text.encode() + b"\n\n")

    def token(self, text: str) -> None:
        self.event(f'{{"choices":[{{"index":0,"delta":{{"content":"{text}"}}}}]}}')

    def reply(self, *tokens: str) -> None:
        """A whole answer."""
        self.send(HEAD)
        for token in tokens or ("a", "b"):
            self.token(token)
        self.event('{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}')
        self.event("[DONE]")
        self.send(END)

    def plain(self, status: str, body: bytes = b"", *headers: bytes) -> None:
        """An answer with a length."""
        lines = b"".join(header + b"\r\n" for header in headers)
        self.send(
            b"HTTP/1.1 %b\r\ncontent-length: %d\r\n%b\r\n%b"
            % (status.encode(), len(body), lines, body)
        )

    async def drained(self) -> None:
        """Until all that was sent has left."""
        self.writer.transport.set_write_buffer_limits(0)
        await self.writer.drain()

    def reset(self) -> None:
        """Closes without a word."""
        self.writer.transport.abort()

    async def gone(self) -> None:
        """Until the client has closed the connection."""
        try:
            while await self.reader.read(65536):
                pass
        except ConnectionError:
            pass


Script = Callable[[Peer], Awaitable[None]]


async def until(holds: Callable[[], object]) -> None:
    """Turns the loop until the condition holds."""
    async with asyncio.timeout(5):
        while not holds():  # noqa: ASYNC110 - what is waited for sets no event
            await asyncio.sleep(0)


class Server:
    """Runs one script a connection; tells what it saw."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.url = ""
        self.connections = 0
        self.peers: list[Peer] = []
        self.errors: list[BaseException] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        peer = Peer(self.connections, reader, writer)
        self.peers.append(peer)
        try:
            await self.script(peer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except Exception as error:
            self.errors.append(error)
        finally:
            writer.close()


Serve = Callable[..., Awaitable[Server]]


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Every test here runs on both loops."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Starts scripted servers: ``await serve(script, unix=…, tls=…)``."""
    listeners: list[asyncio.Server] = []
    servers: list[Server] = []
    with tempfile.TemporaryDirectory() as folder:

        async def start(
            script: Script, *, unix: bool = False, tls: ssl.SSLContext | None = None
        ) -> Server:
            server = Server(script)
            if unix:
                path = Path(folder) / f"{len(servers)}.sock"
                listeners.append(await asyncio.start_unix_server(server.serve, path, limit=2**22))
                server.url = f"unix:{path}"
            else:
                listener = await asyncio.start_server(
                    server.serve, "127.0.0.1", 0, ssl=tls, limit=2**22, backlog=1024
                )
                listeners.append(listener)
                port = listener.sockets[0].getsockname()[1]
                server.url = f"http{'s' if tls else ''}://127.0.0.1:{port}"
            servers.append(server)
            return server

        yield start
        for server in servers:
            for peer in server.peers:
                peer.writer.transport.abort()
        for listener in listeners:
            listener.close()
            await listener.wait_closed()
        await asyncio.sleep(0)
        for server in servers:
            assert not server.errors


async def answer_all(peer: Peer) -> None:
    """Answers every request of a connection."""
    while True:
        await peer.request()
        peer.reply()


@pytest.fixture
def answering() -> Script:
    return answer_all
