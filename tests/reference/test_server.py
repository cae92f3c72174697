"""The HTTP surface, over a real engine in this process, and once as a real process."""

import asyncio
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import orjson
import pytest
import pytest_asyncio
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client.parser import text_string_to_metric_families

from loadjudge.reference.configuration import EngineConfig, scheduler_of
from loadjudge.reference.engine import Engine
from loadjudge.reference.generation import RequestLog
from loadjudge.reference.model import Model
from loadjudge.reference.server import Server
from loadjudge.reference.tokenizer import END

from .conftest import TOOLS

MESSAGES = [
    {"role": "system", "content": "You help at the harbour office. Short answers."},
    {"role": "user", "content": "When does boat 7 leave on Monday, and from where?"},
    {"role": "assistant", "content": "Boat 7 leaves on Monday at 7. It leaves from the old pier."},
    {"role": "user", "content": "When does boat 8 leave on Monday, and from where?"},
]
Client = TestClient[Any, Any]


async def _client(model: Model, config: EngineConfig, clock: bool, **more: Any) -> Client:
    engine = Engine(scheduler_of(config, model), clock=clock)
    client = TestClient(
        TestServer(Server(engine, model, "reference", **more).app(), handler_cancellation=True)
    )
    await client.start_server()
    return client


@pytest_asyncio.fixture
async def client(model: Model, tmp_path: Path) -> AsyncIterator[Client]:
    log = RequestLog(tmp_path / "log.jsonl")
    client = await _client(model, EngineConfig("ngram"), clock=False, log=log)
    yield client
    await client.close()


async def _post(client: Client, path: str, body: Any, status: int = 200) -> Any:
    async with client.post(path, json=body) as response:
        assert response.status == status, await response.text()
        return await response.json()


