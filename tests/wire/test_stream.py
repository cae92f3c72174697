"""The reply decoder: what servers stream, byte by byte, and the Reply that it makes."""

from typing import Any

import orjson
import pytest

from loadjudge.wire.reply import Arrival, Reply, ToolCall, Usage
from loadjudge.wire.stream import ReplyDecoder, StreamError

DONE = b"data: [DONE]\n\n"


def event(
    delta: dict[str, Any] | None = None, *, finish: str | None = None, **choice: Any
) -> bytes:
    """One chunk as servers send it."""
    body = {"index": 0, "finish_reason": finish, **choice}
    if delta is not None:
        body["delta"] = delta
    return raw({"id": "c1", "model": "m", "choices": [body]})


def raw(value: Any) -> bytes:
    return b"data: " + orjson.dumps(value) + b"\n\n"


def play(*reads: bytes) -> Reply:
    """Each read at its own time: 1, 2, 3, …"""
    decoder = ReplyDecoder()
    for number, read in enumerate(reads, 1):
        decoder.feed(read, number)
    return decoder.finish()


def failing(*reads: bytes) -> StreamError:
    with pytest.raises(StreamError) as caught:
        play(*reads)
    return caught.value


ROLE = event({"role": "assistant", "content": ""})
STOP = event({}, finish="stop")


def test_plain_content() -> None:
    reply = play(ROLE, event({"content": "Hé"}), event({"content": "llo"}), STOP, DONE)
    assert reply == Reply(
        content="Héllo",
        reasoning="",
        reasoning_field=None,
        tool_calls=(),
        finish_reason="stop",
        token_ids=None,
        prompt_token_ids=None,
        usage=None,
        arrivals=(Arrival(2, "content", None, 2), Arrival(3, "content", None, 3)),
        t_first_content_ns=2,
        done=True,
        model="m",
        reply_id="c1",
    )


@pytest.mark.parametrize(
    "first",
    [
        pytest.param({"role": "assistant", "content": ""}, id="empty content"),
        pytest.param({"role": "assistant", "content": None}, id="null content"),
        pytest.param({"role": "assistant"}, id="no content"),
        pytest.param({"role": "assistant", "tool_calls": None, "content": None}, id="null calls"),
        pytest.param({"content": "", "reasoning": None, "reasoning_content": ""}, id="all empty"),
        pytest.param({}, id="empty delta"),
        pytest.param(None, id="no delta"),
    ],
)
def test_a_first_chunk_without_a_token_is_no_arrival(first: dict[str, Any] | None) -> None:
    reply = play(event(first), event({"content": "a"}), STOP, DONE)
    assert [arrival.t_ns for arrival in reply.arrivals] == [2]
    assert reply.t_first_content_ns == 2


def test_a_null_delta() -> None:
    null = raw({"choices": [{"index": 0, "delta": None}]})
    assert play(null, event({"content": "a"}), STOP).content == "a"


@pytest.mark.parametrize(
    ("field", "first", "second"),
    [
        ("reasoning", "Let me ", "see."),
        ("reasoning_content", "Let me ", "see."),
        (
            "reasoning_details",
            [{"type": "reasoning.text", "text": "Let "}, {"type": "reasoning.text", "text": "me "}],
            [{"type": "reasoning.summary", "summary": "see."}, {"type": "encrypted"}],
        ),
    ],
)
def test_reasoning_in_each_spelling(field: str, first: Any, second: Any) -> None:
    reply = play(
        ROLE, event({field: first}), event({field: second}), event({"content": "4"}), STOP, DONE
    )
    assert (reply.reasoning, reply.content) == ("Let me see.", "4")
    assert reply.reasoning_field == field
    assert reply.arrivals == (
        Arrival(2, "reasoning", None, 7),
        Arrival(3, "reasoning", None, 4),
        Arrival(4, "content", None, 1),
    )
    assert reply.t_first_content_ns == 4


