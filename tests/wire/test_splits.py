"""However a recorded stream is cut into reads, the reply is the same."""

import itertools
import random
from dataclasses import replace

import pytest

from loadjudge.wire.reply import Reply
from loadjudge.wire.stream import ReplyDecoder

STREAM = (
    "\ufeff: ping\n\n"
    'data: {"id":"c1","model":"m","prompt_token_ids":[1,2],"choices":[{"index":0,"delta":'
    '{"role":"assistant","content":""}}]}\n\n'
    'data: {"id":"c1","choices":[{"index":0,"delta":{"reasoning":"Þink\u2028ing "},'
    '"token_ids":[3,4]}],"usage":{"prompt_tokens":2,"completion_tokens":2}}\n\n'
    'data:{"choices":[{"delta":{"reasoning":"done","content":"Ça 🙂 "},"token_ids":[5]}]}\r\n\r\n'
    "id: 7\r\nretry: 10\r\n: ping\r\n"
    'data: {"choices":[{"delta":{"content":"va \\ud83d\\ude42"},"token_ids":[6,7]}]}\r\r'
    'data: {"choices":[{"delta":\n'
    'data: {"content":" 漢字"},"token_ids":[8]}]}\n\n'
    'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":'
    '{"name":"f","arguments":"{\\"é\\""}}]},"token_ids":[9]}]}\n\n'
    'data: {"choices":[{"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"g"}},'
    '{"index":0,"function":{"arguments":": 1}"}}]},"token_ids":[10]}]}\n\n'
    'event: message\ndata: {"choices":[{"delta":{},"finish_reason":"tool_calls",'
    '"token_ids":[11]}]}\n\n'
    'data: {"choices":[],"usage":{"prompt_tokens":2,"completion_tokens":9}}\n\n'
    "data: [DONE]\n\n"
).encode()


def play(*reads: bytes) -> Reply:
    decoder = ReplyDecoder()
    for number, read in enumerate(reads, 1):
        decoder.feed(read, number)
    reply = decoder.finish()
    assert sum(arrival.tokens or 0 for arrival in reply.arrivals) == 9
    stamps = [arrival.t_ns for arrival in reply.arrivals]
    assert stamps == sorted(set(stamps))
    return reply


def without_times(reply: Reply) -> tuple[Reply, int]:
    chars = sum(arrival.chars for arrival in reply.arrivals)
    return replace(reply, arrivals=(), t_first_content_ns=None), chars


WHOLE = without_times(play(STREAM))


def test_the_stream_says_what_it_should() -> None:
    reply = WHOLE[0]
    assert reply.reasoning == "Þink\u2028ing done"
    assert reply.content == "Ça 🙂 va 🙂 漢字"
    assert [(call.name, call.arguments) for call in reply.tool_calls] == [
        ("f", '{"é": 1}'),
        ("g", ""),
    ]
    assert reply.token_ids == (3, 4, 5, 6, 7, 8, 9, 10, 11)
    assert reply.prompt_token_ids == (1, 2)
    assert reply.done


def test_two_pieces_cut_at_every_byte() -> None:
    for cut in range(len(STREAM) + 1):
        assert without_times(play(STREAM[:cut], STREAM[cut:])) == WHOLE, cut


def test_byte_by_byte() -> None:
    reads = [STREAM[i : i + 1] for i in range(len(STREAM))]
    assert without_times(play(*reads)) == WHOLE


@pytest.mark.parametrize("seed", range(200))
def test_many_random_pieces(seed: int) -> None:
    draw = random.Random(seed)
    cuts = sorted(draw.choices(range(len(STREAM) + 1), k=draw.randint(2, 60)))
    bounds = [0, *cuts, len(STREAM)]
    reads = [STREAM[a:b] for a, b in itertools.pairwise(bounds)]
    assert without_times(play(*reads)) == WHOLE


def test_cut_short_anywhere_it_is_never_taken_for_whole_before_its_finish_reason() -> None:
    end = STREAM.index(b'"finish_reason"')
    for cut in range(end):
        decoder = ReplyDecoder()
        decoder.feed(STREAM[:cut], 1)
        assert decoder.error is None, cut
        assert not decoder.done
        assert decoder.so_far().finish_reason is None
