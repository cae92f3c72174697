"""The load client against scripted servers: what it sends, its times, its connections."""

import asyncio
import time
from email.utils import formatdate

import orjson
import pytest

from loadjudge.client import connection
from loadjudge.client.client import Call, LoadClient
from loadjudge.client.connection import Timeouts
from loadjudge.client.failures import CallError
from loadjudge.errors import JudgeError
from loadjudge.wire.request import chat_body

from .conftest import END, HEAD, Peer, Script, Serve, until

BODY = chat_body("m", [{"role": "user", "content": "hi"}])


async def test_a_call_and_its_times(serve: Serve) -> None:
    seen: list[tuple[str, dict[str, str], bytes]] = []
    go = asyncio.Event()

    async def script(peer: Peer) -> None:
        seen.append(await peer.request())
        peer.send(HEAD)
        peer.event('{"id":"c","model":"m","choices":[{"delta":{"role":"assistant","content":""}}]}')
        await go.wait()
        peer.token("a")
        peer.event('{"choices":[{"delta":{"content":"b"},"finish_reason":"stop"}]}')
        peer.event("[DONE]")
        peer.send(END)
        await peer.gone()

    server = await serve(script)
    due = time.monotonic_ns()
    async with LoadClient(server.url, api_key="sk-1", headers={"X-A": "b"}) as client:
        task = asyncio.create_task(client.chat(BODY, t_scheduled_ns=due))
        await until(lambda: client.in_flight)
        go.set()
        call = await task
        assert (client.in_flight, client.idle) == (0, 1)
    assert call.reply.content == "ab"
    assert call.status == 200
    assert call.t_scheduled_ns == due
    first = call.reply.arrivals[0].t_ns
    assert due <= call.t_sent_ns <= call.t_headers_ns <= first <= call.t_done_ns
    assert call.t_done_ns <= time.monotonic_ns()
    assert (call.retries, call.waits, call.connected) == (0, 0, True)
    assert call.bytes_in > len(HEAD)
    ((line, headers, body),) = seen
    assert line == "POST /v1/chat/completions HTTP/1.1"
    assert headers["authorization"] == "Bearer sk-1"
    assert headers["x-a"] == "b"
    assert headers["host"] == server.url.removeprefix("http://")
    assert headers["content-type"] == "application/json"
    assert headers["accept-encoding"] == "identity"
    assert body == BODY


async def test_over_a_unix_socket(serve: Serve, answering: Script) -> None:
    server = await serve(answering, unix=True)
    async with LoadClient(server.url) as client:
        assert (await client.chat(BODY)).reply.content == "ab"


async def test_a_kept_connection_is_used_again(serve: Serve, answering: Script) -> None:
    server = await serve(answering)
    async with LoadClient(server.url) as client:
        calls = [await client.chat(BODY) for _ in range(5)]
    assert server.connections == 1
    assert [call.connected for call in calls] == [True, False, False, False, False]


async def test_connections_opened_ahead(serve: Serve, answering: Script) -> None:
    server = await serve(answering)
    async with LoadClient(server.url) as client:
        await client.open(100)
        assert client.idle == 100
        calls = await asyncio.gather(*(client.chat(BODY) for _ in range(100)))
        await client.open(100)
        assert not any(call.connected for call in calls)
    assert server.connections == 100


async def test_300_streams_are_in_flight_at_once(serve: Serve) -> None:
    in_flight = 0
    all_there = asyncio.Event()

    async def script(peer: Peer) -> None:
        nonlocal in_flight
        await peer.request()
        in_flight += 1
        peer.send(HEAD)
        peer.token("a")
        if in_flight == 300:
            all_there.set()
        await all_there.wait()
        peer.event('{"choices":[{"delta":{},"finish_reason":"stop"}]}')
        peer.send(END)
        await peer.gone()

    server = await serve(script)
    async with LoadClient(server.url) as client:
        calls = await asyncio.gather(*(client.chat(BODY) for _ in range(300)))
    assert len(calls) == 300
    assert in_flight == server.connections == 300


async def test_the_last_connection_used_is_the_next(serve: Serve, answering: Script) -> None:
    server = await serve(answering)
    async with LoadClient(server.url) as client:
        await client.open(3)
        for _ in range(4):
            await client.chat(BODY)
    assert sorted(peer.calls for peer in server.peers) == [0, 0, 4]


