"""Bodies of chat requests."""

import orjson
import pytest

from loadjudge.errors import JudgeError, Status
from loadjudge.wire.request import Sampling, chat_body

MESSAGES = [{"role": "user", "content": "hé"}]


def test_the_least_body() -> None:
    assert orjson.loads(chat_body("m", MESSAGES)) == {
        "model": "m",
        "messages": MESSAGES,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 1.0,
        "top_p": 1.0,
    }


def test_all_options() -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    body = orjson.loads(
        chat_body(
            "m",
            MESSAGES,
            tools=tools,
            sampling=Sampling(0.0, 0.9, 5, 1),
            max_tokens=7,
            want_ids=True,
            cache_salt="pass 1",
        )
    )
    assert body["tools"] == tools
    assert (body["temperature"], body["top_p"], body["top_k"]) == (0.0, 0.9, 5)
    assert (body["seed"], body["max_tokens"]) == (1, 7)
    assert body["return_token_ids"] is True
    assert body["cache_salt"] == "pass 1"


def test_the_seed_of_the_request_goes_first() -> None:
    assert orjson.loads(chat_body("m", MESSAGES, sampling=Sampling(seed=1), seed=0))["seed"] == 0


def test_the_extra_body_is_merged_last() -> None:
    body = orjson.loads(
        chat_body("m", MESSAGES, max_tokens=7, extra={"max_tokens": 9, "min_p": 0.1})
    )
    assert (body["max_tokens"], body["min_p"]) == (9, 0.1)


@pytest.mark.parametrize("extra", [{"stream": False}, {"n": 2}])
def test_an_extra_body_that_makes_no_single_stream_is_refused(extra: dict[str, object]) -> None:
    with pytest.raises(JudgeError, match="--extra-body") as caught:
        chat_body("m", MESSAGES, extra=extra)
    assert caught.value.status is Status.USAGE


def test_what_is_not_json_is_refused() -> None:
    with pytest.raises(JudgeError, match="not JSON"):
        chat_body("m", [{"role": "user", "content": "\ud800"}])