async def _stream(client: Client, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    async with client.post(path, json=body | {"stream": True}) as response:
        assert response.status == 200
        assert response.headers["Content-Type"].startswith("text/event-stream")
        events = (await response.read()).decode().split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    return [orjson.loads(event.removeprefix("data: ")) for event in events[:-2]]


def _text(chunks: list[dict[str, Any]]) -> str:
    deltas = [choice.get("delta", choice) for c in chunks for choice in c["choices"]]
    return "".join(d.get("content") or d.get("text") or "" for d in deltas)


async def test_a_streamed_chat(client: Client, model: Model) -> None:
    body = {
        "messages": MESSAGES,
        "seed": 3,
        "return_token_ids": True,
        "stream_options": {"include_usage": True},
    }
    first, *chunks, usage = await _stream(client, "/v1/chat/completions", body)
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    prompt = (await _post(client, "/tokenize", {"messages": MESSAGES}))["tokens"]
    assert first["prompt_token_ids"] == prompt
    ids = [token for chunk in chunks for token in chunk["choices"][0]["token_ids"]]
    assert ids[-1] == END
    assert model.tokenizer.decode(ids[:-1]) == _text(chunks) != ""
    assert [c["choices"][0]["finish_reason"] for c in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert any(len(c["choices"][0]["token_ids"]) > 1 for c in chunks)  # a verify step's
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == len(ids)
    assert usage["usage"]["prompt_tokens"] == len(prompt)


async def test_whole_and_streamed_replies_of_a_seed_are_the_same(client: Client) -> None:
    body = {"messages": MESSAGES, "seed": 3, "temperature": 0.8}
    whole = await _post(client, "/v1/chat/completions", body)
    chunks = await _stream(client, "/v1/chat/completions", body)
    assert whole["choices"][0]["message"]["content"] == _text(chunks)
    assert whole["object"] == "chat.completion"
    assert whole["choices"][0]["finish_reason"] == "stop"


async def test_calls_stream_with_id_and_name_first(client: Client) -> None:
    body = {"messages": [{"role": "user", "content": "Where is parcel P-3?"}], "tools": TOOLS}
    seen = 0
    for seed in range(30):
        chunks = await _stream(client, "/v1/chat/completions", body | {"seed": seed})
        whole = await _post(client, "/v1/chat/completions", body | {"seed": seed})
        calls: dict[int, dict[str, str]] = {}
        for chunk in chunks:
            for call in chunk["choices"][0]["delta"].get("tool_calls", ()):
                known = calls.setdefault(call["index"], {"arguments": ""})
                if "id" in call:
                    assert known == {"arguments": ""}
                    assert re.fullmatch("call_[0-9a-f]+", call["id"])
                    known["name"] = call["function"]["name"]
                known["arguments"] += call["function"]["arguments"]
        message = whole["choices"][0]["message"]
        assert [c["function"] for c in message["tool_calls"]] == list(calls.values())
        assert all(c["name"] in ("find_parcel", "send_parcel") for c in calls.values())
        reason = whole["choices"][0]["finish_reason"]
        assert chunks[-1]["choices"][0]["finish_reason"] == reason
        assert (reason == "tool_calls") == bool(calls)
        seen += len(calls)
    assert seen > 5


async def test_prompt_logprobs_are_the_models_own(client: Client, model: Model) -> None:
    ids = (await _post(client, "/tokenize", {"messages": MESSAGES}))["tokens"]
    ids += [*model.tokenizer.encode("Boat 7 leaves on Monday."), END]
    body = {"prompt": ids, "max_tokens": 1, "prompt_logprobs": 5, "temperature": 0.1}
    reply = await _post(client, "/v1/completions", body)
    null, *entries = reply["choices"][0]["prompt_logprobs"]
    assert null is None
    assert len(entries) == len(ids) - 1
    blocks = np.concatenate([block for _, block in model.score(ids)])
    for token, entry, p in zip(ids[1:], entries, blocks[1:], strict=True):
        assert 5 <= len(entry) <= 6
        ranked = np.argsort(-p, kind="stable").tolist()
        for key, value in entry.items():
            expected = max(float(np.log(p[int(key)].astype(float) or 1e-300)), -9999.0)
            if p[int(key)] > 0:
                assert value["logprob"] == pytest.approx(expected, abs=1e-6)
            else:
                assert value["logprob"] == -9999.0
        assert entry[str(token)]["rank"] == ranked.index(token) + 1
        assert {v["rank"] for v in entry.values()} >= {1, 2, 3, 4, 5}
    chat = await _post(
        client,
        "/v1/chat/completions",
        {"messages": MESSAGES, "max_tokens": 1, "prompt_logprobs": 0},
    )
    assert [len(e) for e in chat["prompt_logprobs"][1:]] == [1] * (len(chat["prompt_logprobs"]) - 1)


async def test_scoring_reads_no_prefix_cache(client: Client) -> None:
    for _ in range(2):
        body = {"messages": MESSAGES, "max_tokens": 1, "prompt_logprobs": 1}
        reply = await _post(client, "/v1/chat/completions", body)
    assert reply["usage"]["prompt_tokens_details"]["cached_tokens"] == 0


async def test_plain_completions_take_text_or_ids(client: Client) -> None:
    text = "Boat 7 leaves"
    ids = (await _post(client, "/tokenize", {"prompt": text}))["tokens"]
    replies = [
        await _post(client, "/v1/completions", {"prompt": p, "seed": 1, "max_tokens": 20})
        for p in (text, ids)
    ]
    assert replies[0]["choices"][0]["text"] == replies[1]["choices"][0]["text"]
    assert replies[0]["usage"]["completion_tokens"] <= 20
    chunks = await _stream(
        client,
        "/v1/completions",
        {"prompt": ids, "seed": 1, "max_tokens": 20, "return_token_ids": True},
    )
    assert _text(chunks) == replies[0]["choices"][0]["text"]
    assert chunks[0]["choices"][0]["prompt_token_ids"] == ids
    detokenized = await _post(client, "/detokenize", {"tokens": ids})
    assert detokenized == {"prompt": text}


async def test_stop_strings_cut_the_reply(client: Client) -> None:
    body = {"messages": MESSAGES, "seed": 3}
    full = (await _post(client, "/v1/chat/completions", body))["choices"][0]["message"]["content"]
    stop = full[10:14]
    chunks = await _stream(client, "/v1/chat/completions", body | {"stop": [stop]})
    assert _text(chunks) == full[: full.index(stop)]
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"


async def test_limits_and_continuous_usage(client: Client) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    body = {"messages": MESSAGES, "max_completion_tokens": 5, "ignore_eos": True}
    chunks = await _stream(client, "/v1/chat/completions", body | {"stream_options": options})
    counts = [chunk["usage"]["completion_tokens"] for chunk in chunks]
    assert counts == sorted(counts)
    assert counts[-1] == 5
    assert chunks[-2]["choices"][0]["finish_reason"] == "length"


async def test_logprobs_of_the_reply(client: Client) -> None:
    body = {"messages": MESSAGES, "seed": 1, "logprobs": True, "top_logprobs": 2}
    choice = (await _post(client, "/v1/chat/completions", body))["choices"][0]
    tokens = choice["logprobs"]["content"]
    assert "".join(t["token"] for t in tokens[:-1]) == choice["message"]["content"]
    assert all(len(t["top_logprobs"]) == 2 for t in tokens)


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        ("/v1/chat/completions", {"messages": []}, 400, "messages is empty"),
        ("/v1/chat/completions", {}, 400, "messages: Field required"),
        ("/v1/chat/completions", {"messages": MESSAGES, "model": "gpt"}, 404, "gpt"),
        ("/v1/chat/completions", {"messages": [{"role": "x"}]}, 400, "unexpected message role"),
        (
            "/v1/chat/completions",
            {"messages": MESSAGES, "max_tokens": 17000},
            400,
            "maximum context",
        ),
        ("/v1/chat/completions", {"messages": MESSAGES, "n": 2}, 400, "n: "),
        ("/v1/completions", {"prompt": [7] * 17000}, 400, "maximum context length is 16384"),
        ("/v1/completions", {"prompt": [99999]}, 400, "out of vocabulary"),
        ("/v1/completions", {"prompt": ""}, 400, "empty"),
        ("/tokenize", {}, 400, "required"),
        ("/nowhere", {}, 404, "Not Found"),
    ],
)
async def test_errors(client: Client, path: str, body: Any, status: int, says: str) -> None:
    error = (await _post(client, path, body, status))["error"]
    assert says in error["message"]
    assert error["code"] == status
    assert error["type"]


