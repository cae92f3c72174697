"""What passes through, and what doesn't: against a raw upstream, byte for byte."""

import asyncio
import gzip
import socket
import struct
import time

import pytest

from loadjudge.proxy.options import Limits
from tests.proxy.conftest import END, STREAM, Make, Peer, post


async def echo(peer: Peer) -> None:
    """Answers every request with its own head and body."""
    while True:
        _, _, body = await peer.request()
        peer.plain(peer.raw + b"|" + body)


async def test_a_request_passes_with_its_fields_in_order_spelling_and_repetition(
    bench: Make,
) -> None:
    made = await bench(echo)
    answer = await made.exchange(
        b"POST /v1/x?a=%2F&b HTTP/1.1\r\nHost: me\r\nX-One: 1\r\nx-TWO:  2 \r\nX-One: 3\r\n"
        b"Connection: close, X-Hop\r\nX-Hop: h\r\nTE: trailers\r\nKeep-Alive: timeout=5\r\n"
        b"Proxy-Authorization: p\r\nAuthorization: Bearer k\r\nContent-Length: 2\r\n\r\nhi"
    )
    head, _, body = answer.partition(b"\r\n\r\n")
    assert body == (
        b"POST /v1/x?a=%2F&b HTTP/1.1\r\nHost: 127.0.0.1:" + str(made.upstream_port).encode()
        + b"\r\nX-One: 1\r\nx-TWO: 2 \r\nX-One: 3\r\nAuthorization: Bearer k\r\n"
        b"Content-Length: 2\r\n\r\n|hi"
    )  # fmt: skip
    assert head.startswith(b"HTTP/1.1 200 OK\r\ncontent-length: ")
    assert head.endswith(b"\r\nConnection: close")


async def test_a_field_that_ends_the_body_is_not_taken_out_by_connection(bench: Make) -> None:
    made = await bench(echo)
    answer = await made.exchange(
        b"POST /v1/x HTTP/1.1\r\nHost: me\r\nConnection: close, content-length\r\n"
        b"Content-Length: 2\r\n\r\nhi"
    )
    assert b"Content-Length: 2" in answer
    assert answer.endswith(b"|hi")


async def test_an_answer_passes_with_status_reason_and_repeated_fields(bench: Make) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.plain(b"x", b"429 Slow Down", b"Set-Cookie: a", b"Set-Cookie: b", b"Retry-After: 7",
                   b"Connection: keep-alive, x-hop", b"X-Hop: 1")  # fmt: skip

    made = await bench(script)
    answer = await made.exchange(post(b"{}"))
    assert answer == (
        b"HTTP/1.1 429 Slow Down\r\ncontent-length: 1\r\ncontent-type: application/json\r\n"
        b"Set-Cookie: a\r\nSet-Cookie: b\r\nRetry-After: 7\r\nConnection: close\r\n\r\nx"
    )
    told = await made.told.next()
    assert (told.status, told.error) == (429, "http")


async def test_a_compressed_body_passes_untouched_and_is_read_beside(bench: Make) -> None:
    packed = gzip.compress(b'{"choices":[{"message":{"content":"hi"}}],"usage":'
                           b'{"prompt_tokens":3,"completion_tokens":2},"model":"m"}')  # fmt: skip

    async def script(peer: Peer) -> None:
        await peer.request()
        peer.plain(packed, b"200 OK", b"Content-Encoding: gzip")

    made = await bench(script)
    assert (await made.exchange(post(b"{}"))).partition(b"\r\n\r\n")[2] == packed
    told = await made.told.next()
    assert (told.model, told.prompt_tokens, told.output_tokens) == ("m", 3, 2)


async def test_a_coding_that_nobody_here_reads_passes_and_is_counted(bench: Make) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.plain(b"\x0b\x02\x80hi\x03", b"200 OK", b"Content-Encoding: br")

    made = await bench(script)
    assert (await made.exchange(post(b"{}"))).endswith(b"\r\n\r\n\x0b\x02\x80hi\x03")
    told = await made.told.next()
    assert (told.error, told.output_tokens) == (None, None)
    assert made.proxy.snapshot().unread == {"content-encoding br": 1}