def test_reasoning_said_in_two_spellings_counts_once() -> None:
    reply = play(event({"reasoning": "ab", "reasoning_content": "ab"}), STOP)
    assert (reply.reasoning, reply.arrivals[0].chars) == ("ab", 2)


def test_reasoning_and_content_in_one_delta() -> None:
    reply = play(event({"reasoning": "ab", "content": "c"}), STOP)
    assert (reply.reasoning, reply.content) == ("ab", "c")
    assert reply.arrivals == (Arrival(1, "reasoning", None, 3),)
    assert reply.t_first_content_ns == 1


def test_length_reached_within_the_reasoning_is_a_reply() -> None:
    reply = play(ROLE, event({"reasoning": "hm"}), event({}, finish="length"), DONE)
    assert (reply.content, reply.finish_reason) == ("", "length")
    assert reply.t_first_content_ns is None
    assert len(reply.arrivals) == 1


def call(index: int | None, call_id: str | None, name: str | None, arguments: str) -> Any:
    function = {"arguments": arguments} | ({"name": name} if name else {})
    piece: dict[str, Any] = {"function": function}
    if index is not None:
        piece["index"] = index
    if call_id is not None:
        piece |= {"id": call_id, "type": "function"}
    return piece


def tools(*pieces: Any) -> bytes:
    return event({"tool_calls": list(pieces)})


def test_parallel_calls_in_pieces() -> None:
    reply = play(
        ROLE,
        tools(call(0, "a", "f", "")),
        tools(call(0, None, None, '{"x"')),
        tools(call(1, "b", "g", '{"y": ')),
        tools(call(0, None, None, ": 1}"), call(1, None, None, "2}")),
        event({"tool_calls": None}, finish="tool_calls"),
        DONE,
    )
    assert reply.tool_calls == (ToolCall("a", "f", '{"x": 1}'), ToolCall("b", "g", '{"y": 2}'))
    assert [arrival.t_ns for arrival in reply.arrivals] == [2, 3, 4, 5]
    assert {arrival.channel for arrival in reply.arrivals} == {"tool"}
    assert [arrival.chars for arrival in reply.arrivals] == [1, 4, 7, 6]
    assert reply.t_first_content_ns is None


def test_calls_out_of_order_are_sorted_by_index() -> None:
    reply = play(tools(call(1, "b", "g", "{}"), call(0, "a", "f", "{}")), STOP)
    assert [made.id for made in reply.tool_calls] == ["a", "b"]


def test_calls_without_index() -> None:
    reply = play(
        tools(call(None, "a", "f", "1")),
        tools(call(None, None, None, "2")),
        tools(call(None, "b", "g", "3")),
        tools(call(None, "a", None, "4"), call(None, "b", None, "5")),
        STOP,
    )
    assert reply.tool_calls == (ToolCall("a", "f", "124"), ToolCall("b", "g", "35"))


def test_a_new_id_and_the_name_again_on_every_piece() -> None:
    reply = play(tools(call(0, "a", "f", "1")), tools(call(0, "b", "f", "2")), STOP)
    assert reply.tool_calls == (ToolCall("a", "f", "12"),)
    assert [arrival.chars for arrival in reply.arrivals] == [2, 1]


def test_a_piece_that_says_nothing_is_no_arrival() -> None:
    reply = play(tools(call(0, "a", None, "")), tools(call(0, None, "f", "")), STOP)
    assert [arrival.t_ns for arrival in reply.arrivals] == [2]


def usage(prompt: int, completion: int, **more: Any) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, **more}


def test_usage_in_a_last_chunk_without_choices() -> None:
    reply = play(
        event({"content": "a"}),
        STOP,
        raw({"choices": [], "usage": usage(9, 1, prompt_tokens_details={"cached_tokens": 4})}),
        DONE,
    )
    assert reply.usage == Usage(9, 1, 4)
    assert [arrival.t_ns for arrival in reply.arrivals] == [1]


