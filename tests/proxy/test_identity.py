"""500 varied requests: through the proxy the same bytes come back as without it."""

import asyncio
import gzip
import hashlib
import random

import orjson

from tests.proxy.conftest import END, STREAM, Bench, Make, Peer, post

_NUMBER = 500
_AT_ONCE = 16


async def scripted(peer: Peer) -> None:
    """Answers as the request's own bytes say, so that the same request gets the same answer."""
    while True:
        line, fields, body = await peer.request()
        mark = hashlib.sha256(line + body + b"".join(v for k, v in fields if k == b"X-Kind"))
        draw = random.Random(mark.digest())
        kind = next((v for k, v in fields if k == b"X-Kind"), b"plain")
        if kind == b"stream":
            await stream(peer, draw)
        elif kind == b"dies":
            peer.send(STREAM)
            for _ in range(draw.randrange(1, 6)):
                peer.token(f"{draw.random()}")
            return
        elif kind == b"short":
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + draw.randbytes(99))
            return
        elif kind == b"closing":
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n" + draw.randbytes(5000))
            return
        elif kind == b"error":
            status = draw.choice([b"400 Bad Request", b"401 Unauthorized", b"429 Slow", b"503 No"])
            peer.plain(orjson.dumps({"error": {"message": str(draw.random())}}), status)
        elif kind == b"packed":
            peer.plain(gzip.compress(draw.randbytes(2000), mtime=0), b"200 OK",
                       b"Content-Encoding: gzip")  # fmt: skip
        elif kind == b"empty":
            peer.send(b"HTTP/1.1 204 No Content\r\nX-A: b\r\n\r\n")
        else:
            peer.plain(orjson.dumps({"sha": mark.hexdigest(), "size": len(body)}))
        await peer.writer.drain()
        if any(k.lower() == b"connection" and v == b"close" for k, v in fields):
            return


async def stream(peer: Peer, draw: random.Random) -> None:
    """Events whose borders are not those of chunks, nor those of writes."""
    calls = draw.random() < 0.3
    events = []
    for i in range(draw.randrange(1, 60)):
        delta = {"content": draw.choice(["héllo ", "☃", "\n\n", "x" * 500, ""])}
        if calls and i > 2:
            delta = {"tool_calls": [{"index": 0, "function": {"arguments": f'{{"a": {i}}}'}}]}
        events.append(orjson.dumps({"choices": [{"index": 0, "delta": delta}]}))
    if draw.random() < 0.1:
        events.append(b"{malformed")
    text = b"".join(b"data: " + event + draw.choice([b"\n\n", b"\r\n\r\n"]) for event in events)
    text += b": a comment\n\ndata: [DONE]\n\n"
    peer.send(STREAM)
    while text:
        size = draw.randrange(1, 400)
        peer.chunk(text[:size])
        text = text[size:]
        if draw.random() < 0.2:
            await peer.writer.drain()
    peer.send(END)


def requests() -> list[bytes]:
    """All kinds, prompts of up to 1 MiB among them."""
    draw = random.Random(5)
    made = []
    kinds = ["stream"] * 9 + ["plain", "dies", "short", "closing", "error", "packed", "empty"]
    for i in range(_NUMBER):
        kind = draw.choice(kinds)
        size = 1 << 20 if i % 50 == 7 else draw.randrange(0, 3000)
        prompt = "".join(draw.choices("abc é☃\n", k=size)) if size < 10_000 else "p☃" * (size // 4)
        body = orjson.dumps(
            {"messages": [{"role": "user", "content": prompt}], "n": i, "stream": kind == "stream"}
        )
        fields = [f"X-Kind: {kind}", "Content-Type: application/json", "Accept: */*"]
        if draw.random() < 0.2:
            made.append(chunked(body, fields, draw))
        else:
            path = draw.choice(["/v1/chat/completions", "/v1/completions?x=1", "/v1/other/path"])
            made.append(post(body, *fields, path=path))
    return made


def chunked(body: bytes, fields: list[str], draw: random.Random) -> bytes:
    lines = ["POST /v1/chat/completions HTTP/1.1", "Host: me", *fields]
    head = "\r\n".join([*lines, "Transfer-Encoding: chunked", "Connection: close"]).encode()
    pieces = []
    while body:
        size = draw.randrange(1, 100_000)
        pieces.append(b"%x\r\n%b\r\n" % (len(body[:size]), body[:size]))
        body = body[size:]
    return head + b"\r\n\r\n" + b"".join(pieces) + b"0\r\n\r\n"


def parted(answer: bytes) -> tuple[bytes, list[bytes], bytes, bool]:
    """Status line, end-to-end fields, the body without its framing, and whether it is whole."""
    head, _, rest = answer.partition(b"\r\n\r\n")
    line, *fields = head.split(b"\r\n")
    named = {k.lower(): v for k, v in (field.split(b": ", 1) for field in fields)}
    kept = [f for f in fields if not f.lower().startswith((b"connection:", b"transfer-encoding:"))]
    if named.get(b"transfer-encoding") != b"chunked":
        length = named.get(b"content-length")
        return line, kept, rest, length is None or len(rest) == int(length)
    body = b""
    while rest:
        size, found, rest = rest.partition(b"\r\n")
        if not found:
            break
        if int(size, 16) == 0:
            return line, kept, body, rest == b"\r\n"
        body += rest[: int(size, 16)]
        rest = rest[int(size, 16) + 2 :]
    return line, kept, body, False


async def test_500_varied_requests_come_back_byte_for_byte(bench: Make) -> None:
    made = await bench(scripted)
    gate = asyncio.Semaphore(_AT_ONCE)
    whole = 0

    async def one(request: bytes) -> None:
        nonlocal whole
        async with gate:
            direct = await made.exchange(request, made.upstream_port)
            proxied = await made.exchange(request)
        assert parted(proxied) == parted(direct)
        whole += parted(direct)[3]

    await asyncio.gather(*(one(request) for request in requests()))
    assert 0.7 * _NUMBER < whole < _NUMBER  # of both kinds there are many
    assert made.proxy.snapshot().requests == _NUMBER
    assert made.proxy.snapshot().defects == 0


async def test_clients_that_leave_anywhere_leave_nothing_behind(bench: Make) -> None:
    made = await bench(scripted)
    draw = random.Random(6)

    async def one(request: bytes) -> None:
        reader, writer = await made.dial()
        cut = draw.random()
        if cut < 0.4:  # in the middle of the request
            writer.write(request[: draw.randrange(1, len(request))])
        else:
            writer.write(request)
            if cut < 0.7:  # somewhere in the answer
                await reader.read(draw.randrange(1, 3000))
        writer.transport.abort()

    for request in requests()[:200]:
        await one(request)
    await settled(made)
    state = made.proxy.snapshot()
    assert state.in_flight == {"stock": 0, "candidate": 0}
    assert state.defects == 0
    assert b"size" in await made.exchange(post(b"{}"))  # and it serves on


async def settled(made: Bench) -> None:
    """Until all connections are gone."""
    async with asyncio.timeout(10):
        while made.proxy.snapshot().connections:  # noqa: ASYNC110 (a state, not an event)
            await asyncio.sleep(0.01)
