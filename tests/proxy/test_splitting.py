"""Which conversation a request belongs to, and where it goes."""

from typing import Any

import orjson
import pytest

from loadjudge.proxy.splitting import asked_of, conversation, to_candidate, with_token_ids
from loadjudge.wire.request import Sampling


def asked(*texts: str, **more: Any) -> dict[str, Any]:
    roles = ["system", *["user", "assistant"] * len(texts)]
    pairs = zip(roles, texts, strict=False)
    return {"model": "m", "messages": [{"role": r, "content": t} for r, t in pairs], **more}


def test_all_requests_of_a_conversation_have_its_name() -> None:
    name = conversation(asked("s", "hi"))
    assert conversation(asked("s", "hi", "yes?", "more")) == name
    assert conversation(asked("s", "hi", "another reply", "other words", temperature=0)) == name
    assert conversation(asked("s", "ho")) != name
    assert conversation(asked("S", "hi")) != name
    assert conversation({**asked("s", "hi"), "model": "other"}) != name


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 0.9])
def test_that_share_of_sessions_goes_to_the_candidate(share: float) -> None:
    names = [conversation(asked("s", f"question {i}")) for i in range(20_000)]
    taken = sum(to_candidate(name, share, seed=1) for name in names) / len(names)
    assert taken == pytest.approx(share, abs=4 * (share * (1 - share) / 20_000) ** 0.5)


def test_the_draw_goes_by_the_seed() -> None:
    names = [conversation(asked("s", f"question {i}")) for i in range(100)]
    draws = [[to_candidate(name, 0.5, seed) for name in names] for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"{}", b'{"messages": 3}', b'{"messages":["x"]}']
)
def test_what_is_no_chat_request_has_no_conversation(body: bytes) -> None:
    assert asked_of(body) is None


@pytest.mark.parametrize(
    ("more", "sampling"),
    [
        ({"temperature": 0.7}, Sampling(0.7, 1.0, None)),
        ({"temperature": 1, "top_p": 0.9, "top_k": 20}, Sampling(1.0, 0.9, 20)),
        ({"temperature": 1, "top_k": -1, "frequency_penalty": 0}, Sampling(1.0, 1.0, None)),
        ({}, None),  # the server's own default
        ({"temperature": 1, "min_p": 0.1}, None),
        ({"temperature": 1, "stop": ["\n"]}, None),
    ],
)
def test_how_tokens_are_drawn_as_far_as_the_request_says(
    more: dict[str, Any], sampling: Sampling | None
) -> None:
    found = asked_of(orjson.dumps(asked("s", "hi", **more)))
    assert found is not None
    assert found.sampling == sampling


def test_asking_for_ids_changes_nothing_else() -> None:
    body = b' {"messages": [ ],\n "x": 1.0e3}'
    assert with_token_ids(body) == b' {"return_token_ids":true,"messages": [ ],\n "x": 1.0e3}'
    assert with_token_ids(b"{ }") == b'{"return_token_ids":true }'
    assert with_token_ids(b"[1]") is None
    both = orjson.loads(with_token_ids(b'{"return_token_ids": false}') or b"")
    assert both == {"return_token_ids": False}  # the client's own word counts