def test_usage_on_every_chunk_the_last_counts() -> None:
    reply = play(
        raw({"choices": [{"delta": {"content": "a"}}], "usage": usage(9, 1)}),
        raw({"choices": [{"delta": {"content": "b"}}], "usage": usage(9, 2)}),
        raw({"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": None}),
        DONE,
    )
    assert reply.usage == Usage(9, 2, None)


def test_usage_missing_is_unknown() -> None:
    assert play(event({"content": "a"}), STOP, DONE).usage is None


def test_partial_usage() -> None:
    reply = play(STOP, raw({"choices": [], "usage": {"completion_tokens": 3}}), DONE)
    assert reply.usage == Usage(None, 3, None)


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(b'event: error\ndata: {"message": "out of memory"}\n\n', id="error event"),
        pytest.param(b"event: error\ndata: out of memory\n\n", id="error event in plain text"),
        pytest.param(raw({"error": {"message": "out of memory", "code": 500}}), id="error object"),
        pytest.param(raw({"error": "out of memory"}), id="error string"),
        pytest.param(raw({"object": "error", "message": "out of memory"}), id="old vLLM"),
    ],
)
def test_an_error_in_the_stream_is_a_failure(bad: bytes) -> None:
    error = failing(ROLE, event({"content": "a"}), bad, DONE)
    assert (error.kind, error.message) == ("stream_error", "out of memory")


@pytest.mark.parametrize("reason", ["abort", "error"])
def test_a_reply_given_up_by_the_server_is_a_failure(reason: str) -> None:
    error = failing(event({"content": "a"}), event({}, finish=reason), DONE)
    assert error.kind == "stream_error"
    assert reason in error.message


def test_an_error_field_of_null_is_none() -> None:
    assert play(raw({"error": None, "choices": [{"delta": {"content": "a"}}]}), STOP).content == "a"


def test_comments_and_crlf() -> None:
    reads = [
        b": ping\r\n\r\n",
        *(x.replace(b"\n", b"\r\n") for x in (ROLE, event({"content": "a"}), STOP, DONE)),
    ]
    reply = play(*reads)
    assert (reply.content, reply.done) == ("a", True)
    assert [arrival.t_ns for arrival in reply.arrivals] == [3]


def test_several_events_in_one_read_are_one_arrival() -> None:
    reply = play(
        ROLE + event({"reasoning": "ab"}, token_ids=[1]) + event({"content": "c"}, token_ids=[2]),
        event({"content": "d"}, token_ids=[3, 4]) + STOP + DONE,
    )
    assert reply.arrivals == (Arrival(1, "reasoning", 2, 3), Arrival(2, "content", 2, 1))


def test_pieces_with_one_stamp_are_one_read() -> None:
    decoder = ReplyDecoder()
    for text in "abc":
        decoder.feed(event({"content": text}), 7)
    decoder.feed(STOP, 8)
    assert decoder.finish().arrivals == (Arrival(7, "content", None, 3),)


def test_line_separators_inside_content_stay() -> None:
    reply = play(b"data: " + event({"content": "a\u2028b\u2029\x85"})[6:], STOP, DONE)
    assert reply.content == "a\u2028b\u2029\x85"


def test_no_space_after_data() -> None:
    reply = play(b"data:" + event({"content": "a"})[6:], STOP, b"data:[DONE]\n\n")
    assert (reply.content, reply.done) == ("a", True)


def test_without_done_a_finish_reason_makes_it_whole() -> None:
    reply = play(event({"content": "a"}), STOP)
    assert reply.done is False
    assert reply.finish_reason == "stop"


def test_without_done_and_finish_reason_it_is_cut() -> None:
    assert failing(ROLE, event({"content": "a"})).kind == "cut"
    assert failing().kind == "cut"
    assert failing(ROLE, event({"content": "a"}), STOP[:-1]).kind == "cut"