async def test_head_has_no_body_and_the_connection_serves_on(bench: Make) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nX-A: 1\r\n\r\n")
        await peer.request()
        peer.plain(b"second")

    made = await bench(script)
    answer = await made.exchange(
        b"HEAD /v1/models HTTP/1.1\r\nHost: me\r\n\r\n"
        b"GET /v1/models HTTP/1.1\r\nHost: me\r\nConnection: close\r\n\r\n"
    )
    first, second = answer.split(b"\r\n\r\n", 1)
    assert first == b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nX-A: 1"
    assert second.endswith(b"\r\n\r\nsecond")


async def test_expect_100_continue_waits_for_the_upstreams_word(bench: Make) -> None:
    asked = asyncio.Event()
    may = asyncio.Event()

    async def script(peer: Peer) -> None:
        _, fields = await peer.head()
        assert (b"Expect", b"100-continue") in fields
        asked.set()
        await may.wait()
        peer.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        assert await peer.reader.readexactly(2) == b"hi"
        peer.plain(b"done")

    made = await bench(script)
    reader, writer = await made.dial()
    writer.write(
        b"POST /v1/x HTTP/1.1\r\nHost: me\r\nExpect: 100-continue\r\nContent-Length: 2\r\n"
        b"Connection: close\r\n\r\n"
    )
    await asked.wait()
    waiting = asyncio.ensure_future(reader.readuntil(b"\r\n\r\n"))
    await asyncio.sleep(0)
    assert not waiting.done()
    may.set()
    assert await waiting == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(b"hi")
    assert (await reader.read(-1)).endswith(b"\r\n\r\ndone")
    writer.close()


async def test_chunked_requests_and_trailers_pass(bench: Make) -> None:
    made = await bench(echo)
    answer = await made.exchange(
        b"POST /v1/x HTTP/1.1\r\nHost: me\r\nConnection: close\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
        b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nX-T: 1\r\n\r\n"
    )
    assert b"Transfer-Encoding: chunked\r\n" in answer
    assert answer.endswith(b"|abcde")


async def test_a_wish_for_http_2_is_passed_over_with_the_body_kept(bench: Make) -> None:
    made = await bench(echo)
    answer = await made.exchange(
        b"POST /v1/x HTTP/1.1\r\nHost: me\r\nConnection: Upgrade, HTTP2-Settings, close\r\n"
        b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAA\r\nContent-Length: 3\r\nX-A: 1\r\n\r\nabc"
    )
    assert answer.endswith(b"Content-Length: 3\r\nX-A: 1\r\n\r\n|abc")
    assert b"h2c" not in answer


async def test_pipelined_requests_are_answered_in_order(bench: Make) -> None:
    made = await bench(echo)
    one = b"POST /v1/%d HTTP/1.1\r\nHost: me\r\nContent-Length: 1\r\n%b\r\n%d"
    answer = await made.exchange(
        b"".join(one % (i, b"Connection: close\r\n" if i == 4 else b"", i) for i in range(5))
    )
    assert [answer.find(b"POST /v1/%d " % i) > 0 for i in range(5)] == [True] * 5
    assert [answer.index(b"|%d" % i) for i in range(5)] == sorted(
        answer.index(b"|%d" % i) for i in range(5)
    )


