"""Each foreign format on small inputs."""

import contextlib
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadjudge.errors import JudgeError, Status
from loadjudge.sessions.model import Session
from loadjudge.sessions.read import FORMATS, SessionFile, parse_sessions


def lines(*records: Any) -> bytes:
    return b"".join(orjson.dumps(record) + b"\n" for record in records)


def parsed(*records: Any, format: str = "auto") -> SessionFile:
    return parse_sessions("f.jsonl", lines(*records), format)


def said(session: Session) -> list[tuple[str, str | None]]:
    """The last text sent and the text recorded, turn by turn."""
    return [
        (turn.messages[-1]["content"], turn.recorded["content"] if turn.recorded else None)
        for turn in session.turns
    ]


def test_sharegpt() -> None:
    conversations = [
        {"from": "system", "value": "be kind"},
        {"from": "human", "value": "a"},
        {"from": "gpt", "value": "b"},
        {"from": "user", "value": "c"},
        {"from": "chatgpt", "value": "d"},
    ]
    data = orjson.dumps([{"id": "x", "conversations": conversations}])
    found = parse_sessions("f.json", data)
    assert found.format == "sharegpt"
    assert said(found.sessions[0]) == [("a", "b"), ("c", "d")]
    assert found.sessions[0].turns[0].messages[0] == {"role": "system", "content": "be kind"}


def test_sharegpt_leading_and_split_replies_and_empty_conversations() -> None:
    found = parsed(
        {
            "id": "x",
            "conversations": [
                {"from": "gpt", "value": "welcome"},
                {"from": "human", "value": "a"},
                {"from": "gpt", "value": "b"},
                {"from": "gpt", "value": "c"},
            ],
        },
        {"id": "y", "conversations": []},
    )
    assert [said(session) for session in found.sessions] == [[("a", "b\n\nc")]]
    assert len(found.sessions[0].notes) == 2
    assert found.warnings == ("f.jsonl: 1 conversations without a user message are left out",)


def test_evalscope_exchanges_and_message_lists() -> None:
    found = parsed({"conversation": [{"human": "a", "assistant": "b"}, {"human": "c"}]})
    assert said(found.sessions[0]) == [("a", "b"), ("c", None)]
    found = parsed([{"role": "user", "content": "a"}], [{"role": "user", "content": "b"}])
    assert [session.id for session in found.sessions] == ["line-1", "line-2"]


def test_repeated_ids_of_foreign_formats_get_a_suffix() -> None:
    record = {"id": "x", "conversations": [{"from": "human", "value": "a"}]}
    found = parsed(record, record, record)
    assert [session.id for session in found.sessions] == ["x", "x-2", "x-3"]
    assert found.warnings == ("f.jsonl: 2 repeated ids got a suffix",)


def test_spec_bench() -> None:
    found = parsed({"question_id": 81, "category": "writing", "turns": ["a", "b"]})
    assert found.format == "spec_bench"
    assert (found.sessions[0].id, found.sessions[0].kind) == ("81", "chat")
    assert said(found.sessions[0]) == [("a", None), ("b", None)]


def test_vllm_multi_turn_array() -> None:
    record = {"id": "x", "messages": [{"role": "user", "content": "a"}]}
    found = parse_sessions("f.json", orjson.dumps([record]))
    assert (found.format, found.sessions[0].id) == ("vllm_multi_turn", "x")


def test_vllm_generator_configurations_are_refused() -> None:
    data = orjson.dumps({"filetype": "generate_conversations", "prompt_input": {}})
    with pytest.raises(JudgeError, match="synthetic conversations"):
        parse_sessions("f.json", data)


def test_aiperf_multi_turn() -> None:
    found = parsed(
        {
            "session_id": "s",
            "turns": [
                {"role": "system", "text": "be kind"},
                {"text": "a", "output_length": 20},
                {"texts": ["b", "c"], "delay": 1500, "output_length": 50},
                {"texts": [{"name": "q", "contents": ["d"]}], "timestamp": 3},
            ],
        },
        {"session_id": "s", "turns": [{"text": "e", "extra": {"k": 1}}]},
    )
    session = found.sessions[0]
    assert found.format == "aiperf"
    assert len(found.sessions) == 1
    assert [turn.wait_s for turn in session.turns] == [0.0, 1.5, 0.0, 0.0]
    assert session.turns[0].messages[0]["role"] == "system"
    assert session.turns[1].messages[0]["content"] == [
        {"type": "text", "text": "b"},
        {"type": "text", "text": "c"},
    ]
    assert session.max_tokens == 50
    assert len(session.notes) == 2
    assert found.warnings == ("f.jsonl: unknown keys are ignored: extra (in 1)",)


