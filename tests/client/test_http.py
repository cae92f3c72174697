"""The plain calls, and the one sentence for each thing that goes wrong."""

import asyncio

import orjson
import pytest

from loadjudge.client.dialect import LLAMACPP, LMDEPLOY, SGLANG
from loadjudge.client.http import Model, PlainClient
from loadjudge.errors import JudgeError

from .conftest import Peer, Serve, Server

MODELS = b'{"data": [{"id": "m", "max_model_len": 8192}, {"id": "n"}]}'
Answer = tuple[str, bytes]


async def answering(serve: Serve, answers: dict[str, Answer], *, unix: bool = False) -> Server:
    """A server with an answer for each ``METHOD path``, 404 for the rest."""

    async def script(peer: Peer) -> None:
        while True:
            line, headers, body = await peer.request()
            seen.append((line, headers, body))
            status, answer = answers.get(
                line.removesuffix(" HTTP/1.1"), ("404 Not Found", b'{"detail":"Not Found"}')
            )
            peer.plain(status, answer, b"content-type: application/json")

    seen: list[tuple[str, dict[str, str], bytes]] = []
    server = await serve(script, unix=unix)
    server.seen = seen  # type: ignore[attr-defined]
    return server


@pytest.mark.parametrize("unix", [False, True])
async def test_an_endpoint_that_has_everything(serve: Serve, unix: bool) -> None:
    server = await answering(
        serve,
        {
            "GET /v1/models": ("200 OK", MODELS),
            "GET /metrics": ("200 OK", b"a 1\n"),
            "GET /health": ("200 OK", b""),
            "GET /version": ("200 OK", b'{"version": "0.32.0"}'),
            "POST /tokenize": ("200 OK", b'{"tokens": [1, 2], "count": 2}'),
            "POST /detokenize": ("200 OK", b'{"prompt": "hi"}'),
            "POST /reset_prefix_cache": ("200 OK", b""),
            "POST /v1/completions": ("200 OK", b'{"choices": [{"text": "x"}]}'),
        },
        unix=unix,
    )
    async with PlainClient(server.url, api_key="sk-1", headers={"X-A": "b"}) as client:
        assert await client.models() == (Model("m", 8192), Model("n", None))
        assert await client.model("m") == Model("m", 8192)
        assert await client.metrics_text() == "a 1\n"
        assert await client.health() is True
        assert await client.version() == "0.32.0"
        assert await client.tokenize("m", text="hi") == (1, 2)
        messages = [{"role": "user", "content": "hi"}]
        assert await client.tokenize("m", messages=messages, tools=[{"type": "f"}]) == (1, 2)
        assert await client.detokenize("m", (1, 2)) == "hi"
        assert await client.reset_prefix_cache() is True
        assert await client.completions({"model": "m"}) == {"choices": [{"text": "x"}]}
    seen = server.seen  # type: ignore[attr-defined]
    assert {headers["authorization"] for _, headers, _ in seen} == {"Bearer sk-1"}
    assert {headers["x-a"] for _, headers, _ in seen} == {"b"}
    bodies = [orjson.loads(body) for line, _, body in seen if line.startswith("POST /tok")]
    assert bodies[0] == {"model": "m", "prompt": "hi", "add_special_tokens": True}
    assert bodies[1]["add_generation_prompt"] is True
    assert bodies[1]["tools"] == [{"type": "f"}]


async def test_an_endpoint_that_has_nothing(serve: Serve) -> None:
    server = await answering(serve, {})
    async with PlainClient(server.url) as client:
        assert await client.metrics_text() is None
        assert await client.health() is False
        assert await client.version() is None
        assert await client.tokenize("m", text="hi") is None
        assert await client.detokenize("m", [1]) is None
        assert await client.reset_prefix_cache() is False
        with pytest.raises(JudgeError, match="answered 404 on /v1/models: Not Found"):
            await client.models()


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key(serve: Serve, status: int) -> None:
    server = await answering(serve, {"GET /v1/models": (f"{status} No", b"")})
    async with PlainClient(server.url) as client:
        with pytest.raises(JudgeError) as caught:
            await client.models()
    assert caught.value.sentence == (
        f"the endpoint {server.url}/v1 refused the key ({status}): set OPENAI_API_KEY or --api-key"
    )


async def test_a_model_that_it_does_not_have(serve: Serve) -> None:
    unknown = ("404 Not Found", b'{"error": {"message": "The model `x` does not exist."}}')
    server = await answering(
        serve,
        {
            "GET /v1/models": ("200 OK", MODELS),
            "POST /v1/completions": unknown,
            "POST /tokenize": unknown,
            "POST /detokenize": unknown,
        },
    )
    async with PlainClient(server.url) as client:
        for call in (
            client.model("x"),
            client.completions({"model": "x"}),
            client.tokenize("x", text=""),
            client.detokenize("x", []),
        ):
            with pytest.raises(JudgeError, match="has no model 'x': it has m, n"):
                await call
        with pytest.raises(JudgeError, match=r"choose one with --model \(m, n\)"):
            await client.model(None)