async def test_a_stale_connection_is_not_seen_by_the_caller(serve: Serve) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.reply()
        if peer.number == 1:
            await peer.request()  # and closes without an answer
        else:
            await peer.gone()

    server = await serve(script)
    async with LoadClient(server.url) as client:
        first = await client.chat(BODY)
        before = time.monotonic_ns()
        second = await client.chat(BODY, t_scheduled_ns=before)
    assert (first.retries, second.retries) == (0, 1)
    assert second.connected
    assert second.t_scheduled_ns == before <= second.t_sent_ns
    assert second.reply.content == "ab"
    assert server.connections == 2


async def test_a_reset_connection_is_stale_too_and_the_next_is_new(serve: Serve) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        if peer.number <= 3:
            peer.reset()
        else:
            peer.reply()
            await peer.gone()

    server = await serve(script)
    async with LoadClient(server.url) as client:
        await client.open(3)  # all three will be stale: only one is tried
        assert (await client.chat(BODY)).retries == 1
    assert server.connections == 4
    assert sum(peer.calls for peer in server.peers) == 2


async def test_a_new_connection_that_closes_is_a_failure(serve: Serve) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()

    server = await serve(script)
    async with LoadClient(server.url) as client:
        with pytest.raises(CallError) as caught:
            await client.chat(BODY)
    assert (caught.value.kind, caught.value.retries) == ("reset", 0)
    assert server.connections == 1


async def test_a_kept_connection_that_fails_after_a_byte_is_not_sent_again(serve: Serve) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.reply()
        await peer.request()
        peer.send(b"HTTP/1.1 2")

    server = await serve(script)
    async with LoadClient(server.url) as client:
        await client.chat(BODY)
        with pytest.raises(CallError) as caught:
            await client.chat(BODY)
    assert caught.value.kind == "cut"
    assert server.connections == 1


async def test_an_idle_connection_that_the_server_closes_leaves_the_pool(serve: Serve) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.reply()

    server = await serve(script)
    async with LoadClient(server.url) as client:
        await client.chat(BODY)
        await until(lambda: not client.idle)
        call = await client.chat(BODY)
    assert (call.retries, call.connected) == (0, True)


async def test_words_that_nobody_asked_for_close_an_idle_connection(serve: Serve) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.reply()
        if peer.number == 1:
            await asyncio.sleep(0)
            peer.plain("408 Request Timeout")
        await peer.gone()

    server = await serve(script)
    async with LoadClient(server.url) as client:
        await client.chat(BODY)
        await until(lambda: not client.idle)
        assert (await client.chat(BODY)).connected


async def test_connection_close_is_obeyed(serve: Serve) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(HEAD.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))
        peer.event('{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}')
        peer.send(END)
        await peer.gone()

    server = await serve(script)
    async with LoadClient(server.url) as client:
        await client.chat(BODY)
        assert client.idle == 0


@pytest.mark.parametrize("framing", ["length", "close"])
async def test_bodies_that_are_not_chunked(serve: Serve, framing: str) -> None:
    body = b'data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}\n\n'

    async def script(peer: Peer) -> None:
        await peer.request()
        if framing == "length":
            peer.plain("200 OK", body, b"content-type: text/event-stream")
            await peer.gone()
        else:
            peer.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + body)

    server = await serve(script)
    async with LoadClient(server.url) as client:
        assert (await client.chat(BODY)).reply.content == "a"
        assert client.idle == (1 if framing == "length" else 0)


async def test_an_interim_answer_is_passed_over(serve: Serve) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n")
        peer.reply()
        await peer.gone()

    server = await serve(script)
    async with LoadClient(server.url) as client:
        assert (await client.chat(BODY)).reply.content == "ab"


async def test_a_prompt_of_one_mebibyte(serve: Serve) -> None:
    lengths: list[int] = []

    async def script(peer: Peer) -> None:
        _, _, body = await peer.request()
        lengths.append(len(orjson.loads(body)["messages"][0]["content"]))
        peer.reply()
        await peer.gone()

    server = await serve(script)
    body = chat_body("m", [{"role": "user", "content": "x" * 2**20}])
    async with LoadClient(server.url) as client:
        await client.chat(body)
    assert lengths == [2**20]


async def test_a_long_reply_in_one_go(serve: Serve) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.reply(*(["word "] * 20_000))
        await peer.gone()

    server = await serve(script)
    async with LoadClient(server.url) as client:
        call = await client.chat(BODY)
    assert call.reply.content == "word " * 20_000
    assert sum(arrival.chars for arrival in call.reply.arrivals) == 100_000