def test_nothing_after_done_counts() -> None:
    assert play(event({"content": "a"}), STOP, DONE + event({"content": "b"})).content == "a"


def test_several_tokens_in_a_chunk() -> None:
    reply = play(
        raw({"prompt_token_ids": [5, 6, 7], "id": "c", "choices": [{"delta": {"content": ""}}]}),
        event({"content": "abc"}, token_ids=[1, 2, 3]),
        event({"content": "d"}, token_ids=[4]),
        event({"content": ""}, finish="stop", token_ids=[9]),
        DONE,
    )
    assert reply.prompt_token_ids == (5, 6, 7)
    assert reply.token_ids == (1, 2, 3, 4, 9)
    assert reply.arrivals == (
        Arrival(2, "content", 3, 3),
        Arrival(3, "content", 1, 1),
        Arrival(4, "content", 1, 0),
    )


def test_tokens_without_text_arrive() -> None:
    # vLLM sends the ids of a marker that its parser swallows in an empty delta.
    reply = play(
        ROLE,
        event({}, token_ids=[1]),
        event({"reasoning": "x"}, token_ids=[2]),
        event({}, token_ids=[3]),
        event({"content": "y"}, token_ids=[4]),
        event({}, token_ids=[]),
        STOP,
    )
    assert [(a.t_ns, a.channel, a.tokens) for a in reply.arrivals] == [
        (2, "content", 1),
        (3, "reasoning", 1),
        (4, "reasoning", 1),
        (5, "content", 1),
    ]
    assert reply.t_first_content_ns == 5


def test_ids_that_are_sometimes_missing_are_unknown() -> None:
    reply = play(event({"content": "a"}, token_ids=[1]), event({"content": "b"}), STOP)
    assert reply.token_ids is None
    assert [arrival.tokens for arrival in reply.arrivals] == [1, None]


def test_null_ids_are_unknown() -> None:
    reply = play(event({"content": "a"}, token_ids=None), STOP)
    assert (reply.token_ids, reply.arrivals[0].tokens) == (None, None)


def test_all_in_one_read() -> None:
    reply = play(ROLE + event({"content": "abc"}, token_ids=[1, 2]) + STOP + DONE)
    assert reply.arrivals == (Arrival(1, "content", 2, 3),)


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(b'data: {"choices": [\n\n', id="JSON cut"),
        pytest.param(b"data: hello\n\n", id="no JSON"),
        pytest.param(b"data: \xff\n\n", id="no UTF-8"),
        pytest.param(b"data: [1, 2]\n\n", id="a list"),
        pytest.param(raw({"choices": [7]}), id="a choice that is none"),
        pytest.param(raw({"choices": {"a": 1}}), id="choices that are none"),
        pytest.param(event({"content": [{"type": "text", "text": "a"}]}), id="content in parts"),
        pytest.param(event({"reasoning": {"a": 1}}), id="reasoning that is no text"),
        pytest.param(event({"tool_calls": [{"index": 0, "function": {"arguments": {"a": 1}}}]})),
        pytest.param(raw({"choices": [], "usage": [1]}), id="usage that is none"),
    ],
)
def test_malformed_chunks_are_failures(bad: bytes) -> None:
    error = failing(ROLE, bad, STOP, DONE)
    assert error.kind == "malformed"
    assert "event 2" in error.message


def test_what_had_arrived_before_a_failure_is_kept() -> None:
    decoder = ReplyDecoder()
    decoder.feed(event({"content": "a"}), 1)
    decoder.feed(raw({"error": {"message": "boom"}}) + event({"content": "b"}), 2)
    assert decoder.error is not None
    assert decoder.so_far().content == "a"
    assert decoder.so_far().arrivals == (Arrival(1, "content", None, 1),)
    with pytest.raises(StreamError, match="boom"):
        decoder.finish()