async def test_the_only_model_needs_no_name(serve: Serve) -> None:
    server = await answering(serve, {"GET /v1/models": ("200 OK", b'{"data": [{"id": "m"}]}')})
    async with PlainClient(server.url) as client:
        assert await client.model(None) == Model("m", None)


@pytest.mark.parametrize("answer", [b"<html>", b"[1]", b""])
async def test_an_answer_that_is_no_json_object(serve: Serve, answer: bytes) -> None:
    server = await answering(serve, {"GET /v1/models": ("200 OK", answer)})
    async with PlainClient(server.url) as client:
        with pytest.raises(JudgeError, match="no JSON object on /v1/models"):
            await client.models()


async def test_json_of_another_shape(serve: Serve) -> None:
    server = await answering(
        serve,
        {
            "GET /v1/models": ("200 OK", b'{"data": [{"name": "m"}]}'),
            "POST /tokenize": ("200 OK", b'{"ids": [1]}'),
            "POST /detokenize": ("200 OK", b"{}"),
        },
    )
    async with PlainClient(server.url) as client:
        for call in (client.models(), client.tokenize("m", text=""), client.detokenize("m", [])):
            with pytest.raises(JudgeError, match="OpenAI-compatible"):
                await call


async def test_nobody_there() -> None:
    async with PlainClient("http://127.0.0.1:1") as client:
        assert await client.health() is False
        with pytest.raises(JudgeError, match=r"http://127.0.0.1:1/v1 can't be reached"):
            await client.models()


async def test_no_answer_in_time(serve: Serve) -> None:
    async def script(peer: Peer) -> None:
        await peer.gone()

    server = await serve(script)
    async with PlainClient(server.url, timeout_s=0.05) as client:
        with pytest.raises(JudgeError, match="did not answer in time"):
            await client.models()
        assert await client.health() is False


async def test_a_server_error_says_what_it_said(serve: Serve) -> None:
    server = await answering(
        serve, {"GET /metrics": ("500 Oh No", b'{"error": {"message": "engine dead"}}')}
    )
    async with PlainClient(server.url) as client:
        with pytest.raises(JudgeError, match="answered 500 on /metrics: engine dead"):
            await client.metrics_text()


async def test_proxies_of_the_environment_are_left_alone(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    server = await answering(serve, {"GET /health": ("200 OK", b"")})
    async with PlainClient(server.url) as client:
        assert await client.health() is True
        assert await asyncio.gather(client.health(), client.health()) == [True, True]


async def test_llamacpps_words_for_tokens_and_templates(serve: Serve) -> None:
    server = await answering(
        serve,
        {
            "POST /tokenize": ("200 OK", b'{"tokens": [5, 6]}'),
            "POST /detokenize": ("200 OK", b'{"content": "hi"}'),
            "POST /apply-template": ("200 OK", b'{"prompt": "<|user|>hi"}'),
        },
    )
    async with PlainClient(server.url) as client:
        client.dialect = LLAMACPP
        assert await client.tokenize("m", text="hi", add_special_tokens=False) == (5, 6)
        assert await client.tokenize("m", messages=[{"role": "user", "content": "hi"}]) == (5, 6)
        assert await client.detokenize("m", (5, 6)) == "hi"
    bodies = [orjson.loads(body) for _, _, body in server.seen]  # type: ignore[attr-defined]
    assert bodies == [
        {"model": "m", "content": "hi", "add_special": False},
        {"messages": [{"role": "user", "content": "hi"}]},
        {"model": "m", "content": "<|user|>hi", "add_special": True},
        {"model": "m", "tokens": [5, 6]},
    ]


async def test_an_engine_without_a_call_is_not_asked(serve: Serve) -> None:
    server = await answering(serve, {"POST /v1/encode": ("200 OK", b'{"input_ids": [7]}')})
    async with PlainClient(server.url) as client:
        client.dialect = LMDEPLOY
        assert await client.tokenize("m", text="hi") == (7,)
        assert await client.detokenize("m", (7,)) is None
        client.dialect = SGLANG
        assert await client.tokenize("m", messages=[{"role": "user", "content": "hi"}]) is None
    assert len(server.seen) == 1  # type: ignore[attr-defined]


async def test_a_cache_that_says_it_was_not_emptied_was_not(serve: Serve) -> None:
    answers = {"POST /reset_prefix_cache": ("200 OK", b'{"success": false}')}
    answers["GET /flush_cache"] = ("200 OK", b"Cache flushed.\n")
    server = await answering(serve, answers)
    async with PlainClient(server.url) as client:
        assert await client.reset_prefix_cache() is False
        assert await client.reset_prefix_cache("/flush_cache", "GET") is True
        assert await client.reset_prefix_cache("/elsewhere") is False
