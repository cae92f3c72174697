"""Server-sent events: byte strings and the events that they give."""

import time

import pytest

from loadjudge.wire.sse import Event, EventDecoder


def decode(*pieces: bytes) -> list[tuple[str, bytes]]:
    decoder = EventDecoder()
    return [tuple(event) for piece in pieces for event in decoder.feed(piece)]


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        pytest.param(b"data: a\n\n", [b"a"], id="plain"),
        pytest.param(b"data:a\n\n", [b"a"], id="no space after the colon"),
        pytest.param(b"data:  a\n\n", [b" a"], id="only one space is taken"),
        pytest.param(b"data: a\n\ndata: b\n\n", [b"a", b"b"], id="two in one read"),
        pytest.param(b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"], id="CRLF"),
        pytest.param(b"data: a\r\rdata: b\r\r", [b"a", b"b"], id="CR"),
        pytest.param(b"data: a\n\r\ndata: b\r\n\n", [b"a", b"b"], id="mixed line ends"),
        pytest.param(b"data: a\ndata: b\n\n", [b"a\nb"], id="data lines are joined"),
        pytest.param(b": ping\n\ndata: a\n\n", [b"a"], id="comment event"),
        pytest.param(b": ping\ndata: a\n\n", [b"a"], id="comment line"),
        pytest.param(b":\n\n:\n\ndata: a\n\n", [b"a"], id="empty comments"),
        pytest.param(b"\xef\xbb\xbfdata: a\n\n", [b"a"], id="byte order mark"),
        pytest.param(b"\n\n\ndata: a\n\n\n\n", [b"a"], id="blank lines"),
        pytest.param(b"id: 7\nretry: 3\ndata: a\n\n", [b"a"], id="id and retry"),
        pytest.param(b"data\n\n", [b""], id="a field without colon has no value"),
        pytest.param(b"data:\n\n", [b""], id="empty data is an event"),
        pytest.param(b"event: x\n\n", [], id="no data is none"),
        pytest.param(b"data: a\n\ndata: b", [b"a"], id="cut at the end"),
        pytest.param(b"data: a\n\ndata: b\n", [b"a"], id="cut before the blank line"),
        pytest.param(
            "data: a\u2028b\u2029c\x0bd\x85e\n\n".encode(),
            ["a\u2028b\u2029c\x0bd\x85e".encode()],
            id="only CR and LF end a line",
        ),
    ],
)
def test_stream(stream: bytes, events: list[bytes]) -> None:
    wanted = [("message", data) for data in events]
    assert decode(stream) == wanted
    assert decode(*(stream[i : i + 1] for i in range(len(stream)))) == wanted
    for cut in range(len(stream)):
        assert decode(stream[:cut], stream[cut:]) == wanted


def test_event_name_lasts_for_one_event() -> None:
    assert decode(b"event: error\ndata: a\n\ndata: b\n\n") == [("error", b"a"), ("message", b"b")]
    assert decode(b"event: error\n\ndata: b\n\n") == [("message", b"b")]


def test_crlf_cut_between_reads_is_one_line_end() -> None:
    assert decode(b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n") == [("message", b"a\nb")]


def test_a_comment_in_its_own_read_loses_nothing() -> None:
    assert decode(b": ping\n\n", b"data: a\n\n", b"data: b\n\n") == [
        ("message", b"a"),
        ("message", b"b"),
    ]


def test_a_blank_at_a_read_boundary_stays() -> None:
    assert decode(b"data: hello", b" ", b"world\n\n") == [("message", b"hello world")]


def test_lone_takes_only_a_whole_plain_event() -> None:
    decoder = EventDecoder()
    assert decoder.lone(b"data: a\n\n") is None  # a BOM may still come
    assert decoder.feed(b"data: a\n\n") == [Event("message", b"a")]
    assert decoder.lone(b"data: a\n\n") == b"a"
    for other in (b"data: a\n", b"data: a\ndata: b\n\n", b"data: a\n\ndata: b\n\n", b": a\n\n"):
        assert decoder.lone(other) is None
    decoder.feed(b"data: half")
    assert decoder.lone(b"data: a\n\n") is None


def test_a_huge_event_in_small_pieces_is_not_quadratic() -> None:
    def seconds(pieces: int) -> float:
        decoder = EventDecoder()
        began = time.process_time()
        decoder.feed(b"data: ")
        for _ in range(pieces):
            decoder.feed(b"x" * 50)
        (event,) = decoder.feed(b"\n\n")
        assert len(event.data) == 50 * pieces
        return time.process_time() - began

    # 5 MB in 100,000 pieces: a decoder that joins at each piece would copy 250 GB.
    assert seconds(100_000) < 2.0


def test_many_data_lines_are_not_quadratic() -> None:
    decoder = EventDecoder()
    began = time.process_time()
    for _ in range(50_000):
        decoder.feed(b"data: x\n")
    (event,) = decoder.feed(b"\n")
    assert event.data.count(b"\n") == 49_999
    assert time.process_time() - began < 2.0