async def test_an_http_1_0_client_gets_no_chunks(bench: Make) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(STREAM)
        peer.chunk(b"data: a\n\n")
        peer.chunk(b"data: b\n\n")
        peer.send(END)

    made = await bench(script)
    answer = await made.exchange(b"GET /v1/x HTTP/1.0\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"chunked" not in head
    assert body == b"data: a\n\ndata: b\n\n"


async def test_each_chunk_passes_on_at_once(bench: Make) -> None:
    step = asyncio.Queue[str]()

    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(STREAM)
        while token := await step.get():
            peer.token(token)
        peer.event("[DONE]")
        peer.send(END)

    made = await bench(script)
    reader, writer = await made.dial()
    writer.write(post(b"{}"))
    await reader.readuntil(b"\r\n\r\n")
    for token in ("one", "two", "three"):
        step.put_nowait(token)
        piece = await asyncio.wait_for(reader.readuntil(b"\n\n\r\n"), 5)
        assert token.encode() in piece
    step.put_nowait("")
    assert (await reader.read(-1)).endswith(END)
    writer.close()


async def test_a_client_that_leaves_is_told_upstream_within_100_ms(bench: Make) -> None:
    left: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(STREAM)
        peer.token("a")
        await peer.gone()
        left.set_result(time.monotonic())

    made = await bench(script)
    reader, writer = await made.dial()
    writer.write(post(b"{}"))
    await reader.readuntil(b"\n\n\r\n")
    began = time.monotonic()
    writer.close()
    assert await asyncio.wait_for(left, 5) - began < 0.1
    told = await made.told.next()
    assert told.error == "client_gone"
    assert made.proxy.snapshot().in_flight == {"stock": 0, "candidate": 0}


async def test_a_client_that_leaves_before_the_answer_is_told_upstream(bench: Make) -> None:
    asked, left = asyncio.Event(), asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        asked.set()
        await peer.gone()
        left.set()

    made = await bench(script)
    _, writer = await made.dial()
    writer.write(post(b"{}"))
    await asked.wait()
    writer.transport.abort()
    await asyncio.wait_for(left.wait(), 5)
    assert (await made.told.next()).error == "client_gone"


@pytest.mark.parametrize("framing", ["chunked", "length", "closing"])
async def test_an_upstream_that_dies_in_the_middle_is_no_clean_end(
    bench: Make, framing: str
) -> None:
    heads = {
        "chunked": STREAM + b"5\r\nhello\r\n",
        "length": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello",
        "closing": b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nhello",
    }

    sent = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(heads[framing])
        await sent.wait()
        if framing == "closing":  # a plain end would be the end of the body
            raw = peer.writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.writer.transport.abort()
        else:
            peer.close()

    made = await bench(script)
    reader, writer = await made.dial()
    writer.write(post(b"{}", close=False))
    await reader.readuntil(b"hello")
    sent.set()
    if framing == "closing":
        with pytest.raises(ConnectionResetError):
            await reader.read(-1)
    else:
        assert (await reader.read(-1)).removeprefix(b"\r\n") == b""  # no last chunk
    writer.close()
    told = await made.told.next()
    assert told.error == "cut"
    assert any("cut" in line for line in made.said)


async def test_a_body_that_ends_by_closing_ends_so_too(bench: Make) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nhello")
        peer.close()

    made = await bench(script)
    answer = await made.exchange(post(b"{}", path="/v1/x", close=False))
    assert answer == (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nhello"
    )
    assert (await made.told.next()).error is None


@pytest.mark.parametrize(
    ("answer", "status", "kind"),
    [
        (b"", b"502", "reset"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", b"502", "malformed"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 300_000, b"502", "malformed"),
    ],
    ids=["closed", "not HTTP", "an endless head"],
)
async def test_an_upstream_without_an_answer_is_a_bad_gateway(
    bench: Make, answer: bytes, status: bytes, kind: str
) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(answer)

    made = await bench(script)
    said = await made.exchange(post(b"{}"))
    assert said.startswith(b"HTTP/1.1 " + status)
    assert b'"type":"loadjudge_proxy_error"' in said
    assert (await made.told.next()).error == kind


async def test_an_upstream_that_is_not_there_is_a_bad_gateway(bench: Make) -> None:
    async def script(peer: Peer) -> None: ...

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nowhere = free.getsockname()[1]
    made = await bench(script)
    made.proxy.upstream("stock").endpoint = type(made.proxy.upstream("stock").endpoint)(
        "http://nowhere", False, "127.0.0.1", nowhere, None, ""
    )
    said = await made.exchange(post(b"{}"))
    assert said.startswith(b"HTTP/1.1 502")
    assert b"no connection to http://nowhere: Connection refused" in said


async def test_timeouts_of_the_upstream(bench: Make) -> None:
    async def script(peer: Peer) -> None:
        line, _, _ = await peer.request()
        if b"stalls" in line:
            peer.send(STREAM)
            peer.token("a")
        await peer.gone()

    made = await bench(script, limits=Limits(answer_s=0.3, idle_s=0.3))
    silent = await made.exchange(post(b"{}", path="/v1/silent"))
    assert silent.startswith(b"HTTP/1.1 504")
    assert (await made.told.next()).error == "timeout"
    stalled = await made.exchange(post(b"{}", path="/v1/stalls"))
    assert stalled.startswith(b"HTTP/1.1 200")
    assert not stalled.endswith(END)
    assert (await made.told.next()).error == "idle_timeout"


async def test_a_kept_connection_that_the_upstream_closed_is_no_error(bench: Make) -> None:
    connections = 0

    async def script(peer: Peer) -> None:
        nonlocal connections
        connections += 1
        _, _, body = await peer.request()
        peer.plain(body)
        if connections == 1:
            await peer.head()  # the next request is read, and the connection closed on it
            return
        await peer.request()

    made = await bench(script)
    for i in range(2):
        assert (await made.exchange(post(b"%d" % i, path="/v1/x"))).endswith(b"\r\n\r\n%d" % i)
        assert (await made.told.next()).error is None
    assert connections == 2


async def test_a_slow_client_holds_the_upstream_back(bench: Make) -> None:
    sent = 0
    stop = asyncio.Event()

    async def script(peer: Peer) -> None:
        nonlocal sent
        await peer.request()
        peer.send(STREAM)
        piece = b"x" * 65_536
        while not stop.is_set():
            peer.chunk(piece)
            await peer.writer.drain()
            sent += len(piece)

    made = await bench(script)
    raw = socket.create_connection(("127.0.0.1", made.port))
    raw.setblocking(False)
    await asyncio.get_running_loop().sock_sendall(raw, post(b"{}"))
    before = -1
    while sent != before or not sent:  # until nothing moves any more
        before = sent
        await asyncio.sleep(0.2)
    # Kernel buffers of two connections, and no more: nothing piles up in the proxy.
    assert sent < 32 << 20
    read, wanted = 0, sent + (8 << 20)
    loop = asyncio.get_running_loop()
    while read < wanted:  # it goes on where it stopped
        piece = await loop.sock_recv(raw, 1 << 20)
        assert piece
        read += len(piece)
    stop.set()
    raw.close()


async def test_a_client_that_reads_nothing_any_more_does_not_hold_the_engine(bench: Make) -> None:
    left = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(STREAM)
        try:
            while True:
                peer.chunk(b"x" * 65_536)
                await peer.writer.drain()
        finally:
            left.set()

    made = await bench(script, limits=Limits(idle_s=0.5))
    raw = socket.create_connection(("127.0.0.1", made.port))
    raw.sendall(post(b"{}"))
    await asyncio.wait_for(left.wait(), 10)
    assert (await made.told.next()).error == "client_stalled"
    raw.close()


async def test_a_request_that_is_never_finished_ends(bench: Make) -> None:
    made = await bench(echo, limits=Limits(request_s=0.3))
    answer = await made.exchange(post(b"abc").replace(b"Length: 3", b"Length: 4"))
    assert answer.startswith(b"HTTP/1.1 408")
    assert (await made.told.next()).error == "client_stalled"


async def test_idle_connections_end_after_a_while(bench: Make) -> None:
    made = await bench(echo, keep_alive_s=0.3)
    for begun in (b"", b"GET /v1/models HT"):
        assert await made.exchange(begun) == b""


async def test_a_connection_that_was_held_back_to_the_end_serves_on(bench: Make) -> None:
    connections = 0
    big = b"x" * (12 << 20)

    async def script(peer: Peer) -> None:
        nonlocal connections
        connections += 1
        while True:
            line, _, _ = await peer.request()
            peer.plain(big if b"big" in line else b"small")

    made = await bench(script)
    raw = socket.create_connection(("127.0.0.1", made.port))
    raw.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(raw, post(b"", path="/v1/big"))
    read = 0
    while piece := await loop.sock_recv(raw, 1 << 16):
        read += len(piece)
        await asyncio.sleep(0)  # slower than the upstream
    raw.close()
    assert read > len(big)
    assert (await made.exchange(post(b"", path="/v1/x"))).endswith(b"small")
    assert connections == 1
    assert made.proxy.held_bytes == 0


async def test_bodies_that_are_kept_are_bounded_over_all_requests(
    bench: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loadjudge.proxy.requestbody._HELD_LIMIT", 1000)
    made = await bench(echo)
    monkeypatch.setattr(made.proxy, "wants_body", lambda _: True)
    answers = await asyncio.gather(
        *(made.exchange(post(b"%d" % i * 300, path="/v1/x")) for i in range(8))
    )
    assert all(a.endswith(b"|" + b"%d" % i * 300) for i, a in enumerate(answers))
    assert made.proxy.held_bytes == 0


async def test_a_slow_upstream_holds_the_client_back(bench: Make) -> None:
    may = asyncio.Event()
    size = 64 << 20

    async def script(peer: Peer) -> None:
        await peer.head()
        await may.wait()
        left = size
        while left:
            left -= len(await peer.reader.read(1 << 20))
        peer.plain(b"all")

    made = await bench(script)
    reader, writer = await made.dial()
    writer.write(b"POST /v1/x HTTP/1.1\r\nHost: me\r\nConnection: close\r\n"
                 b"Content-Length: %d\r\n\r\n" % size)  # fmt: skip
    sent = 0

    async def upload() -> None:
        nonlocal sent
        piece = b"x" * (1 << 20)
        for _ in range(size >> 20):
            writer.write(piece)
            await writer.drain()
            sent += len(piece)

    uploading = asyncio.ensure_future(upload())
    before = -1
    while sent != before or not sent:
        before = sent
        await asyncio.sleep(0.2)
    assert sent < 32 << 20
    may.set()
    assert (await asyncio.wait_for(reader.read(-1), 20)).endswith(b"\r\n\r\nall")
    await uploading
    writer.close()


async def test_an_answer_before_the_request_is_over_passes(bench: Make) -> None:
    async def script(peer: Peer) -> None:
        await peer.head()
        peer.plain(b"too large", b"413 Content Too Large", b"Connection: close")
        await peer.gone()

    made = await bench(script)
    reader, writer = await made.dial()
    writer.write(b"POST /v1/x HTTP/1.1\r\nHost: me\r\nContent-Length: 1000000\r\n\r\nabc")
    answer = await asyncio.wait_for(reader.read(-1), 10)
    assert answer.startswith(b"HTTP/1.1 413")
    assert answer.endswith(b"too large")
    writer.close()


@pytest.mark.parametrize(
    "target",
    ["/metrics", "/v1/../metrics", "/v1/%2e%2e/metrics", "/v1x", "//v1/models", "*",
     "/v1/%2E%2E%5Cmetrics"],
)  # fmt: skip
async def test_other_paths_do_not_pass(bench: Make, target: str) -> None:
    made = await bench(echo)
    line = "OPTIONS" if target == "*" else "GET"
    answer = await made.exchange(
        f"{line} {target} HTTP/1.1\r\nHost: me\r\nConnection: close\r\n\r\n".encode()
    )
    assert answer.startswith(b"HTTP/1.1 404")
    assert made.proxy.snapshot().requests == 0


async def test_paths_that_the_user_named_pass(bench: Make) -> None:
    made = await bench(echo, paths=("/v1", "/tokenize"))
    answer = await made.exchange(post(b"{}", path="/tokenize"))
    assert b"POST /tokenize HTTP/1.1" in answer


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"hello\r\n\r\n", b"400"),
        (b"GET /v1/x HTTP/1.1\r\nX: " + b"y" * 300_000, b"431"),
        (b"POST /v1/x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n"
         b"\r\n0\r\n\r\n", b"400"),
        (b"POST /v1/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", b"501"),
        (b"GET /v1/realtime HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
         b"\r\n", b"501"),
    ],
    ids=["not HTTP", "an endless head", "two lengths", "unknown framing", "a WebSocket"],
)  # fmt: skip
async def test_what_is_no_request_that_can_pass(
    bench: Make, request_: bytes, status: bytes
) -> None:
    made = await bench(echo)
    answer = await made.exchange(request_)
    assert answer.startswith(b"HTTP/1.1 " + status)