def test_aiperf_single_turn_lines_and_media() -> None:
    found = parsed({"text": "a"}, {"text": "b", "output_length": 9})
    assert [said(session) for session in found.sessions] == [[("a", None)], [("b", None)]]
    with pytest.raises(JudgeError, match=r"f\.jsonl, line 2, turn 1: image cannot be played"):
        parsed({"text": "a"}, {"text": "b", "image": "u.png"})


def test_custom_prompts() -> None:
    found = parsed({"prompt": "a", "output_tokens": 7}, {"prompt": "b", "output_tokens": -1})
    assert found.format == "custom"
    assert [session.max_tokens for session in found.sessions] == [7, None]
    with pytest.raises(JudgeError, match="line 1: a custom record needs a string under prompt"):
        parsed({"prompt": [1, 2, 3]})


def row(turn: int, role: str, conversation: str = "c", **more: Any) -> dict[str, Any]:
    return {"conversation_id": conversation, "turn": turn, "role": role, **more}


CALLS = [
    {"id": id, "type": "function", "function": {"name": "x", "arguments": "{}"}} for id in "ab"
]


def test_mlcommons_rows() -> None:
    found = parsed(
        row(1, "user", content="q", system="be kind", max_new_tokens=30),
        row(3, "tool", tool_results=[{"tool_call_id": id, "content": id} for id in "ab"]),
        row(2, "assistant", reasoning_content="hm", tool_calls=CALLS),
        row(4, "assistant", content="done"),
        row(5, "user", content="and?", delay_seconds=0.25),
        row(1, "user", "d", content="other"),
    )
    assert found.format == "mlcommons"
    first, second = found.sessions
    assert [len(turn.messages) for turn in first.turns] == [2, 2, 1]
    assert first.turns[0].recorded == {
        "role": "assistant",
        "content": None,
        "reasoning_content": "hm",
        "tool_calls": CALLS,
    }
    assert (first.max_tokens, first.turns[2].wait_s, second.id) == (30, 0.25, "d")


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([row(1, "assistant", content="x")], "must begin with a user row"),
        ([row(1, "user", content="x"), row(3, "assistant", content="y")], "turn 3 where turn 2"),
        (
            [
                row(1, "user", content="x"),
                row(1, "user", "d", content="x"),
                row(2, "assistant", content="y"),
            ],
            "line 3: conversation c began at f.jsonl, line 1 and was left",
        ),
        ([row(1, "user", content="x"), row(2, "robot", content="y")], "role 'robot'"),
        ([row(1, "user", content="x"), {"role": "user", "turn": 2}], "line 2: .*conversation_id"),
        ([row(1, "user", content="x"), row(2, "tool", tool_results=[])], "tool_results"),
    ],
)
def test_mlcommons_rows_are_checked(rows: list[Any], sentence: str) -> None:
    with pytest.raises(JudgeError, match=sentence):
        parsed(*rows)


def test_swe_agent_without_tool_calls_is_a_chat() -> None:
    history = [
        {"role": "system", "content": "s", "agent": "main"},
        {"role": "user", "content": "demo", "agent": "main", "is_demo": True},
        {"role": "user", "content": [{"type": "text", "text": "issue"}], "agent": "main"},
        {"role": "assistant", "content": "```ls```", "thought": "t", "agent": "main"},
        {"role": "user", "content": "a.py", "agent": "main"},
        {"role": "assistant", "content": "other", "agent": "critic"},
    ]
    found = parse_sessions("run.traj", orjson.dumps({"history": history, "trajectory": []}))
    session = found.sessions[0]
    assert (found.format, session.id, session.kind) == ("swe_agent", "run", "chat")
    assert said(session) == [("demo\n\nissue", "```ls```"), ("a.py", None)]
    assert set(session.turns[0].messages[1]) == {"role", "content"}
    assert len(session.notes) == 2