async def test_bad_json(client: Client) -> None:
    async with client.post("/v1/completions", data=b"{") as response:
        assert response.status == 400
        assert "not JSON" in (await response.json())["error"]["message"]


async def test_a_key_is_asked_for(model: Model) -> None:
    client = await _client(model, EngineConfig(), clock=False, api_key="secret")
    for header, status in ((None, 401), ("Bearer wrong", 401), ("Bearer secret", 200)):
        headers = {"Authorization": header} if header else {}
        async with client.get("/v1/models", headers=headers) as response:
            assert response.status == status
    async with client.get("/health") as response:
        assert response.status == 200
    await client.close()


async def test_metrics_under_vllms_names(client: Client, model: Model) -> None:
    for seed in range(3):
        await _post(client, "/v1/chat/completions", {"messages": MESSAGES, "seed": seed})
    async with client.get("/metrics") as response:
        text = await response.text()
    values = {m[1]: float(m[2]) for m in re.finditer(r"^(vllm:\w+){[^}]*} (\S+)$", text, re.M)}
    assert values["vllm:spec_decode_num_drafts_total"] > 0
    assert values["vllm:prefix_cache_hits_total"] > 0
    assert values["vllm:num_requests_running"] == 0
    assert 'num_gpu_blocks="5120"' in text
    assert 'kv_cache_size_tokens="81920"' in text
    assert (
        'vllm:request_success_total{engine="0",model_name="reference",finished_reason="stop"} 3'
        in text
    )
    families = {family.name for family in text_string_to_metric_families(text)}
    assert "vllm:kv_cache_usage_perc" in families
    accepted = re.findall(r'per_pos_total{.*position="\d"} (\S+)', text)
    assert sum(map(float, accepted)) == values["vllm:spec_decode_num_accepted_tokens_total"]
    assert (await _post(client, "/reset_prefix_cache", None)) == {"success": True}
    stock = await _client(model, EngineConfig(), clock=False)
    async with stock.get("/metrics") as response:
        assert "spec_decode" not in await response.text()
    await stock.close()