async def test_a_malformed_stream_passes_as_it_is_and_is_told(bench: Make) -> None:
    body = b"data: {not json\n\ndata: \xff\xfe\n\n\r\r: what\nevent: x\ndata: [DONE]\n\n"

    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(STREAM)
        peer.chunk(body)
        peer.send(END)

    made = await bench(script)
    answer = await made.exchange(post(b"{}"))
    assert answer.endswith(b"\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
    told = await made.told.next()
    assert (told.status, told.error) == (200, "malformed")


async def test_what_goes_wrong_in_measuring_never_touches_what_passes(
    bench: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.reply("a", "b")

    def broken(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr("loadjudge.proxy.meter.Meter.feed", broken)
    made = await bench(script)
    answer = await made.exchange(post(b"{}"))
    assert answer.endswith(END)
    assert answer.count(b"data: ") == 4
    await made.told.next()
    assert made.proxy.snapshot().defects > 0
    assert any("a defect" in line for line in made.said)


async def test_an_endless_stream_is_read_no_further_and_passes_on(
    bench: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loadjudge.proxy.meter.LARGEST", 1 << 20)
    left = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(STREAM)
        try:
            while True:
                peer.chunk(b"data: " + b"x" * 60_000)  # no line ever ends
                await peer.writer.drain()
        finally:
            left.set()

    made = await bench(script)
    reader, writer = await made.dial()
    writer.write(post(b"{}"))
    read = 0
    while read < 4 << 20:
        read += len(await reader.read(1 << 20))
    writer.close()
    await asyncio.wait_for(left.wait(), 5)
    await made.told.next()
    assert made.proxy.snapshot().unread == {f"an answer of over {1 << 20} bytes": 1}


async def test_what_is_measured(bench: Make) -> None:
    first, rest = asyncio.Event(), asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(STREAM)
        peer.event('{"model":"m","choices":[{"index":0,"delta":{"role":"assistant"}}]}')
        first.set()
        await rest.wait()
        peer.event('{"model":"m","choices":[{"index":0,"delta":{"reasoning":"so"},'
                   '"token_ids":[1,2]}]}')  # fmt: skip
        await peer.writer.drain()
        await asyncio.sleep(0.02)
        peer.event('{"choices":[{"index":0,"delta":{"content":"x"},"token_ids":[3,4,5]}]}')
        peer.event('{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],'
                   '"usage":{"prompt_tokens":7,"completion_tokens":99}}')  # fmt: skip
        peer.event("[DONE]")
        peer.send(END)

    made = await bench(script)
    asking = asyncio.ensure_future(made.exchange(post(b'{"n": 1}')))
    await first.wait()
    await asyncio.sleep(0.06)  # a timer may fire a little early
    rest.set()
    await asking
    told = await made.told.next()
    assert (told.arm, told.path, told.status) == ("stock", "/v1/chat/completions", 200)
    assert (told.error, told.stream, told.model) == (None, True, "m")
    assert (told.prompt_tokens, told.output_tokens) == (7, 5)  # ids, not what is reported
    assert told.ttft_s is not None
    assert told.ttfot_s is not None
    assert told.tpot_s is not None
    assert told.e2el_s is not None
    assert told.ttft_s >= 0.05  # the role alone is no token
    assert told.ttfot_s >= told.ttft_s + 0.019
    assert told.itl_tokens == (3.0,)
    assert told.itl_s == pytest.approx((told.tpot_s,))
    assert told.tpot_s * 3 == pytest.approx(told.ttfot_s - told.ttft_s)
    assert told.e2el_s == pytest.approx(told.ttfot_s)
    assert told.request_bytes == 8
    assert told.added_s is not None
    assert 0 <= told.added_s < 0.05