@pytest.mark.parametrize(
    "data",
    [
        lines({"timestamp": 0, "input_length": 6, "output_length": 3, "hash_ids": [1]}),
        lines({"id": "t", "block_size": 64, "requests": [{"t": 0, "in": 9, "out": 2}]}),
        b"Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,GPT,1,2,3,x\n",
    ],
)
def test_shape_only_traces_are_refused_with_the_reason(data: bytes) -> None:
    with pytest.raises(JudgeError, match="token counts, not text"):
        parse_sessions("trace.jsonl", data)


def test_unknown_formats_say_what_was_tried() -> None:
    with pytest.raises(JudgeError, match=r"keys are spans.*tried openai, sharegpt"):
        parsed({"spans": []})
    with pytest.raises(JudgeError, match="not recognised"):
        parsed({"id": "t", "language": "en", "text": "not a session"})
    with pytest.raises(JudgeError, match="no dataset format 'parquet'") as caught:
        parsed({}, format="parquet")
    assert caught.value.status is Status.USAGE


def test_an_array_where_lines_were_expected() -> None:
    data = orjson.dumps([{"question_id": 1, "turns": ["a"]}])
    with pytest.raises(JudgeError, match="a JSON array, where spec_bench has one object a line"):
        parse_sessions("f.json", data)


def test_repeated_ids_of_the_native_format_are_refused() -> None:
    record = {"id": "x", "messages": [{"role": "user", "content": "a"}]}
    with pytest.raises(JudgeError, match=r"line 2: id 'x' is already that of f\.jsonl, line 1"):
        parsed(record, record)


def test_unknown_keys_are_a_warning() -> None:
    found = parsed({"messages": [{"role": "user", "content": "a"}], "model": "m", "category": "c"})
    assert found.warnings == ("f.jsonl: unknown keys are ignored: model (in 1)",)


TEXT = {"role": "user", "content": "a", "delay_seconds": 1}
CALL = {"role": "assistant", "content": None, "tool_calls": CALLS[:1]}
RESULT = {"role": "tool", "tool_call_id": "a", "content": "ok"}
VALID: dict[str, Any] = {
    "openai": {"id": "i", "messages": [TEXT, CALL, RESULT], "max_tokens": 5, "notes": ["n"]},
    "vllm_multi_turn": {"id": "i", "messages": [TEXT], "tools": [{"function": {"name": "x"}}]},
    "sharegpt": {"id": "i", "conversations": [{"from": "human", "value": "a"}]},
    "spec_bench": {"question_id": 1, "turns": ["a"]},
    "aiperf": {"session_id": "s", "turns": [{"texts": [{"contents": ["a"]}], "delay": 3}]},
    "mlcommons": row(1, "user", content="q", system="s", tools=[], delay_seconds=1),
    "swe_agent": {"history": [TEXT, CALL, {**RESULT, "tool_call_ids": ["a"], "agent": None}]},
    "custom": {"prompt": "a", "output_tokens": 3, "id": "x"},
}
ODD: list[Any] = [None, True, -1, 0, 2.5, "", "x", "tool", [], [None], ["a"], [[]], {}, {"a": 1}]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values inside ``value``."""
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [path, *(found for key, item in inner for found in places(item, (*path, key)))]


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


@pytest.mark.parametrize("format", FORMATS)
def test_a_record_with_any_one_value_replaced_gives_sessions_or_a_sentence(format: str) -> None:
    for path in places(VALID[format]):
        for odd in ODD:
            record = replaced(VALID[format], path, odd)
            for chosen in (format, "auto"):
                with contextlib.suppress(JudgeError):  # anything else fails the test
                    assert parsed(record, format=chosen).sessions


@settings(max_examples=100, deadline=None)
@given(st.binary(min_size=1, max_size=60))
def test_any_bytes_give_a_sentence(data: bytes) -> None:
    with pytest.raises(JudgeError):
        parse_sessions("f.jsonl", b'{"messages": []}\n' + data)
