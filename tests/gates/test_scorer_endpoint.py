"""The endpoint scorer: against the embedded engine over HTTP, and against awkward servers."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import fields
from typing import Any

import numpy as np
import orjson
import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer

from loadjudge.client.http import PlainClient
from loadjudge.errors import JudgeError
from loadjudge.gates.scorers.endpoint import (
    Allowed,
    EndpointScorer,
    ask_allowed,
    endpoint_scorer,
    k_for,
)
from loadjudge.gates.scorers.entries import last_entries
from loadjudge.gates.scorers.exact import ExactScorer
from loadjudge.gates.scorers.scorer import Refused, Unavailable
from loadjudge.record.values import Terms
from loadjudge.reference.configuration import EngineConfig, scheduler_of
from loadjudge.reference.corpus import corpus_of
from loadjudge.reference.engine import Engine
from loadjudge.reference.model import Model
from loadjudge.reference.scheduler import Limits
from loadjudge.reference.server import Server
from loadjudge.reference.store import model_of
from loadjudge.reference.tokenizer import END
from loadjudge.wire.request import Sampling

VOCABULARY = 40
SAMPLINGS = (
    Sampling(0.7, 0.9, 20),
    Sampling(1.0, 1.0, 20),
    Sampling(1.0),
    Sampling(0.6, 0.8),
    Sampling(0.0),
)


@pytest.fixture(scope="module")
def model() -> Model:
    days = ("Monday", "Tuesday", "Friday")
    return model_of(
        corpus_of(
            [
                {
                    "messages": [
                        {"role": "user", "content": f"When does boat {n} leave on {days[n % 3]}?"},
                        {
                            "role": "assistant",
                            "content": f"Boat {n} leaves at {n % 12}, from the old pier. Be early.",
                        },
                    ]
                }
                for n in range(40)
            ]
        )
    )


@pytest_asyncio.fixture
async def http(model: Model) -> AsyncIterator[PlainClient]:
    """An embedded engine behind a real socket."""
    config = EngineConfig(limits=Limits(max_model_len=120))
    engine = Engine(scheduler_of(config, model), clock=False)
    server = TestServer(Server(engine, model, "m").app())
    await server.start_server()
    async with PlainClient(str(server.make_url("/"))) as client:
        yield client
    await server.close()


Answer = Callable[[dict[str, Any]], Awaitable[web.Response]]


@pytest_asyncio.fixture
async def served() -> AsyncIterator[Callable[[Answer], Awaitable[PlainClient]]]:
    """A client of a server that answers completions as it is told."""
    running: list[tuple[TestServer, PlainClient]] = []

    async def serve(answer: Answer) -> PlainClient:
        async def handle(request: web.Request) -> web.Response:
            return await answer(orjson.loads(await request.read()))

        app = web.Application()
        app.router.add_post("/v1/completions", handle)
        server = TestServer(app)
        await server.start_server()
        running.append((server, PlainClient(str(server.make_url("/")))))
        return running[-1][1]

    yield serve
    for server, client in running:
        await client.close()
        await server.close()


def vllm(limit: int, p: np.ndarray, text: str = " a") -> Answer:
    """vLLM in little: the same distribution everywhere, at most ``limit`` (-1: any) of it."""

    async def answer(body: dict[str, Any]) -> web.Response:
        k = body["prompt_logprobs"]
        wanted = len(p) if k < 0 else k
        if 0 <= limit < wanted:
            message = (
                f"Requested prompt logprobs of {wanted}, which is greater than max allowed: {limit}"
            )
            return web.json_response({"error": {"message": message}}, status=400)
        return web.Response(
            body=orjson.dumps(completion(body["prompt"], p, wanted, text)),
            content_type="application/json",
        )

    return answer


def completion(prompt: list[int], p: np.ndarray, k: int, text: str) -> dict[str, Any]:
    likeliest = np.argsort(-p, kind="stable")[:k].tolist()
    entries = [
        {
            str(v): {"logprob": float(np.log(p[v])), "rank": 1, "decoded_token": text}
            for v in dict.fromkeys((token, *likeliest))
        }
        for token in prompt[1:]
    ]
    choice = {
        "index": 0,
        "prompt_logprobs": [None, *entries],
        "text": text,
        "prompt_token_ids": None,
    }
    return {"id": "cmpl-1", "choices": [choice], "usage": {"prompt_tokens": len(prompt)}}


def distribution() -> np.ndarray:
    p = np.random.default_rng(5).dirichlet(np.full(VOCABULARY, 0.3))
    return np.maximum(p, 1e-5) / np.maximum(p, 1e-5).sum()


def assert_equal(a: Terms, b: Terms, within: float) -> None:
    for f in fields(Terms):
        assert getattr(a, f.name) == pytest.approx(getattr(b, f.name), abs=within), f.name


def some_replies(model: Model) -> list[tuple[list[int], list[int]]]:
    encode = model.tokenizer.encode
    prompt = encode("When does boat 7 leave on Friday?")
    ended = [*encode("Boat 7 leaves at 7, from the old pier. Be early."), END]
    strange = encode("zq 0x7 Friday Friday")
    return [(prompt, ended), (prompt, ended[:4]), (prompt, strange), (prompt[:1], ended)]


@pytest.mark.parametrize("sampling", SAMPLINGS)
async def test_it_agrees_with_the_exact_scorer(
    http: PlainClient, model: Model, sampling: Sampling
) -> None:
    scorer = await endpoint_scorer(http, "m", 120, (END,))
    exact = ExactScorer(model)
    replies = some_replies(model)
    got = await asyncio.gather(*(scorer.score(p, r, sampling) for p, r in replies))
    for (prompt, reply), (terms, is_exact) in zip(replies, got, strict=True):
        want, _ = await exact.score(prompt, reply, sampling)
        assert is_exact
        assert len(terms.q) == len(reply)
        assert_equal(terms, want, 1e-6)


async def test_a_reply_at_the_end_of_the_context_lacks_its_last_term(
    http: PlainClient, model: Model
) -> None:
    scorer = await endpoint_scorer(http, "m", 120, (END,))
    prompt, reply = some_replies(model)[0]
    prompt = (prompt * 20)[: 120 - len(reply)]
    terms, _ = await scorer.score(prompt, reply, Sampling())
    assert len(terms.q) == len(reply) - 1
    want, _ = await ExactScorer(model).score(prompt, reply[:-1], Sampling())
    assert_equal(terms, want, 1e-6)
    with pytest.raises(Refused, match="no room"):
        await scorer.score(prompt * 2, reply, Sampling())


async def test_an_empty_reply_has_no_terms_and_asks_nothing(http: PlainClient) -> None:
    scorer = EndpointScorer(http, "none such", None, (END,), Allowed(1, False))
    terms, exact = await scorer.score([1, 2], [], Sampling())
    assert (len(terms.q), exact) == (0, True)


async def test_vllms_own_limit_is_found_and_too_small_a_k_is_said(served: Any) -> None:
    p = distribution()
    http = await served(vllm(20, p))
    assert await ask_allowed(http, "m") == Allowed(20, False)
    scorer = await endpoint_scorer(http, "m", None, (3,))
    reply = list(range(VOCABULARY))
    _, exact = await scorer.score([1, 2, 3], reply, Sampling(0.7, 0.9, 20))
    assert exact
    for sampling in (Sampling(1.0), Sampling(0.7, 0.9, 30)):
        _, exact = await scorer.score([1, 2, 3], reply, sampling)
        assert not exact
    coarse, _ = await scorer.score([1, 2, 3], reply, Sampling(1.0))
    assert p @ (coarse.logp - coarse.expected) == pytest.approx(0, abs=1e-12)
    assert p @ (coarse.is_end - coarse.q_end) == pytest.approx(0, abs=1e-12)


async def test_a_whole_vocabulary_is_exact(served: Any) -> None:
    p = distribution()
    scorer = await endpoint_scorer(await served(vllm(-1, p)), "m", None, (3,))
    terms, exact = await scorer.score([1], [4, 9], Sampling(0.5))
    q = p**2 / (p**2).sum()
    assert exact
    assert terms.q == pytest.approx(q[[4, 9]])
    assert terms.expected == pytest.approx(np.full(2, q @ np.log(p)))


async def refusing(_body: dict[str, Any]) -> web.Response:
    return web.json_response({"error": {"message": "prompt_logprobs is not supported"}}, status=400)


async def ignoring(_body: dict[str, Any]) -> web.Response:
    return web.json_response({"choices": [{"text": "a", "prompt_logprobs": None}]})


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(refusing, "gives no prompt_logprobs: prompt_logprobs is not sup"), (ignoring, "ignores")],
)
async def test_an_endpoint_without_them_is_unavailable_and_says_why(
    served: Any, answer: Answer, reason: str
) -> None:
    with pytest.raises(Unavailable, match=reason):
        await endpoint_scorer(await served(answer), "m", None, (3,))


async def test_logits_are_no_log_probabilities(served: Any) -> None:
    http = await served(vllm(20, 100 * distribution()))
    scorer = await endpoint_scorer(http, "m", None, (3,))
    with pytest.raises(Unavailable, match="raw_logprobs"):
        await scorer.score([1], [4, 9], Sampling(0.7, 0.9, 20))


async def test_one_reply_refused_and_an_engine_that_breaks_are_told_apart(served: Any) -> None:
    status = 400

    async def answer(_body: dict[str, Any]) -> web.Response:
        return web.json_response({"error": {"message": "out of vocabulary"}}, status=status)

    scorer = EndpointScorer(await served(answer), "m", None, (3,), Allowed(20, False))
    with pytest.raises(Refused, match="out of vocabulary"):
        await scorer.score([1], [4], Sampling())
    status = 500
    with pytest.raises(JudgeError) as broken:
        await scorer.score([1], [4], Sampling())
    assert not isinstance(broken.value, Refused | Unavailable)


@pytest.mark.parametrize("text", ['}},{"', '}},{"7', "}}]", '"prompt_logprobs":[null,{', "\\"])
@pytest.mark.parametrize("blanks", [False, True])
async def test_text_that_looks_like_json_does_not_mislead(
    served: Any, text: str, blanks: bool
) -> None:
    p = distribution()
    if blanks:

        async def answer(body: dict[str, Any]) -> web.Response:
            value = completion(body["prompt"], p, body["prompt_logprobs"], text)
            return web.Response(text=json.dumps(value), content_type="application/json")
    else:
        answer = vllm(20, p, text)
    scorer = EndpointScorer(await served(answer), "m", None, (3,), Allowed(20, False))
    terms, _ = await scorer.score([1, 2], [30, 4, 9], Sampling(1.0, 1.0, 20))
    kept = np.sort(p)[::-1][:20]
    assert terms.logp == pytest.approx(np.log(p[[30, 4, 9]]))
    assert terms.expected == pytest.approx(np.full(3, kept @ np.log(kept) / kept.sum()))


def test_only_the_replys_entries_are_cut_out() -> None:
    body = orjson.dumps(completion(list(range(10)), distribution(), 3, "x"))
    pieces = last_entries(body, 4)
    assert pieces is not None
    assert [orjson.loads(piece) for piece in pieces] == orjson.loads(body)["choices"][0][
        "prompt_logprobs"
    ][-4:]
    assert len(last_entries(body, 9) or ()) == 9
    assert last_entries(body, 10) is None  # the first of a prompt has none


def test_k_is_what_is_needed_and_no_more() -> None:
    whole, twenty = Allowed(2048, True), Allowed(20, False)
    assert k_for(1000, Sampling(0.0), whole, 1024) == 1
    assert k_for(1000, Sampling(0.7, 0.9, 20), whole, 1024) == 20
    assert k_for(1000, Sampling(0.7, 0.9, 50), twenty, 1024) == 20
    assert k_for(300, Sampling(1.0), whole, 1024) == -1
    assert k_for(1000, Sampling(1.0), whole, 1024) == 262
    assert k_for(1000, Sampling(1.0), whole, 64) == 64
    assert k_for(10**6, Sampling(1.0), whole, 1024) == 20
    assert k_for(1000, Sampling(1.0), twenty, 1024) == 20


async def test_an_answer_of_30_mb_does_not_stall_the_loop(served: Any) -> None:
    """Some 20 ms of work at a time, and parsed whole it would be 500. What the loop's thread
    works is measured, and not the clock: other work shares the machine's cores."""
    rng = np.random.default_rng(1)
    p = np.sort(rng.dirichlet(np.full(5000, 0.2)) + 1e-9)[::-1]
    p /= p.sum()
    reply = list(range(100))
    body = orjson.dumps(completion([1] * 400 + reply, p, 1024, " token"))
    assert len(body) > 30e6

    class Canned(PlainClient):
        async def completions_as_sent(self, _body: Any) -> tuple[int, bytes]:
            await asyncio.sleep(0)
            return 200, body

    longest = 0.0
    parsed = asyncio.Event()

    async def heartbeat() -> None:
        nonlocal longest
        last = time.thread_time()
        while not parsed.is_set():
            await asyncio.sleep(0.001)
            longest, last = max(longest, time.thread_time() - last), time.thread_time()

    async with Canned("http://nowhere") as http:
        beat = asyncio.create_task(heartbeat())
        scorer = EndpointScorer(http, "m", None, (3,), Allowed(1024, False))
        await asyncio.sleep(0.01)
        terms, _ = await scorer.score([1] * 400, reply, Sampling(0.7, 0.9, 1024))
        parsed.set()
        await beat
    assert terms.logp == pytest.approx(np.log(p[:100]))
    assert longest < 0.1, f"the loop stood still for {longest * 1e3:.0f} ms"
