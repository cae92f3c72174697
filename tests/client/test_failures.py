"""Every way in which a call fails has its kind, and keeps what had arrived."""

import asyncio
import socket
import tempfile
from pathlib import Path

import pytest

from loadjudge.client.client import LoadClient
from loadjudge.client.connection import ERROR_BODY, Timeouts
from loadjudge.client.failures import CallError
from loadjudge.wire.request import chat_body

from .conftest import END, HEAD, Peer, Script, Serve, until

BODY = chat_body("m", [{"role": "user", "content": "hi"}])


async def failing(url: str, **options: object) -> CallError:
    async with LoadClient(url, **options) as client:  # type: ignore[arg-type]
        with pytest.raises(CallError) as caught:
            await client.chat(BODY, t_scheduled_ns=5)
        assert (client.in_flight, client.idle) == (0, 0)
    error = caught.value
    assert error.t_scheduled_ns == 5
    assert error.t_failed_ns >= (error.t_sent_ns or 0)
    assert str(error).startswith(error.kind)
    return error


async def test_refused() -> None:
    error = await failing("http://127.0.0.1:1")
    assert error.kind == "connect"
    assert "refused" in error.message.lower()
    assert (error.t_sent_ns, error.status, error.reply_so_far) == (None, None, None)


async def test_no_such_socket() -> None:
    with tempfile.TemporaryDirectory() as folder:
        error = await failing(f"unix:{Path(folder) / 'none.sock'}")
    assert error.kind == "connect"


async def test_connect_timeout() -> None:
    with socket.socket() as full:
        # An accept queue of one, filled, and never emptied: the next SYN goes unanswered.
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        where = full.getsockname()
        fillers = []
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(where)
            fillers.append(filler)
        error = await failing(f"http://127.0.0.1:{where[1]}", timeouts=Timeouts(connect_s=0.1))
        for filler in fillers:
            filler.close()
    assert error.kind == "connect_timeout"
    assert "0.1 s" in error.message


async def test_no_first_byte(serve: Serve) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(HEAD)  # headers alone don't count
        await peer.gone()

    server = await serve(script)
    error = await failing(server.url, timeouts=Timeouts(first_byte_s=0.05))
    assert (error.kind, error.status) == ("first_byte_timeout", 200)


async def test_a_stall(serve: Serve) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(HEAD)
        peer.token("a")
        await peer.gone()

    server = await serve(script)
    error = await failing(server.url, timeouts=Timeouts(idle_s=0.05))
    assert error.kind == "idle_timeout"
    assert error.reply_so_far is not None
    assert error.reply_so_far.content == "a"


async def test_a_slow_first_byte_is_no_stall(serve: Serve) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(HEAD)
        await asyncio.sleep(0.1)
        peer.event('{"choices":[{"delta":{"content":"ab"},"finish_reason":"stop"}]}')
        peer.send(END)
        await peer.gone()

    server = await serve(script)
    async with LoadClient(server.url, timeouts=Timeouts(idle_s=0.02)) as client:
        assert (await client.chat(BODY)).reply.content == "ab"


async def test_a_cut_stream(serve: Serve) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(HEAD)
        peer.token("a")

    server = await serve(script)
    error = await failing(server.url)
    assert (error.kind, error.status) == ("cut", 200)
    assert error.reply_so_far is not None
    assert error.reply_so_far.content == "a"


async def test_a_body_that_ends_before_the_reply_does(serve: Serve) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(HEAD)
        peer.token("a")
        peer.send(END)

    async with LoadClient((await serve(script)).url) as client:
        with pytest.raises(CallError) as caught:
            await client.chat(BODY)
    assert caught.value.kind == "cut"


async def test_a_body_cut_after_its_finish_reason_is_cut(serve: Serve) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(HEAD)
        peer.event('{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}')

    assert (await failing((await serve(script)).url)).kind == "cut"


async def test_a_connection_closed_after_done_is_whole(serve: Serve) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(HEAD)
        peer.event('{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}')
        peer.event("[DONE]")

    server = await serve(script)
    async with LoadClient(server.url) as client:
        assert (await client.chat(BODY)).reply.content == "a"
        assert client.idle == 0