async def test_the_request_log(client: Client, tmp_path: Path) -> None:
    body = {"messages": MESSAGES, "seed": 5, "cache_salt": "pass-1"}
    reply = await _post(client, "/v1/chat/completions", body)
    (line,) = map(orjson.loads, (tmp_path / "log.jsonl").read_bytes().splitlines())
    assert line["content"] == reply["choices"][0]["message"]["content"]
    assert (line["messages"], line["seed"], line["cache_salt"]) == (MESSAGES, 5, "pass-1")
    assert len(line["token_ids"]) == reply["usage"]["completion_tokens"]


async def test_a_client_that_leaves_frees_its_blocks(model: Model, tmp_path: Path) -> None:
    engine = Engine(scheduler_of(EngineConfig(), model))
    log = RequestLog(tmp_path / "log.jsonl")
    app = Server(engine, model, "reference", log=log).app()
    client: Client = TestClient(TestServer(app, handler_cancellation=True))
    await client.start_server()
    body = {"messages": MESSAGES, "stream": True, "ignore_eos": True, "max_tokens": 500}
    async with client.post("/v1/chat/completions", json=body) as response:
        await response.content.readany()
        snapshot = await (await client.get("/reference/inflight")).json()
        assert snapshot["current"] == snapshot["maximum"] == 1
        response.close()
    await asyncio.sleep(0.1)
    assert not engine.scheduler.has_work()
    assert engine.scheduler.pool.usage == 0
    assert orjson.loads((tmp_path / "log.jsonl").read_bytes())["finish_reason"] == "abort"
    snapshot = await (await client.post("/reference/inflight/reset")).json()
    assert (snapshot["current"], snapshot["maximum"]) == (0, 0)
    await client.close()


async def test_deadlines_do_not_drift(model: Model) -> None:
    """A reply of n steps takes the sum of its steps' durations, however late each timer fires."""
    client = await _client(model, EngineConfig(), clock=True)
    body = {"messages": MESSAGES, "ignore_eos": True, "max_tokens": 60, "stream": True}
    arrivals = []
    async with client.post("/v1/chat/completions", json=body) as response:
        async for _ in response.content.iter_any():
            arrivals.append(time.monotonic())  # noqa: PERF401
    took = arrivals[-1] - arrivals[0]
    assert took == pytest.approx(59 * 8.5e-3, rel=0.05)
    await client.close()


def test_as_a_process(tmp_path: Path) -> None:
    socket = tmp_path / "engine.sock"
    command = [sys.executable, "-m", "loadjudge.reference", "--socket", str(socket)]
    command += ["--speculate", "draft", "--clock", "off", "--kv-tokens", "32000"]
    process = subprocess.Popen([*command, "--cost.weights_s", "0.001"], stderr=subprocess.PIPE)
    try:
        transport = httpx.HTTPTransport(uds=str(socket))
        with httpx.Client(transport=transport, base_url="http://engine", timeout=10) as client:
            for _ in range(200):
                if socket.exists():
                    break
                time.sleep(0.05)
            assert client.get("/health").status_code == 200
            model = client.get("/v1/models").json()["data"][0]
            assert (model["id"], model["max_model_len"]) == ("reference", 16384)
            reply = client.post("/v1/chat/completions", json={"messages": MESSAGES}).json()
            assert reply["choices"][0]["message"]["content"]
            assert "spec_decode_num_drafts_total" in client.get("/metrics").text
            assert client.get("/version").json()["version"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 0
    finally:
        process.kill()
        process.communicate()