@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Service Unavailable"])
@pytest.mark.parametrize("after", ["0.05", "date"])
async def test_retry_after_is_queue_time(serve: Serve, status: str, after: str) -> None:
    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            if peer.calls <= 2:
                value = formatdate(time.time() - 5, usegmt=True) if after == "date" else after
                peer.plain(status, b"later", b"Retry-After: " + value.encode())
            else:
                peer.reply()

    server = await serve(script)
    async with LoadClient(server.url) as client:
        call = await client.chat(BODY)
    assert (call.waits, call.retries) == (2, 0)
    assert call.t_sent_ns - call.t_scheduled_ns >= (0 if after == "date" else 100_000_000)
    assert server.connections == 1


async def test_retry_after_is_bounded_in_number_and_length(serve: Serve) -> None:
    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            peer.plain("429 Slow Down", b'{"error": {"message": "busy"}}', b"Retry-After: 3600")

    server = await serve(script)
    async with LoadClient(server.url, max_waits=2, max_wait_s=0.01) as client:
        with pytest.raises(CallError) as caught:
            await client.chat(BODY)
    error = caught.value
    assert (error.kind, error.status, error.waits) == ("http", 429, 2)
    assert "busy" in error.message
    assert server.peers[0].calls == 3


async def test_503_without_retry_after_fails_at_once(serve: Serve) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.plain("503 Service Unavailable", b"loading")
        await peer.gone()

    server = await serve(script)
    async with LoadClient(server.url) as client:
        with pytest.raises(CallError) as caught:
            await client.chat(BODY)
    assert (caught.value.status, caught.value.waits) == (503, 0)


async def test_closing_the_client_ends_calls_in_flight(serve: Serve) -> None:
    gone = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(HEAD)
        peer.token("a")
        await peer.gone()
        gone.set()

    server = await serve(script)
    client = LoadClient(server.url)
    task = asyncio.create_task(client.chat(BODY))
    await until(lambda: client.in_flight)
    await client.close()
    with pytest.raises(CallError) as caught:
        await task
    assert caught.value.kind == "cancelled"
    await gone.wait()
    with pytest.raises(CallError):
        await client.chat(BODY)


async def test_cancelling_a_call_disconnects_at_once(serve: Serve) -> None:
    started, gone = asyncio.Event(), asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(HEAD)
        peer.token("a")
        started.set()
        await peer.gone()
        gone.set()

    server = await serve(script)
    async with LoadClient(server.url) as client:
        task = asyncio.create_task(client.chat(BODY))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await gone.wait()
        assert (client.in_flight, client.idle) == (0, 0)


async def test_open_says_what_is_wrong() -> None:
    client = LoadClient("http://127.0.0.1:1")
    with pytest.raises(JudgeError, match=r"http://127\.0\.0\.1:1/v1: no connection: "):
        await client.open(3)
    await client.close()


async def test_call_is_a_value(serve: Serve, answering: Script) -> None:
    server = await serve(answering)
    async with LoadClient(server.url) as client:
        call = await client.chat(BODY)
    assert isinstance(call, Call)
    with pytest.raises(AttributeError):
        call.status = 1  # type: ignore[misc]


async def test_two_answers_to_one_request_spoil_the_connection(serve: Serve) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.reply("a")
        peer.reply("b")
        await peer.gone()

    server = await serve(script)
    async with LoadClient(server.url) as client:
        assert (await client.chat(BODY)).reply.content == "a"
        await until(lambda: not client.idle)


async def test_a_body_that_never_ends_after_done_is_whole(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_END_GRACE_NS", 20_000_000)

    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(HEAD)
        peer.event('{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}')
        peer.event("[DONE]")
        await peer.gone()

    server = await serve(script)
    async with LoadClient(server.url, timeouts=Timeouts(idle_s=0.1)) as client:
        call = await client.chat(BODY)
        assert client.idle == 0
    assert call.reply.done
    assert call.t_done_ns == call.reply.arrivals[-1].t_ns  # the last read, not the end of waiting


async def test_closing_while_a_call_waits_for_its_retry_after(serve: Serve) -> None:
    refused = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        peer.plain("429 Slow Down", b"", b"Retry-After: 0.05")
        refused.set()

    server = await serve(script)
    client = LoadClient(server.url)
    task = asyncio.create_task(client.chat(BODY))
    await refused.wait()
    await until(lambda: not client.in_flight)
    await client.close()
    with pytest.raises(CallError) as caught:
        await task
    assert (caught.value.kind, caught.value.waits) == ("cancelled", 1)
