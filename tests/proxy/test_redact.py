"""What is taken out, and what is left."""

import orjson
import pytest

from loadjudge.errors import JudgeError
from loadjudge.proxy.redact import Redactor, luhn, patterns_of


def redactor(*names: str, custom: tuple[str, ...] = ()) -> Redactor:
    return Redactor(patterns_of(names, custom))


# Put together here, so that no scanner takes them for real ones.
AWS = "AKIA" + "IOSFODNN7EXAMPLE"
OPENAI = "sk-" + "proj-Abc123_def456-GHI789jkl012"
GITHUB = "ghp" + "_" + "a1B2" * 9
JWT = ".".join(("eyJhbGciOiJIUzI1NiJ9", "eyJzdWIiOiIxMjM0In0", "dozjgNryP4J3jVmN"))
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("write to ada.l+x@mail.example.org, now", "write to [redacted: email], now"),
        (f"key {OPENAI}.", "key [redacted: key]."),
        (f"{AWS} and {GITHUB}", "[redacted: key] and [redacted: key]"),
        (f"Authorization: Bearer {JWT}", "Authorization: Bearer [redacted: key]"),
        (f"a\n{PEM}\nb", "a\n[redacted: key]\nb"),
        ("curl -d api_key=abcdef123 x", "curl -d api_key=[redacted: key] x"),
        ("password=hunter22; next", "password=[redacted: key]; next"),
        ("call +49 30 1234567 or (415) 555-0132", "call [redacted: phone] or [redacted: phone]"),
        ("415-555-0132, 1-415-555-0132", "[redacted: phone], [redacted: phone]"),
        ("card 4111 1111 1111 1111 ok", "card [redacted: card] ok"),
        ("378282246310005", "[redacted: card]"),
    ],
)
def test_all_takes_out(text: str, left: str) -> None:
    assert redactor("all").text(text) == left


@pytest.mark.parametrize(
    "text",
    [
        "4111 1111 1111 1112",  # a wrong check digit
        "version 1.2.3-4567, 2026-11-30, 192.168.100.200",
        "the sk-learn package, task-1234, risk-free",
        "order 1234567890123",
        "x@y, @decorator, a @ b.c",
        "0.4111111111111111",
        "π = 3.14159265358979323846",
    ],
)
def test_all_leaves(text: str) -> None:
    assert redactor("all").text(text) == text


def test_only_what_was_named_is_taken_out() -> None:
    text = "a@b.example 4111111111111111"
    assert redactor("email").text(text) == "[redacted: email] 4111111111111111"
    assert redactor("card,phone").text(text) == "a@b.example [redacted: card]"


def test_custom_patterns() -> None:
    one = redactor(custom=(r"EMP-\d{4}", "(?i)project x"))
    assert one.text("EMP-1234 on Project X") == "[redacted: pattern] on [redacted: pattern]"
    assert one.count == 2


def test_messages_keep_their_shape_and_calls_stay_json() -> None:
    one = redactor("all", custom=('"',))
    message = {
        "role": "assistant",
        "content": [{"type": "text", "text": "to a@b.example"}],
        "reasoning": "a@b.example it is",
        "tool_calls": [
            {
                "id": "call_4111111111111111",
                "type": "function",
                "function": {
                    "name": "pay",
                    "arguments": '{"card": 4111111111111111, "to": ["a@b.example"], "n": 2}',
                },
            }
        ],
    }
    left = one.message(message)
    assert left["content"] == [{"type": "text", "text": "to [redacted: email]"}]
    assert left["reasoning"] == "[redacted: email] it is"
    (call,) = left["tool_calls"]
    assert call["id"] == "call_4111111111111111"  # it pairs the call with its result
    assert orjson.loads(call["function"]["arguments"]) == {
        "card": "[redacted: card]",
        "to": ["[redacted: email]"],
        "n": 2,
    }
    assert message["reasoning"] == "a@b.example it is"


def test_arguments_that_are_no_json_are_taken_as_text() -> None:
    assert redactor("email").arguments("to: a@b.example") == "to: [redacted: email]"


def test_without_patterns_nothing_changes() -> None:
    message = {"role": "user", "content": "a@b.example"}
    assert redactor().message(message) == message


@pytest.mark.parametrize(
    ("names", "custom", "said"),
    [
        (("names",), (), "keys, email, card, phone or all, not 'names'"),
        ((), ("(",), "is no regular expression"),
        ((), ("x*",), "finds the empty text"),
    ],
)
def test_wrong_wishes(names: tuple[str, ...], custom: tuple[str, ...], said: str) -> None:
    with pytest.raises(JudgeError, match="--redact") as caught:
        patterns_of(names, custom)
    assert said in caught.value.sentence


def test_luhn() -> None:
    assert luhn("4111-1111-1111-1111")
    assert not luhn("4111-1111-1111-1113")
    assert not luhn("0" * 16)