async def test_a_reset_in_the_middle(serve: Serve) -> None:
    go = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(HEAD)
        peer.token("a")
        await go.wait()
        sock = peer.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        peer.reset()

    server = await serve(script)
    async with LoadClient(server.url) as client:
        task = asyncio.create_task(client.chat(BODY))
        await until(lambda: client.in_flight)
        connection = next(iter(client._busy))
        await until(lambda: connection._feed)
        go.set()
        with pytest.raises(CallError) as caught:
            await task
    assert caught.value.kind == "reset"
    assert caught.value.reply_so_far is not None
    assert caught.value.reply_so_far.content == "a"


@pytest.mark.parametrize("ends", [True, False])
async def test_an_error_inside_the_stream(serve: Serve, ends: bool) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(HEAD)
        peer.token("a")
        peer.event('{"error": {"message": "out of memory", "code": 500}}')
        if ends:
            peer.event("[DONE]")
            peer.send(END)
        await peer.gone()

    server = await serve(script)
    async with LoadClient(server.url, timeouts=Timeouts(idle_s=0.2)) as client:
        with pytest.raises(CallError) as caught:
            await client.chat(BODY)
    error = caught.value
    assert (error.kind, error.message, error.status) == ("stream_error", "out of memory", 200)
    assert error.reply_so_far is not None
    assert error.reply_so_far.content == "a"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"error": {"message": "too long", "code": 400}}', "too long"),
        (b'{"object": "error", "message": "too long"}', "too long"),
        (b'{"detail": "too long"}', "too long"),
        (b"too long\n", "too long"),
        (b'{"a": 1}', '{"a":1}'),
        (b"", "(empty)"),
    ],
)
async def test_a_status_and_what_the_server_said(serve: Serve, body: bytes, said: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.plain("400 Bad Request", body, b"content-type: application/json")
        await peer.request()
        peer.reply()
        await peer.gone()

    server = await serve(script)
    async with LoadClient(server.url) as client:
        with pytest.raises(CallError) as caught:
            await client.chat(BODY)
        assert (await client.chat(BODY)).connected is False  # an error costs no connection
    error = caught.value
    assert (error.kind, error.status, error.message) == ("http", 400, f"status 400: {said}")
    assert error.reply_so_far is None


async def test_an_error_body_without_end_is_bounded(serve: Serve) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(HEAD.replace(b"200 OK", b"500 Oh No"))
        while not peer.writer.transport.is_closing():
            peer.chunk(b"x" * ERROR_BODY)
            await peer.writer.drain()

    error = await failing((await serve(script)).url)
    assert (error.kind, error.status) == ("http", 500)
    assert len(error.message) < 1000


async def test_json_instead_of_a_stream(serve: Serve) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.plain("200 OK", b'{"choices": []}', b"content-type: application/json")

    async with LoadClient((await serve(script)).url) as client:
        with pytest.raises(CallError) as caught:
            await client.chat(BODY)
    assert caught.value.kind == "malformed"
    assert "no event stream" in caught.value.message


@pytest.mark.parametrize("junk", [b"220 smtp ready\r\n", b"HTTP/1.1 abc\r\n\r\n"])
async def test_no_http(serve: Serve, junk: bytes) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(junk)
        await peer.gone()

    error = await failing((await serve(script)).url)
    assert error.kind == "malformed"
    assert "no HTTP" in error.message


async def test_malformed_chunk(serve: Serve) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(HEAD)
        peer.event('{"choices": [')
        peer.send(END)

    async with LoadClient((await serve(script)).url) as client:
        with pytest.raises(CallError) as caught:
            await client.chat(BODY)
    assert caught.value.kind == "malformed"


async def test_one_failure_leaves_the_other_calls_alone(serve: Serve, answering: Script) -> None:
    async def script(peer: Peer) -> None:
        if peer.number == 2:
            await peer.request()
            peer.reset()
        else:
            await answering(peer)

    server = await serve(script)
    async with LoadClient(server.url) as client:
        calls = await asyncio.gather(*(client.chat(BODY) for _ in range(4)), return_exceptions=True)
    failed = [call for call in calls if isinstance(call, BaseException)]
    assert [type(call) for call in failed] == [CallError]
